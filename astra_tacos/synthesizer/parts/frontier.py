"""The frontier of a collective: the algorithms of which none has fewer steps and fewer rounds per chunk (SCCL).

An instance with C chunks per NPU, S steps and R rounds takes S latencies and R / C times what an NPU's bytes take on one lane.
The relaxation for S steps bounds R / C, so points that reach it are proven; others are proven among so many chunks as are tried.
Reductions are the same on the reversed links; an All-Reduce is a Reduce-Scatter and then an All-Gather.

Points of a frontier as schedules, and the sizes from which each is the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import LinkModel, compute_timing
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.parts.lanes import Demand, Lanes, demands_of
from astra_tacos.synthesizer.parts.rounds import Unknown, least_rounds, sends_of_instance

_IMAGE = {"reduce-scatter": "all-gather", "reduce": "broadcast"}
_MOST_TRIES = 24
_MORE_ROUNDS = 3
"""So many rounds from the least on are tried for each number of chunks."""


@dataclass(frozen=True, slots=True)
class Point:
    """An algorithm of the frontier.

    Parameters
    ----------
    chunks, steps, rounds
        Chunks per NPU (of the root's buffer, if it has one), steps and rounds.
    least
        Lower bound on rounds per chunk for so many steps, whatever the chunks.
    is_proven
        Whether no algorithm of so many steps has fewer rounds per chunk: it reaches the bound.
    undecided
        Instances of so many steps with fewer rounds per chunk that the solver gave up on, as (chunks, rounds).
    sends
        Steps, chunks and channels of the phase that spreads data (on the reversed links for one that reduces).
    """

    chunks: int
    steps: int
    rounds: int
    least: Fraction
    is_proven: bool
    undecided: tuple[tuple[int, int], ...]
    sends: tuple[tuple[int, int, int], ...]

    @property
    def ratio(self) -> Fraction:
        """Rounds per chunk."""
        return Fraction(self.rounds, self.chunks)


@dataclass(frozen=True, slots=True)
class Task:
    """What a frontier is asked for.

    Parameters
    ----------
    collective, root
        Key of `COLLECTIVES`, but All-Reduce, and the root of a rooted one.
    time_limit_s
        Seconds after which the solver gives up on an instance; None for no limit.
    """

    lanes: Lanes
    collective: str
    root: int | None = None
    time_limit_s: float | None = None
    _bounds: dict[int, Fraction | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Those that were asked for: each is a linear programme."""

    @property
    def image(self) -> str:
        """The collective that spreads data, of which this one is the mirror image or itself."""
        return _IMAGE.get(self.collective, self.collective)

    @property
    def links(self) -> Lanes:
        """The links on which that one runs."""
        return self.lanes.reversed() if self.collective in _IMAGE else self.lanes

    @property
    def unit(self) -> int:
        """Chunks come in multiples of this."""
        return self.lanes.num_npus if self.collective == "all-to-all" else 1

    def demands(self, chunks: int) -> list[Demand]:
        """The chunks, so many of each NPU."""
        return demands_of(self.image, self.lanes.num_npus, chunks, self.root)

    @property
    def least_steps(self) -> int:
        """No algorithm has fewer."""
        far = self.links.distances()
        return int(max(far[demand.source, target] for demand in self.demands(self.unit) for target in demand.targets))

    def bound(self, steps: int) -> Fraction | None:
        """Lower bound on rounds per chunk in so many steps; None if so many are too few.

        Raises
        ------
        Unknown
            If the programme is too large.
        """
        if steps not in self._bounds:
            rounds_per_chunk = least_rounds(self.links, self.demands(self.unit), steps)
            self._bounds[steps] = (
                None if rounds_per_chunk is None else Fraction(rounds_per_chunk).limit_denominator(1000) / self.unit
            )
        return self._bounds[steps]

    def decide(self, chunks: int, steps: int, rounds: int) -> tuple[tuple[int, int, int], ...] | None:
        """Sends of an instance, None if it has none.

        Raises
        ------
        Unknown
            If the solver gave up.
        """
        sends = sends_of_instance(self.links, self.demands(chunks), steps, rounds, self.time_limit_s)
        return None if sends is None else tuple(sends)


def frontier(task: Task, most_chunks: int, most_steps: int) -> Iterator[Point]:
    """The points of a frontier, by ascending steps.

    It ends where even the relaxation is too large.

    Parameters
    ----------
    most_chunks, most_steps
        What is tried at most.
    """
    best: Fraction | None = None
    asymptote = None
    with suppress(Unknown):
        asymptote = task.bound(task.lanes.num_npus)
    for steps in range(task.least_steps, most_steps + 1):
        if best is not None and asymptote is not None and best <= asymptote:
            return
        try:
            least = task.bound(steps)
        except Unknown:
            return
        if least is None or (best is not None and least >= best):
            continue
        undecided: list[tuple[int, int]] = []
        for tries, (ratio, chunks, rounds) in enumerate(_instances(task, least, best, steps, most_chunks)):
            if tries == _MOST_TRIES:
                undecided.append((chunks, rounds))
                break
            try:
                sends = task.decide(chunks, steps, rounds)
            except Unknown:
                undecided.append((chunks, rounds))
                continue
            if sends is not None:
                yield Point(chunks, steps, rounds, least, ratio <= least, tuple(undecided), sends)
                best = ratio
                break


def _instances(
    task: Task, least: Fraction, best: Fraction | None, steps: int, most_chunks: int
) -> list[tuple[Fraction, int, int]]:
    """Instances that may be feasible and better than the best, by rounds per chunk, then by chunks."""
    instances = []
    for chunks in range(task.unit, most_chunks * task.unit + 1, task.unit):
        low = max(steps, -(-(least * chunks).numerator // (least * chunks).denominator))
        ratios = [(Fraction(rounds, chunks), chunks, rounds) for rounds in range(low, low + _MORE_ROUNDS)]
        instances += [instance for instance in ratios if best is None or instance[0] < best]
    return sorted(instances)


_OF_SHARES = ("reduce-scatter", "scatter", "all-reduce")
"""Collectives whose size is that of the parts of all NPUs together."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm in rounds: one phase, or a Reduce-Scatter and an All-Gather.

    Parameters
    ----------
    points
        Its phases; that of a reduction has its sends on the reversed links.
    """

    collective: str
    root: int | None
    points: tuple[Point, ...]

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(point.steps for point in self.points)

    @property
    def rounds(self) -> int:
        """Rounds of all phases."""
        return sum(point.rounds for point in self.points)

    @property
    def chunks(self) -> int:
        """Chunks per NPU of each phase, or of the root."""
        return self.points[0].chunks

    def chunks_of_size(self, num_npus: int) -> int:
        """Chunks that the collective's size is cut into."""
        return self.chunks * (num_npus if self.collective in _OF_SHARES else 1)

    def time_ns(self, lanes: Lanes, size_bytes: float) -> float:
        """What synchronous rounds take: a latency a step, and a chunk on one lane a round."""
        chunk = size_bytes / self.chunks_of_size(lanes.num_npus)
        return self.steps * lanes.latency_ns + self.rounds * chunk / _rate(lanes)

    def collective_of(self, num_npus: int, size_bytes: int) -> Collective:
        """The collective in the chunks of this algorithm.

        Raises
        ------
        ConfigError
            If there are fewer bytes than chunks.
        """
        chunks = self.chunks // num_npus if self.collective == "all-to-all" else self.chunks
        return make_collective(self.collective, num_npus, size_bytes, chunks, self.root)

    def schedule(
        self,
        topology: Topology,
        size_bytes: int,
        link_model: LinkModel,
        reduce_bandwidth_gbps: float = 0.0,
    ) -> Schedule:
        """Its schedule: links take the sends in the order of the steps, each as early as possible.

        Raises
        ------
        ConfigError, SynthesisError
            If there are fewer bytes than chunks, or chunks are too small for the links.
        """
        collective = self.collective_of(topology.num_npus, size_bytes)
        timing = compute_timing(topology, collective, link_model, reduce_bandwidth_gbps)
        rows: list[tuple[int, int, bool]] = []
        for number, point in enumerate(self.points):
            reduces = collective.reduces and number == 0
            sends = reversed(point.sends) if reduces else point.sends
            rows += [(chunk, channel, reduces) for _, chunk, channel in sends]
        chunk, channel, adds = (np.array(column) for column in zip(*rows, strict=True))
        order = Sends(chunk.astype(np.int32), channel.astype(np.int32), adds.astype(np.bool_))
        return settle(Problem(topology, collective, timing), order, self.name)

    @property
    def name(self) -> str:
        """`rounds 6,3,7`: chunks, steps and rounds."""
        return f"rounds {self.chunks},{self.steps},{self.rounds}"


def composed(task: Task, point: Point) -> tuple[Point, ...] | None:
    """The two phases of an All-Reduce, the first of which is the Reduce-Scatter like a point of the All-Gather.

    None if there is none with as few steps and rounds.

    Raises
    ------
    Unknown
        If the solver gave up.
    """
    scatter = Task(task.lanes, "reduce-scatter", time_limit_s=task.time_limit_s)
    sends = scatter.decide(point.chunks, point.steps, point.rounds)
    if sends is None:
        return None
    return replace(point, undecided=(), sends=sends), point


def crossovers(algorithms: list[Algorithm], lanes: Lanes) -> list[float]:
    """From which size on each algorithm is faster than the one before it, in bytes; 0 for the first.

    Parameters
    ----------
    algorithms
        By ascending steps and descending rounds per byte.
    """
    sizes = [0.0]
    for algorithm, following in pairwise(algorithms):
        num = lanes.num_npus
        saved = algorithm.rounds / algorithm.chunks_of_size(num) - following.rounds / following.chunks_of_size(num)
        rate = _rate(lanes)
        sizes.append((following.steps - algorithm.steps) * lanes.latency_ns * rate / saved if saved > 0 else float("inf"))
    return sizes


def _rate(lanes: Lanes) -> float:
    """Bytes that a lane passes in a nanosecond."""
    return float(bytes_per_ns(np.array([lanes.lane_gibps]))[0])
