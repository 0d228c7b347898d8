"""Whether a network can do what a replay says of a run: one rule for native runs, for planned ones and for the user's own.

A run is *physically possible* if

- its native collectives move what they have to: ASTRA-sim's Broadcast only waits, and some of its algorithms move less than a
  pattern needs (`doubleBinaryTree` is an All-Reduce of a part, whatever the pattern); and
- where the backend has no queues, it takes no longer on a model that has them, but for what truncated delays may shorten: no
  link carries two messages at once (`CutThrough`).

A run that ends too early counts as if it ended where each link carries one message at a time. One that does not move its data
does not count.

What a sketch leaves of a network is found here, too, and the bounds with the sketch and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from astra_tacos.bounds import lower_bound
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.certificate import efficiency_of
from astra_tacos.network.sketch import Sketch
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.casting import cast_collectives
from astra_tacos.replayer.collective_program import CollectiveProgram
from astra_tacos.replayer.run_replay import Attempt, replay_once
from astra_tacos.run.backend import CUT_THROUGH, Backend
from astra_tacos.run.groups import used_groups
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import MOST_TRUNCATED
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.units import format_time

_NEEDED: dict[CommType, Callable[[Ints, int], Floats]] = {
    CommType.ALL_REDUCE: lambda inside, members: np.ones(inside.shape),
    CommType.ALL_GATHER: lambda inside, members: (members - inside).astype(np.float64),
    CommType.REDUCE_SCATTER: lambda inside, members: inside / members,
    CommType.ALL_TO_ALL: lambda inside, members: inside * (members - inside) / members,
}
"""By pattern, from (size of a set, number of members): how often a node's bytes have to enter the set, whatever the algorithm."""
_LEAST_MOVED = 0.95
"""Least share of what a pattern needs. Rounding to whole bytes loses below 5%, algorithms that move too little 25% or more."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """When a run ends.

    Parameters
    ----------
    end_ns
        In a replay.
    possible_ns
        When it ends where a network can carry it: `end_ns`, or if that is too early, its end with queues. None if it does not end
        there, or does not move its data.
    impossible
        Why no network lets it end at `end_ns`; "" if one may.
    """

    end_ns: int
    possible_ns: int | None
    impossible: str = ""

    @property
    def counted_ns(self) -> int:
        """The end that counts where runs are compared; that of the replay if none is known to be possible."""
        return self.end_ns if self.possible_ns is None else self.possible_ns

    def is_before(self, other: RunEnd) -> bool:
        """Whether this run is the better one: it is possible and the other is not, or it ends earlier.

        Ends on different models differ by what truncated delays may shorten: of two that are as near, the one that is possible
        as it was replayed is the better one.
        """
        if (self.possible_ns is None) != (other.possible_ns is None):
            return other.possible_ns is None
        if bool(self.impossible) == bool(other.impossible):
            return self.counted_ns < other.counted_ns
        if self.impossible:
            return not is_as_early(self.counted_ns, other.counted_ns)
        return is_as_early(other.counted_ns, self.counted_ns)


def earliest(ends: Iterable[RunEnd]) -> int:
    """Place of the best end, the first of equally good ones."""
    numbered = list(enumerate(ends))
    return reduce(lambda best, each: each if each[1].is_before(best[1]) else best, numbered)[0]


def judge_end(run: Run, backend: Backend, end_ns: int, known: dict[Backend, Attempt] | None = None) -> RunEnd:
    """Whether a network lets a run end so early, and when else it ends. Callers ask `why_idle` of Broadcasts that move nothing.

    Parameters
    ----------
    run
        The run.
    backend
        The network model of the replay.
    end_ns
        Its end there.
    known
        Its replays by network model, as far as they are there; gets those that are made.
    """
    reason = why_incomplete(run)
    return RunEnd(end_ns, None, reason) if reason else end_with_queues(run, backend, end_ns, known)


def why_idle(run: Run) -> str:
    """Which Broadcasts of a run move nothing, whatever its algorithms are; "" if there are none."""
    if run.system.replay_only:
        return ""
    is_broadcast = (run.workload.kind == NodeType.COMM_COLL) & (run.columns.comm_type == CommType.BROADCAST)
    rows = np.flatnonzero(is_broadcast & (run.workload.size_bytes > 0))
    groups = used_groups(run, rows)
    among_several = np.array([len(groups.members[group]) > 1 for group in groups.group.tolist()], np.bool_)
    idle = int(np.count_nonzero(among_several))
    return f"ASTRA-sim's own Broadcast only waits, so {idle:,} of its nodes move no data" if idle else ""


def why_incomplete(run: Run) -> str:
    """Which native collective moves less than its pattern needs, by what enters members that follow one another; "" if none."""
    casts = cast_collectives(run)
    every = (1 << len(run.network.dimensions)) - 1
    involved = run.columns.involved_dims  # a collective over some dimensions is one of each part of the network
    rows = np.flatnonzero((casts.native >= 0) & (run.implementation == NATIVE) & ((involved < 0) | (involved & every == every)))
    programs = casts.cast_program[casts.native[rows]]
    for number, first in zip(*np.unique(programs, return_index=True), strict=True):
        program, row = casts.programs[int(number)], int(rows[first])
        moved = share_moved(program, CommType(int(run.columns.comm_type[row])), int(run.workload.size_bytes[row]))
        if moved < _LEAST_MOVED:
            return f"{program.source} of {program.num_positions} ranks moves {moved:.0%} of what the pattern needs at most"
    return ""


def share_moved(program: CollectiveProgram, pattern: CommType, size_bytes: int) -> float:
    """What enters some members that follow one another, as a share of what has to: the least such share, at most 1.

    Sizes of messages are whole bytes, so one more byte counts for each.
    """
    count = program.num_positions
    send = np.flatnonzero(program.kind == NodeType.COMM_SEND)
    source = np.repeat(np.arange(count), np.diff(program.rank_first))[send]
    pair = (source + 1) * (count + 1) + program.peer[send] + 1
    sent = np.bincount(pair, program.size_bytes[send] + 1.0, (count + 1) ** 2).reshape(count + 1, count + 1)
    total = sent.cumsum(axis=0).cumsum(axis=1)
    begin, end = np.triu_indices(count + 1, 1)
    begin, end = begin[end - begin < count], end[end - begin < count]
    within = total[end, end] - total[begin, end] - total[end, begin] + total[begin, begin]
    entering = total[count, end] - total[count, begin] - within
    needed = size_bytes * _NEEDED[pattern](end - begin, count)
    return min(1.0, float((entering / np.maximum(needed, 1e-9)).min(initial=1.0)))


def end_with_queues(run: Run, backend: Backend, end_ns: int, known: dict[Backend, Attempt] | None = None) -> RunEnd:
    """Whether messages get through so early, and when else: at once if the backend has queues itself."""
    if backend.models_congestion:
        return RunEnd(end_ns, end_ns)
    queued = replay_once(run, CUT_THROUGH, {} if known is None else known)
    if queued.end_ns is None:
        return RunEnd(end_ns, None, f"where messages queue, {queued.reason}")
    if is_as_early(end_ns, queued.end_ns):
        return RunEnd(end_ns, end_ns)
    why = f"no queues; it ends at {queued.end_ns:,} ns where each link carries one message at a time"
    return RunEnd(end_ns, queued.end_ns, why)


def is_as_early(end_ns: int, queued_ns: int) -> bool:
    """Whether a run takes no longer where messages queue, but for what truncated delays may shorten."""
    return end_ns >= (1 - MOST_TRUNCATED) * queued_ns


@dataclass(frozen=True, slots=True)
class SketchCost:
    """The cost of a sketch.

    Parameters
    ----------
    sketch
        The sketch.
    links, left_out
        Links that it leaves, and links that it does not.
    bound, bound_without_ns
        Lower bounds under the sketch, and of the whole network in ns.
    efficiency
        Share of the bound under the sketch that the schedule reaches; None without a bound.
    """

    sketch: Sketch
    links: int
    left_out: int
    bound: Bound
    bound_without_ns: int
    efficiency: float | None

    @classmethod
    def of(cls, sketch: Sketch, searched: Topology, schedule: Schedule) -> SketchCost:
        """The cost of a sketch that leaves the topology `searched`, for a schedule that was found there."""
        topology, timing = schedule.topology, schedule.timing
        own = timing.of(searched, schedule.collective)
        with_it, without = (lower_bound(on, schedule.collective, delays) for on, delays in ((searched, own), (topology, timing)))
        larger = max(with_it, without, key=lambda bound: bound.time_ns)  # what bounds any algorithm bounds those under the sketch
        efficiency = efficiency_of(schedule.collective_time_ns, larger.time_ns)
        left_out = topology.num_links - searched.num_links
        return cls(sketch, searched.num_links, left_out, larger, without.time_ns, efficiency)

    def to_json(self) -> dict[str, Any]:
        """Its figures, ready for JSON."""
        return {
            "file": str(self.sketch.path),
            "links": self.links,
            "links_left_out": self.left_out,
            "bound_ns": self.bound.time_ns,
            "bound_without_ns": self.bound_without_ns,
            "bound": self.bound.name,
            "bound_where": self.bound.where,
            "efficiency": self.efficiency,
        }

    def describe(self) -> str:
        """The cost in a line."""
        more = self.bound.time_ns / max(self.bound_without_ns, 1) - 1
        # A bound that no algorithm reaches may lie anywhere below the best time, so a ratio of bounds proves no cost by itself.
        cost = f"at least {more:.1%} slower than what reaches the latter" if more > 0.0005 else "no bound knows of a cost"
        share = "" if self.efficiency is None else f"; the schedule is at {self.efficiency:.1%} of the former"
        text = f"{self.sketch.path} leaves out {self.left_out:,} of {self.links + self.left_out:,} links: "
        bounds = f"bound {format_time(self.bound.time_ns)} under it, {format_time(self.bound_without_ns)} without"
        return f"{text}{bounds}: {cost}{share}"
