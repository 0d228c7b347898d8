"""Which collective nodes of different ranks are one collective, and the implementation that each of them runs.

ASTRA-sim numbers the collectives of a communicator group in the order in which a rank issues them (`system/Sys.cc`,
`generate_collective`): messages of native algorithms match by that number, those of custom ones by the tags in their traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.graph.instances import match_turns
from astra_tacos.run.groups import NO_PLAN, is_member, members_of, plan_numbers
from astra_tacos.run.run import NATIVE, PATTERN_KEYS
from astra_tacos.run.trace.reader import read_names
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.grouping import count_before, row_places


@dataclass(frozen=True, slots=True, eq=False)
class Collectives:
    """The collective nodes of the workload that ASTRA-sim can run.

    Parameters
    ----------
    row
        int64[n], rows of the nodes, by rank and then by the order of issue.
    rank, group, comm_type, size_bytes
        int64[n]; `group` is an id, ALL_RANKS for all ranks.
    named, run
        int64[n], entry of the custom traces, or NATIVE: the implementation that a node names, and the one that it runs, which is
        that of the group's first node of the pattern (`system/CommunicatorGroup.cc`, `get_collective_plan`).
    planner
        int64[n], entry of the node that named the implementation that runs.
    sort
        int64[n], equal for interchangeable nodes, those for which it makes no difference which one runs first: they have the same
        group and implementation and, if native, the same pattern and size.
    number
        int64[n], number of earlier nodes of the same group on the same rank.
    instance
        int64[n], number of the collective, equal for its nodes on different ranks.
    certain
        bool[n], whether `instance` is certain: dependencies order all nodes of the group on each of its ranks.
    members
        Ranks of each group that is used, in the order of its file.
    """

    row: Ints
    rank: Ints
    group: Ints
    comm_type: Ints
    size_bytes: Ints
    named: Ints
    run: Ints
    planner: Ints
    sort: Ints
    number: Ints
    instance: Ints
    certain: Bools
    members: Mapping[int, tuple[int, ...]]


def find_collectives(
    view: TraceView, groups: Mapping[int, tuple[int, ...]], num_npus: int, implementation: Ints32
) -> Collectives:
    """Find all collectives of a workload.

    Parameters
    ----------
    implementation
        int32[num_nodes], the custom trace that each node of the workload names, or NATIVE.
    """
    group = view.group
    runnable = view.rows(NodeType.COMM_COLL) & np.isin(view.columns.comm_type, list(PATTERN_KEYS)) & view.runs
    members = members_of(groups, num_npus, np.unique(group[runnable]))
    rows = np.flatnonzero(runnable)
    rows = rows[is_member(members, group[rows], view.rank[rows])]
    rows = rows[np.argsort(view.issue.place[rows])]
    rank, group, comm_type, size = view.rank[rows], group[rows], view.columns.comm_type[rows], view.trace.size_bytes[rows]
    named = implementation[rows].astype(np.int64)
    planner = _planners(rank, group, comm_type)
    run = named[planner]
    keys = (group, run, np.where(run == NATIVE, comm_type, 0), np.where(run == NATIVE, size, 0))
    sort = row_places(*keys)[1]
    turn, certain = match_turns(view.trace, view.issue, rows, group, sort, partial(read_names, view.trace))
    return Collectives(
        row=rows,
        rank=rank,
        group=group,
        comm_type=comm_type,
        size_bytes=size,
        named=named,
        run=run,
        planner=planner,
        sort=sort,
        number=count_before(group, rank),
        instance=row_places(sort, turn)[1],
        certain=certain,
        members=members,
    )


def _planners(rank: Ints, group: Ints, comm_type: Ints) -> Ints:
    """int64[n], for each node the entry of the node that decides what it runs: the first one of its plan."""
    planner = np.arange(len(rank))
    plan, _ = plan_numbers(rank, group, comm_type)
    shared = np.flatnonzero(plan != NO_PLAN)
    _, first = np.unique(plan[shared], return_index=True)
    planner[shared] = shared[first][plan[shared]]
    return planner
