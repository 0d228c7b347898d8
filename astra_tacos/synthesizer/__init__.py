"""Synthesizers by the name that the command line gives them."""

from __future__ import annotations

from astra_tacos.collective import COLLECTIVES
from astra_tacos.synthesizer.synthesizer import Synthesizer
from astra_tacos.synthesizer.tacos import tacos
from astra_tacos.synthesizer.trees import refuse_too_large, trees

SYNTHESIZERS: dict[str, Synthesizer] = {
    "tacos": Synthesizer(tacos, frozenset(COLLECTIVES), is_random=True),
    "trees": Synthesizer(trees, frozenset(COLLECTIVES), is_random=True, refusal=refuse_too_large),
}
