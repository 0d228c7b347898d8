"""Measured times of demands: schedules synthesized on the sub-networks of the demands' groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.study.optimizer.model import Floats, Model, profile_arrays, step_ns, sub_dimension, subnetwork, subnetwork_model
from astra_tacos.study.optimizer.shape import MESSAGE, Demand, Job, Shape, stages
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

SCHEDULE, BY_DIMENSION, MODEL = "schedule", "schedule of each dimension", "model"
"""Ways to time a demand: one schedule; a schedule per dimension, of which the slowest counts; bytes over bandwidth."""
_SENDS = 1 << 17
_MOST_CHUNKS = 16


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The settings with which schedules of demands are synthesized.

    Parameters
    ----------
    synthesizers
        Names of synthesizers; the fastest schedule of all counts.
    options
        Options of each synthesizer. Where the number of chunks is `auto`, a number is used that makes few sends.
    max_npus
        Largest group that schedules are synthesized for.
    """

    synthesizers: tuple[str, ...] = ("tacos", "themis")
    options: SearchOptions = SearchOptions(chunks_per_npu="auto", trials=1)  # noqa: RUF009 (frozen)
    max_npus: int = 256


@dataclass(slots=True)
class Measure:
    """Times the demands of a job under a split, and caches the times of schedules."""

    job: Job
    shape: Shape
    synthesis: Synthesis
    on_schedule: Callable[[int], None] | None = None
    num_schedules: int = 0
    _known: dict[tuple[str, int, tuple[Dimension, ...]], float] = field(default_factory=dict)
    model: Model = field(init=False)
    """The model that times demands without a schedule: bytes over the bandwidth that groups have."""

    def __post_init__(self) -> None:
        self.model = subnetwork_model(self.job, self.shape)

    def how(self, demand: Demand) -> str:
        """The way in which a demand is timed: SCHEDULE, BY_DIMENSION or MODEL."""
        if demand.pattern == MESSAGE or not self._able(demand.pattern):
            return MODEL
        if demand.num_npus <= self.synthesis.max_npus:
            return SCHEDULE
        return BY_DIMENSION if max(demand.members) <= self.synthesis.max_npus else MODEL

    def demand_ns(self, number: int, split: Sequence[float]) -> float:
        """Time of one demand in ns."""
        demand = self.job.demands[number]
        how = self.how(demand)
        if how == SCHEDULE:
            return self._schedule_ns(demand.pattern, demand.size_bytes, subnetwork(self.shape, demand, split))
        if how == BY_DIMENSION:
            return max(self.stages_ns(number, split).values())
        loads = self.model.load[number] @ (1.0 / np.asarray(split, np.float64))
        return float(self.model.fixed_ns[number] + loads.max())

    def stages_ns(self, number: int, split: Sequence[float]) -> dict[int, float]:
        """Time of one demand in each of its dimensions by itself, in ns, by dimension."""
        demand = self.job.demands[number]
        times = {}
        for stage in stages(demand, self.shape.links):
            part = sub_dimension(self.shape, demand, stage.dimension, split[stage.dimension])
            times[stage.dimension] = self._schedule_ns(demand.pattern, math.ceil(stage.size_bytes), (part,))
        return times

    def all_demands_ns(self, split: Sequence[float]) -> Floats:
        """float64[num_demands], time of each demand in ns."""
        return np.array([self.demand_ns(number, split) for number in range(len(self.job.demands))], np.float64)

    def time_ns(self, split: Sequence[float]) -> float:
        """Time of a step in ns."""
        return step_ns(*profile_arrays(self.job), self.all_demands_ns(split))

    def _able(self, pattern: str) -> list[str]:
        return [name for name in self.synthesis.synthesizers if pattern in SYNTHESIZERS[name].collectives]

    def _schedule_ns(self, pattern: str, size_bytes: int, dimensions: tuple[Dimension, ...]) -> float:
        key = (pattern, size_bytes, dimensions)
        if key not in self._known:
            self._known[key] = self._synthesized_ns(*key)
        return self._known[key]

    def _synthesized_ns(self, pattern: str, size_bytes: int, dimensions: tuple[Dimension, ...]) -> float:
        topology = build_topology(NetworkConfig("sub-network", dimensions))
        npus = topology.num_npus
        options = self.synthesis.options
        asked = options.chunks_per_npu
        chunks = asked if isinstance(asked, int) else max(1, min(_MOST_CHUNKS, _SENDS // (2 * npus * npus)))
        parts = 1 if pattern == "all-gather" else npus
        size_bytes = max(size_bytes, parts)
        collective = make_collective(pattern, npus, size_bytes, max(1, min(chunks, size_bytes // parts)))
        times, refusals = [], []
        for name in self._able(pattern):
            refusal = SYNTHESIZERS[name].why_not(topology, collective)
            if refusal is not None:
                refusals.append(f"{name}: {refusal}")
                continue
            found = search(topology, collective, replace(options, synthesizer=name, chunks_per_npu=None))
            times.append(found.schedule.collective_time_ns)
            self.num_schedules += 1
            if self.on_schedule is not None:
                self.on_schedule(self.num_schedules)
        if not times:
            raise SynthesisError(f"{pattern} on {topology.name}: {'; '.join(refusals)}")
        return float(min(times))


def check_synthesis(synthesis: Synthesis) -> None:
    """Check that the synthesizers exist.

    Raises
    ------
    ConfigError
        If one does not; the message names it.
    """
    for name in synthesis.synthesizers:
        if name not in SYNTHESIZERS:
            raise ConfigError(f"synthesizer: found {name!r}, expected {' or '.join(SYNTHESIZERS)}")
