"""What each collective node of a run has to do, as the oracle reads it from the files of the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.run.groups import group_ids, members_of
from astra_tacos.run.patterns import GROUP_ATTRIBUTE, PATTERN_ATTRIBUTE, ROOT_ATTRIBUTES, ROOTED
from astra_tacos.run.run import Run
from astra_tacos.run.trace.node_bytes import attribute, load_rank, node_at
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.grouping import distinct_places

NO_ROOT = -1
"""Where a pattern has no root."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveNodes:
    """Collective nodes of a run, by row: what each has to do.

    `group` is the id of the group of each; `members` are the ranks of each group, ascending.
    """

    row: Ints
    pattern: Ints
    size_bytes: Ints
    root: Ints
    group: Ints
    members: dict[int, tuple[int, ...]]

    @property
    def groups(self) -> tuple[list[tuple[int, ...]], Ints]:
        """The distinct ranks of groups, and which each node has: of a group that does not exist, none."""
        group, place = distinct_places(self.group)
        number: dict[tuple[int, ...], int] = {}
        which = [number.setdefault(self.members.get(group_number, ()), len(number)) for group_number in group.tolist()]
        return list(number), np.array(which, np.int64)[place]


def collective_nodes(run: Run, moved: Ints | None = None) -> CollectiveNodes:
    """What each collective node of a run has to do; `moved` says where the ranks are that its nodes name."""
    trace, columns = run.workload, run.columns
    rows = np.flatnonzero((trace.kind == NodeType.COMM_COLL) & (columns.comm_type >= 0))
    group = group_ids(columns)[rows]
    pattern = columns.comm_type[rows].astype(np.int64)
    root = np.full(len(rows), NO_ROOT, np.int64)
    rank = trace.rank[rows]
    for rank_number in range(trace.num_ranks):
        entries = np.arange(*np.searchsorted(rank, (rank_number, rank_number + 1)))
        data = load_rank(trace, rank_number)
        names = (PATTERN_ATTRIBUTE, GROUP_ATTRIBUTE)
        names_any = any(name.encode() in data for name in names)
        if not names_any and not np.isin(pattern[entries], list(ROOTED)).any():
            continue
        for entry in entries.tolist():
            node = node_at(data, int(columns.byte_offset[rows[entry]]))
            carried = attribute(node, PATTERN_ATTRIBUTE)
            if carried in CommType.__members__:
                pattern[entry] = int(CommType[carried])
            if pattern[entry] in ROOTED:
                given = attribute(node, *ROOT_ATTRIBUTES)
                root[entry] = NO_ROOT if given is None else int(given)
            group_name = attribute(node, GROUP_ATTRIBUTE)
            if group_name is not None and str(group_name).isdecimal():
                group[entry] = int(group_name)
    members = members_of(run.groups.members, run.network.num_npus, np.unique(group))
    ranks = {number: tuple(sorted(of_group)) for number, of_group in members.items()}
    places = np.arange(run.network.num_npus) if moved is None else moved
    has_place, lacks = (root >= 0) & (root < len(places)), (root == NO_ROOT) & np.isin(pattern, list(ROOTED))
    root[has_place] = places[root[has_place]]
    named = {place: rank for rank, place in enumerate(places.tolist())}
    for number in np.unique(group[lacks]).tolist():
        first = min(ranks.get(number, ()), key=lambda member: named[member], default=NO_ROOT)
        root[lacks & (group == number)] = first
    return CollectiveNodes(rows, pattern, trace.size_bytes[rows], root, group, ranks)
