"""Measured times of a split: schedules synthesized for the demands' groups, or replays of the whole step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.replayer.run_replay import replay_run, try_classes
from astra_tacos.run.backend import CONGESTION_AWARE, Backend, choose_backend
from astra_tacos.run.compact_run import expand
from astra_tacos.run.run import Run
from astra_tacos.schedule.timing import least_bytes
from astra_tacos.solver.clock import timed_for
from astra_tacos.study.optimizer.model import (
    MESSAGE,
    Demand,
    Job,
    Profile,
    Shape,
    profile_arrays,
    stages,
    step_ns,
    sub_dimension,
    subnetwork,
    subnetwork_model,
)
from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

SCHEDULE, BY_DIMENSION, MODEL = "schedule", "schedule of each dimension", "model"
"""Ways to time a demand: one schedule; a schedule per dimension, of which the slowest counts; bytes over bandwidth."""
_SENDS = 1 << 17
"""Of a schedule that measures a split."""
_MOST_CHUNKS = 16
"""Of each NPU in it."""
_NUDGE = 1.1
"""Factor by which a bandwidth is raised and lowered to tell what it is worth."""
STEP = "step"
"""The pattern of the demand that a whole step is."""


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The settings with which schedules of demands are synthesized.

    Parameters
    ----------
    options
        Options of each synthesizer. Where the number of chunks is `auto`, a number is used that makes few sends.
    """

    synthesizers: tuple[str, ...] = ("tacos", "themis")
    options: SearchOptions = SearchOptions(chunks_per_npu="auto", trials=1)  # noqa: RUF009 (frozen)
    max_npus: int = 256


class Timer(ABC):
    """Times the demands of a job under a split."""

    job: Job

    @abstractmethod
    def demand_ns(self, number: int, split: Sequence[float]) -> float:
        """Time of one demand in ns."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What was done, for a result."""

    def time_ns(self, split: Sequence[float]) -> float:
        """Time of a step in ns."""
        every = np.array([self.demand_ns(number, split) for number in range(len(self.job.demands))], np.float64)
        return step_ns(*profile_arrays(self.job), every)

    def nearby(self, number: int, split: Floats) -> tuple[Floats, float]:
        """What a demand loads on each dimension (float64[parts, num_dimensions]) and its other ns, by slopes at a split."""
        rows = np.array([[self._slope(number, split, d) * split[d] for d in range(len(split))]])
        return rows, self.demand_ns(number, split.tolist()) - float(rows[0] @ (1 / split))

    def _slope(self, number: int, split: Floats, dimension: int) -> float:
        """Derivative of a demand's time by B0 / B of a dimension, in ns, 0 or more; B0 is its bandwidth in `split`."""
        if dimension not in self.job.demands[number].involved:
            return 0.0
        times = []
        for factor in (_NUDGE, 1 / _NUDGE):
            nudged = split.copy()
            nudged[dimension] *= factor
            times.append(self.demand_ns(number, nudged.tolist()))
        return max(0.0, (times[1] - times[0]) / (_NUDGE - 1 / _NUDGE))


class Replays(Timer):
    """Times the whole step, as one demand, by replays of its run, and caches the times.

    Parameters
    ----------
    backend
        The network model; None for `congestion-aware`: the one without queues charges a message for one dimension only.
    """

    def __init__(self, run: Run, shape: Shape, backend: Backend | None) -> None:
        self._run, self._shape = run, shape
        self._backend = choose_backend(backend)
        step_demand = Demand(STEP, 1, shape.sizes, (1,) * shape.num_dimensions)
        self.job = Job(shape.source, (step_demand,), (Profile(0, shape.num_npus, 0.0, (1,)),))
        self._known: dict[tuple[float, ...], float] = {}

    def demand_ns(self, number: int, split: Sequence[float]) -> float:
        """End of the run in ns."""
        key = tuple(split)
        if key not in self._known:
            self._known[key] = float(self._end_ns(self._shape.dimensions(split)))
        return self._known[key]

    def to_json(self) -> dict[str, Any]:
        """See `Timer.to_json`."""
        return {"num_replays": len(self._known), "backend": self._backend.name}

    def _end_ns(self, dimensions: tuple[Dimension, ...]) -> int:
        run = replace(self._run, network=replace(self._run.network, dimensions=dimensions))
        outcome = try_classes(run, self._backend) or replay_run(expand(run), self._backend)
        return outcome.end_ns


class Measure(Timer):
    """Times the demands of a job by schedules, and caches the times of these."""

    def __init__(self, job: Job, shape: Shape, synthesis: Synthesis, on_schedule: Callable[[int], None] | None = None) -> None:
        self.job, self.shape, self.synthesis, self.on_schedule = job, shape, synthesis, on_schedule
        self.num_schedules = 0
        self._known: dict[tuple[str, int, tuple[Dimension, ...]], float] = {}
        self.model = subnetwork_model(job, shape)
        """The model that times demands without a schedule: bytes over the bandwidth that groups have."""

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

    def nearby(self, number: int, split: Floats) -> tuple[Floats, float]:
        """See `Timer.nearby`."""
        demand = self.job.demands[number]
        how = self.how(demand)
        if how == MODEL:
            return self.model.load[number], float(self.model.fixed_ns[number])
        if how == BY_DIMENSION:
            rows = np.zeros((len(demand.involved), len(split)))
            for row, (dimension, time_ns) in enumerate(self.stages_ns(number, split.tolist()).items()):
                rows[row, dimension] = time_ns * split[dimension]
            return rows, 0.0
        return super().nearby(number, split)

    def to_json(self) -> dict[str, Any]:
        """See `Timer.to_json`."""
        timed_by = [self.how(demand) for demand in self.job.demands]
        document: dict[str, Any] = {"synthesizers": list(self.synthesis.synthesizers), "num_schedules": self.num_schedules}
        document |= {"backend": CONGESTION_AWARE.name}
        return document | {"timed_by": timed_by}

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
        options = timed_for(self.synthesis.options, topology, CONGESTION_AWARE)[0]
        chunk_option = options.chunks_per_npu
        chunks = chunk_option if isinstance(chunk_option, int) else max(1, min(_MOST_CHUNKS, _SENDS // (2 * npus * npus)))
        parts = 1 if pattern == "all-gather" else npus
        size_bytes = max(size_bytes, parts)
        most = size_bytes // (parts * int(least_bytes(topology).max()))  # of more, chunks hold a link for less than 1 ns
        collective = make_collective(pattern, npus, size_bytes, max(1, min(chunks, most)))
        times, refusals = [], []
        for name in self._able(pattern):
            refusal = SYNTHESIZERS[name].why_not(topology, collective)
            if refusal is not None:
                refusals.append(f"{name}: {refusal}")
                continue
            result = search(topology, collective, replace(options, synthesizer=name, chunks_per_npu=None))
            times.append(result.exact_ns)
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
