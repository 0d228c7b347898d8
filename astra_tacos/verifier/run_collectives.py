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

NO_ROOT = -1
"""Where a pattern has no root."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveNodes:
    """Collective nodes of a run, by row: what each has to do.

    `ranks` are those of its group, ascending; `group` is the id of that group.
    """

    row: Ints
    pattern: list[int]
    size_bytes: list[int]
    root: list[int]
    ranks: list[tuple[int, ...]]
    group: list[int]


def collective_nodes(run: Run, moved: Ints | None = None) -> CollectiveNodes:
    """What each collective node of a run has to do; `moved` says where the ranks are that its nodes name."""
    trace, columns = run.workload, run.columns
    rows = np.flatnonzero((trace.kind == NodeType.COMM_COLL) & (columns.comm_type >= 0))
    group = group_ids(columns)[rows]
    pattern = columns.comm_type[rows].tolist()
    root = np.full(len(rows), NO_ROOT, np.int64).tolist()
    rank = trace.rank[rows]
    for one in range(trace.num_ranks):
        entries = np.arange(*np.searchsorted(rank, (one, one + 1)))
        data = load_rank(trace, one)
        names = (PATTERN_ATTRIBUTE, GROUP_ATTRIBUTE)
        told = any(name.encode() in data for name in names)
        if not told and not any(pattern[entry] in ROOTED for entry in entries.tolist()):
            continue
        for entry in entries.tolist():
            node = node_at(data, int(columns.byte_offset[rows[entry]]))
            carried = attribute(node, PATTERN_ATTRIBUTE)
            if carried in CommType.__members__:
                pattern[entry] = int(CommType[carried])
            if pattern[entry] in ROOTED:
                given = attribute(node, *ROOT_ATTRIBUTES)
                root[entry] = NO_ROOT if given is None else int(given)
            own = attribute(node, GROUP_ATTRIBUTE)
            if own is not None and str(own).isdecimal():
                group[entry] = int(own)
    members = members_of(run.groups.members, run.network.num_npus, np.unique(group))
    ranks = {number: tuple(sorted(of_group)) for number, of_group in members.items()}
    of_node = [ranks.get(number, ()) for number in group.tolist()]
    places = list(range(run.network.num_npus)) if moved is None else moved.tolist()
    named = {place: rank for rank, place in enumerate(places)}
    roots = [
        (min(of_group, key=lambda each: named[each], default=NO_ROOT) if kind in ROOTED else given)
        if given == NO_ROOT
        else places[given]
        if 0 <= given < len(places)
        else given
        for given, kind, of_group in zip(root, pattern, of_node, strict=True)
    ]
    return CollectiveNodes(rows, pattern, trace.size_bytes[rows].tolist(), roots, of_node, group.tolist())
