"""Whether native collectives move what their patterns need.

ASTRA-sim's Broadcast only waits, and `doubleBinaryTree` is an All-Reduce of a part of the data, whatever the pattern. Runs with
such collectives are no runs to compare with: they are left out of searches over native configurations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astra_tacos.replayer.casting import cast_collectives
from astra_tacos.replayer.collective_program import CollectiveProgram
from astra_tacos.rules.refusal import refuse_groups
from astra_tacos.run.groups import ALL_RANKS, group_ids, used_groups
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.arrays import Bools, Floats, Ints

_NEEDED: dict[CommType, Callable[[Ints, int], Floats]] = {
    CommType.ALL_REDUCE: lambda inside, members: np.ones(inside.shape),
    CommType.ALL_GATHER: lambda inside, members: (members - inside).astype(np.float64),
    CommType.REDUCE_SCATTER: lambda inside, members: inside / members,
    CommType.ALL_TO_ALL: lambda inside, members: inside * (members - inside) / members,
}
"""By pattern, from (size of a set, number of members): how often a node's bytes have to enter the set, whatever the algorithm."""
_LEAST_MOVED = 0.95
"""Least share of what a pattern needs. Rounding to whole bytes loses below 5%, algorithms that move too little 25% or more."""


def why_idle(run: Run) -> str:
    """Which Broadcasts of a run move nothing, whatever its algorithms are; "" if there are none."""
    if run.system.replay_only:
        return ""
    is_broadcast = (run.workload.kind == NodeType.COMM_COLL) & (run.columns.comm_type == CommType.BROADCAST)
    rows = np.flatnonzero(is_broadcast & (run.workload.size_bytes > 0))
    refuse_groups(run)
    groups = used_groups(run, rows)
    among_several = np.array([len(groups.members[group]) > 1 for group in groups.group.tolist()], np.bool_)
    idle = int(np.count_nonzero(among_several))
    return f"ASTRA-sim's own Broadcast only waits, so {idle:,} of its nodes move no data" if idle else ""


def why_incomplete(run: Run) -> str:
    """Which native collective moves less than its pattern needs, by what enters members that follow one another; "" if none."""
    if run.classes is not None:
        return _why_too_few(run)
    casts = cast_collectives(run)
    rows = np.flatnonzero((casts.native >= 0) & (run.implementation == NATIVE) & _is_over_all(run))
    programs = casts.cast_program[casts.native[rows]]
    for number, first in zip(*np.unique(programs, return_index=True), strict=True):
        program, row = casts.programs[int(number)], int(rows[first])
        moved = share_moved(program, CommType(int(run.columns.comm_type[row])), int(run.workload.size_bytes[row]))
        if moved < _LEAST_MOVED:
            return f"{program.source} of {program.num_positions} ranks moves {moved:.0%} of what the pattern needs at most"
    return ""


def _is_over_all(run: Run) -> Bools:
    """bool[num_nodes], whether a node involves all dimensions; one over some dimensions is one of each part of the network."""
    every, involved = (1 << len(run.network.dimensions)) - 1, run.columns.involved_dims
    is_over_all: Bools = (involved < 0) | (involved & every == every)
    return is_over_all


def _why_too_few(run: Run) -> str:
    """Which native collective of all ranks leaves out dimensions. Algorithms of runs with classes move all data of others."""
    is_native = (run.workload.kind == NodeType.COMM_COLL) & (run.implementation == NATIVE) & (run.workload.size_bytes > 0)
    group, dimensions = group_ids(run.columns), len(run.network.dimensions)
    full_groups = [number for number, members in run.groups.members.items() if len(members) == run.network.num_npus]
    rows = is_native & _is_over_all(run) & np.isin(group, [ALL_RANKS, *full_groups])
    for pattern in np.unique(run.columns.comm_type[rows]).tolist():
        key = PATTERN_KEYS.get(pattern)
        named = len(run.system.native.get(key, ())) if key else dimensions
        if named < dimensions:
            return f"{key}: the system names algorithms of {named} of {dimensions} dimensions"
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
