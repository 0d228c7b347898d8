"""What a workload demands of each dimension of a network: compute and communication of every kind of rank, by LIBRA's model.

A collective runs a stage in one dimension after another. Its chunks are pipelined, so the time of the collective is that of its
slowest dimension, max over d of m_d / B_d. Source: LIBRA (ISPASS 2024), section 4, as its public code implements it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MESSAGE = "message"
"""Pattern of a demand between two NPUs."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One kind of communication.

    Parameters
    ----------
    pattern
        `all-reduce`, `reduce-scatter`, `all-gather`, `all-to-all`, or `message`.
    size_bytes
        Size that the workload states: the shard of one NPU for an All-Gather, the whole buffer for the others.
    members
        Number of members' coordinates per dimension, 1 if it is not involved. For a message, 2 if its ends differ there.
    strides
        Distance of neighbouring members per dimension.
    """

    pattern: str
    size_bytes: int
    members: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def num_npus(self) -> int:
        """Number of NPUs of the group."""
        return math.prod(self.members)

    @property
    def involved(self) -> tuple[int, ...]:
        """Indices of the dimensions in which the group has more than one member."""
        return tuple(index for index, count in enumerate(self.members) if count > 1)


@dataclass(frozen=True, slots=True)
class Stage:
    """The part of a collective in one dimension: its size in bytes there, and the bytes m that an NPU sends."""

    dimension: int
    members: int
    size_bytes: float
    traffic_bytes: float


def stages(demand: Demand, links: Sequence[int]) -> tuple[Stage, ...]:
    """Stages of a demand, in the order in which it runs them; `links` is the number of an NPU's links in each dimension.

    A message uses one link in each dimension in which its ends differ, so that further links do not speed it up.
    """
    size = float(demand.size_bytes)
    visited: list[Stage] = []
    order = reversed(demand.involved) if demand.pattern == "all-gather" else demand.involved
    for dimension in order:
        members = demand.members[dimension]
        if demand.pattern == MESSAGE:
            visited.append(Stage(dimension, members, size, size * links[dimension]))
            continue
        share = (members - 1) / members
        if demand.pattern == "all-gather":
            visited.append(Stage(dimension, members, size, size * (members - 1)))
            size *= members
        elif demand.pattern == "all-to-all":
            visited.append(Stage(dimension, members, size, size * share))
        else:
            phases = 2 if demand.pattern == "all-reduce" else 1
            visited.append(Stage(dimension, members, size, phases * size * share))
            size /= members
    return tuple(visited)


def traffic(demand: Demand, links: Sequence[int]) -> tuple[float, ...]:
    """Bytes m that an NPU sends in each dimension, 0 where it is not involved."""
    by_dimension = [0.0] * len(demand.members)
    for stage in stages(demand, links):
        by_dimension[stage.dimension] = stage.traffic_bytes
    return tuple(by_dimension)


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of rank: the sum of its compute times, and the number of times that it has each demand.

    `counts` has one entry per demand of the job; `num_ranks` ranks are alike, and `rank` is the first of them.
    """

    rank: int
    num_ranks: int
    compute_ns: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """The distinct demands of a workload, and the profiles of its ranks. A step takes the time of the slowest profile.

    `notes` are remarks for readers of the results.
    """

    source: str
    demands: tuple[Demand, ...]
    profiles: tuple[Profile, ...]
    notes: tuple[str, ...] = ()
