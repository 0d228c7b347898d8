"""Synthesizers by the name that the command line gives them."""

from __future__ import annotations

from typing import Protocol

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.tacos import tacos
from astra_tacos.topology.topology import Topology


class Synthesizer(Protocol):
    """Makes one schedule from a seed; the same arguments give the same schedule. Runs without the interpreter lock."""

    def __call__(self, topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule: ...


SYNTHESIZERS: dict[str, Synthesizer] = {"tacos": tacos}
