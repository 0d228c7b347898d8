"""Collective instances: which collective nodes of different ranks form one collective, whatever their ids.

Nodes of one group, pattern, size and root are interchangeable: the k-th of them on each member form an instance. Where
dependencies do not order the nodes of a group and all members give them the same names, the nodes with one name form an instance
instead, unless that would make a cycle of waiting.

The collective nodes of a workload: rank, group, pattern, size and root of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from astra_tacos.run.graph.issue_order import IssueOrder
from astra_tacos.run.groups import group_ids, is_member, members_of
from astra_tacos.run.patterns import GROUP_ATTRIBUTE, PATTERN_ATTRIBUTE, ROOT_ATTRIBUTES, ROOTED, pattern_name
from astra_tacos.run.run import Run
from astra_tacos.run.trace.node_bytes import attribute, load_rank, node_at
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import INVALID, Trace, precede
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import count_before, distinct_places, row_places

Names = Callable[[Ints], list[str]]
"""The names of the nodes at some rows."""
NO_ROOT = -1
"""Where a pattern has no root."""


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveNodes:
    """Collective nodes that run, by rank and in the order in which a rank issues them.

    Parameters
    ----------
    row, rank, group, pattern, size_bytes, root
        int64[n]; `group` is an id, ALL_RANKS for all ranks, `pattern` a `CommType` (of a carried node, what it was), `root` a
        rank, NO_ROOT where the pattern has none.
    named_group
        int64[n], id of the group that the node names: of one that runs a joint trace, not its own.
    """

    row: Ints
    rank: Ints
    group: Ints
    pattern: Ints
    size_bytes: Ints
    root: Ints
    members: Mapping[int, tuple[int, ...]]
    named_group: Ints


def find_collective_nodes(run: Run, issue: IssueOrder) -> CollectiveNodes:
    """All collective nodes that a run executes.

    Raises
    ------
    ConfigError
        If a node has no pattern or size, or its group does not have its rank.
    """
    trace, columns = run.workload, run.columns
    rows = issue.order[(trace.kind[issue.order] == NodeType.COMM_COLL) & issue.runs[issue.order]]
    rank, pattern, size = trace.rank[rows], columns.comm_type[rows].copy(), trace.size_bytes[rows]
    root = np.full(len(rows), NO_ROOT, np.int64)
    for lacking, missing in ((pattern < 0, "comm_type"), (size < 0, "comm_size")):
        if lacking.any():
            node = trace.describe_node(int(rows[np.argmax(lacking)]))
            raise ConfigError(f"{trace.prefix}: {node}: a collective without {missing}, expected one")
    named_group = group_ids(run.columns)[rows]
    group = named_group.copy()
    _apply_stated(run, rows, pattern, root, group)
    members = members_of(run.groups.members, run.network.num_npus, group)
    inside = is_member(members, group, rank)
    if not inside.all():
        node = trace.describe_node(int(rows[np.argmin(inside)]))
        raise ConfigError(f"{trace.prefix}: {node}: its group is {group[np.argmin(inside)]}, expected one that has its rank")
    rooted = np.isin(pattern, list(ROOTED)) & (root == NO_ROOT)
    root[rooted] = [min(members[number]) for number in group[rooted].tolist()]
    for entry in np.flatnonzero(root != NO_ROOT).tolist():
        if root[entry] not in members[int(group[entry])]:
            node = trace.describe_node(int(rows[entry]))
            raise ConfigError(f"{trace.prefix}: {node}: its root is rank {root[entry]}, expected a rank of its group")
    return CollectiveNodes(rows, rank, group, pattern, size, root, members, named_group)


def _apply_stated(run: Run, rows: Ints, pattern: Ints, root: Ints, group: Ints) -> None:
    """Put in what nodes state: patterns of nodes that another type carries, roots, and own groups in joint traces."""
    columns = run.columns
    carried, group_id, given = columns.carried_pattern[rows], columns.own_group[rows], columns.root[rows]
    pattern[carried >= 0] = carried[carried >= 0]
    group[group_id >= 0] = group_id[group_id >= 0]
    is_rooted = np.isin(pattern, list(ROOTED))
    root[is_rooted] = given[is_rooted]
    wrong = np.stack((carried == INVALID, group_id == INVALID, is_rooted & (given == INVALID)), axis=1)
    if wrong.any():
        entry, which = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        names, expected = (
            ((PATTERN_ATTRIBUTE,), "a pattern"),
            ((GROUP_ATTRIBUTE,), "a number"),
            (ROOT_ATTRIBUTES, "a rank"),
        )[int(which)]
        _refuse(run, int(rows[entry]), names, expected)


def _refuse(run: Run, row: int, names: tuple[str, ...], expected: str) -> NoReturn:
    """Raise the error for the first attribute of some names that a node has."""
    trace = run.workload
    rank = int(np.searchsorted(trace.rank_first, row, side="right")) - 1
    node = node_at(load_rank(trace, rank), int(run.columns.byte_offset[row]))
    name = next(entry.name for entry in node.attr if entry.name in names)
    value = attribute(node, name)
    value_text = repr(value) if isinstance(value, (int, float, str, bytes)) else "a list"
    raise ConfigError(f"{trace.prefix}: {trace.describe_node(row)}: {name} is {value_text}, expected {expected}")


def describe(nodes: CollectiveNodes, trace: Trace, entry: int) -> str:
    """`rank 3, node 17 (ALL_REDUCE of 4,096 bytes)`."""
    collective_text = f"{pattern_name(int(nodes.pattern[entry]))} of {int(nodes.size_bytes[entry]):,} bytes"
    return f"{trace.describe_node(int(nodes.row[entry]))} ({collective_text})"


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """Collective instances: for each one, a node on every member of its group.

    Parameters
    ----------
    instance
        int64[len(nodes)], to which collective each belongs.
    group, pattern, size_bytes, root
        int64[num_instances], as in `CollectiveNodes`.
    certain
        bool[num_instances], whether these nodes are one collective in whatever order ranks issue their nodes.
    """

    nodes: CollectiveNodes
    instance: Ints
    group: Ints
    pattern: Ints
    size_bytes: Ints
    root: Ints
    certain: Bools

    @property
    def num_instances(self) -> int:
        """Number of instances."""
        return len(self.group)

    @property
    def num_members(self) -> Ints:
        """int64[num_instances]."""
        sizes = {group: len(ranks) for group, ranks in self.nodes.members.items()}
        return np.array([sizes[group] for group in self.group.tolist()], np.int64)


def match_instances(trace: Trace, issue: IssueOrder, nodes: CollectiveNodes, names: Names | None) -> Instances:
    """Match the collective nodes of different ranks; `names` is None where names do not count.

    Raises
    ------
    ConfigError
        If members of a group do not agree on its collectives: group, position, and the nodes of two ranks.
    """
    _, kind = row_places(nodes.group, nodes.pattern, nodes.size_bytes, nodes.root)
    _check_agreement(trace, nodes, kind)
    turn, certain = match_turns(trace, issue, nodes.row, nodes.group, kind, names)
    # Collectives are numbered as the first of their nodes comes up, rank by rank.
    first, which = row_places(kind, turn)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    first = np.sort(first)
    columns = (nodes.group[first], nodes.pattern[first], nodes.size_bytes[first], nodes.root[first], certain[first])
    return Instances(nodes, number[which], *columns)


def match_turns(
    trace: Trace,
    issue: IssueOrder,
    rows: Ints,
    group: Ints,
    kind: Ints,
    names: Names | None,
) -> tuple[Ints, Bools]:
    """For each collective node its turn among those of its kind, equal for the nodes of a collective; and whether it is certain.

    Where dependencies order all nodes of a group on each rank, its turns are certain. Other nodes of a kind have the turn that
    their name has on the first rank, if all ranks have the same names, else that in which their rank issues them.

    Parameters
    ----------
    rows, group, kind
        int64[n], nodes in the order of `issue`, their groups, and equal numbers for interchangeable nodes; a kind has one group.
    names
        The names of rows; None where names do not count.
    """
    rank = trace.rank[rows]
    turn = count_before(kind, rank)
    certain = ~np.isin(group, np.unique(group[~_chained(trace, issue, rows, group)]))
    open_ = np.flatnonzero(~certain)
    if names is not None and len(open_):
        _, name = np.unique(np.array(names(rows[open_])), return_inverse=True)
        sort, at = kind[open_], rank[open_]
        first, item = row_places(sort, name, count_before(sort, at, name))
        one_of_rank, _ = row_places(sort, at)
        is_lacking = np.bincount(item)[item] < np.bincount(sort[one_of_rank])[sort]  # some rank has fewer nodes of the name
        agree = ~np.isin(sort, sort[is_lacking])
        turn[open_[agree]] = turn[open_[first]][item][agree]
    return turn, certain


def _chained(trace: Trace, issue: IssueOrder, rows: Ints, group: Ints) -> Bools:
    """bool[n], whether dependencies order each node after the previous node of its group on its rank."""
    rank = trace.rank[rows]
    order = np.lexsort((issue.place[rows], group, rank))
    follows = (group[order][1:] == group[order][:-1]) & (rank[order][1:] == rank[order][:-1])
    second = np.flatnonzero(follows) + 1
    chained = np.ones(len(rows), np.bool_)
    chained[order[second]] = precede(trace, issue.place, issue.order, rows[order[second - 1]], rows[order[second]])
    return chained


def _check_agreement(trace: Trace, nodes: CollectiveNodes, kind: Ints) -> None:
    for group, ranks in nodes.members.items():
        entries = np.flatnonzero(nodes.group == group)
        _, local = distinct_places(kind[entries])
        counts = np.zeros((len(ranks), int(local.max(initial=-1)) + 1), np.int64)
        place = {rank: number for number, rank in enumerate(ranks)}
        np.add.at(counts, (np.array([place[rank] for rank in nodes.rank[entries].tolist()], np.int64), local), 1)
        odd = np.flatnonzero((counts != counts[0]).any(axis=1))
        if len(odd):
            _disagreement(trace, nodes, kind, group, ranks[0], ranks[int(odd[0])])


def _disagreement(trace: Trace, nodes: CollectiveNodes, kind: Ints, group: int, first_rank: int, second_rank: int) -> None:
    """Raise the error for two ranks that differ: the first position at which they do."""
    lists = [np.flatnonzero((nodes.group == group) & (nodes.rank == rank)) for rank in (first_rank, second_rank)]
    shorter = min(len(entries) for entries in lists)
    differ = np.flatnonzero(kind[lists[0][:shorter]] != kind[lists[1][:shorter]])
    position = int(differ[0]) if len(differ) else shorter
    texts = [
        describe(nodes, trace, int(entries[position])) if position < len(entries) else f"no node on rank {rank}"
        for rank, entries in zip((first_rank, second_rank), lists, strict=True)
    ]
    name = "all ranks" if group == 0 else f"group {group}"
    raise ConfigError(
        f"{trace.prefix}: {name}, position {position}: {texts[0]}, but {texts[1]}; expected one collective on all members"
    )
