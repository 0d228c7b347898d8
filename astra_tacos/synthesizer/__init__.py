"""Synthesizers by the name that the command line gives them."""

from __future__ import annotations

from astra_tacos.collective import COLLECTIVES
from astra_tacos.synthesizer.synthesizer import Synthesizer
from astra_tacos.synthesizer.tacos import tacos

SYNTHESIZERS: dict[str, Synthesizer] = {
    "tacos": Synthesizer(tacos, frozenset(COLLECTIVES), is_random=True),
}
