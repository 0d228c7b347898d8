"""Points of a frontier as schedules, and the sizes from which each is the fastest."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import LinkModel, compute_timing
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.rounds.frontier import Point, Task
from astra_tacos.synthesizer.rounds.lanes import Lanes

_OF_SHARES = ("reduce-scatter", "scatter", "all-reduce")
"""Collectives whose size is that of the parts of all NPUs together."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm in rounds: one phase, or a Reduce-Scatter and an All-Gather.

    Parameters
    ----------
    collective, root
        What it computes.
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

        Parameters
        ----------
        topology, size_bytes
            The network, and the size of the collective.
        link_model, reduce_bandwidth_gbps
            Of its timing.

        Raises
        ------
        ConfigError, SynthesisError
            If there are fewer bytes than chunks, or chunks are too small for the links.
        """
        what = self.collective_of(topology.num_npus, size_bytes)
        timing = compute_timing(topology, what, link_model, reduce_bandwidth_gbps)
        rows: list[tuple[int, int, bool]] = []
        for number, point in enumerate(self.points):
            reduces = what.reduces and number == 0
            sends = reversed(point.sends) if reduces else point.sends
            rows += [(chunk, channel, reduces) for _, chunk, channel in sends]
        chunk, channel, adds = (np.array(column) for column in zip(*rows, strict=True))
        order = Sends(chunk.astype(np.int32), channel.astype(np.int32), adds.astype(np.bool_))
        return settle(topology, what, timing, order, self.name)

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
    first = Point(point.chunks, point.steps, point.rounds, point.least, point.is_proven, (), sends)
    return first, point


def crossovers(algorithms: list[Algorithm], lanes: Lanes) -> list[float]:
    """From which size on each algorithm is faster than the one before it, in bytes; 0 for the first.

    Parameters
    ----------
    algorithms
        By ascending steps and descending rounds per byte.
    lanes
        The links.
    """
    sizes = [0.0]
    for one, two in pairwise(algorithms):
        num = lanes.num_npus
        saved = one.rounds / one.chunks_of_size(num) - two.rounds / two.chunks_of_size(num)
        rate = _rate(lanes)
        sizes.append((two.steps - one.steps) * lanes.latency_ns * rate / saved if saved > 0 else float("inf"))
    return sizes


def _rate(lanes: Lanes) -> float:
    """Bytes that a lane passes in a nanosecond."""
    return float(bytes_per_ns(np.array([lanes.lane_gibps]))[0])
