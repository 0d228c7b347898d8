"""Collective instances: which collective nodes of different ranks form one collective, whatever their ids.

Nodes of one group, pattern, size and root are interchangeable: the k-th of them on each member form an instance. If all members
give these nodes the same distinct names, the nodes with one name form an instance instead, unless that would make a cycle of
waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.collective_nodes import CollectiveNodes, describe
from astra_tacos.run.trace.reader import read_names
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import row_places


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """Collective instances: for each one, a node on every member of its group.

    Parameters
    ----------
    nodes
        The nodes.
    instance
        int64[len(nodes)], to which collective each belongs.
    group, pattern, size_bytes, root
        int64[num_instances], as in `CollectiveNodes`.
    """

    nodes: CollectiveNodes
    instance: NDArray[np.int64]
    group: NDArray[np.int64]
    pattern: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    root: NDArray[np.int64]

    @property
    def num_instances(self) -> int:
        """Number of instances."""
        return len(self.group)

    @property
    def num_members(self) -> NDArray[np.int64]:
        """int64[num_instances]."""
        sizes = {group: len(ranks) for group, ranks in self.nodes.members.items()}
        return np.array([sizes[group] for group in self.group.tolist()], np.int64)


def match_instances(trace: Trace, nodes: CollectiveNodes, *, by_name: bool) -> Instances:
    """Match the collective nodes of different ranks.

    Parameters
    ----------
    trace
        The workload.
    nodes
        Its collective nodes.
    by_name
        Whether names may say which nodes belong together.

    Raises
    ------
    ConfigError
        If members of a group do not agree on its collectives: group, position, and the nodes of two ranks.
    """
    _, kind = row_places(nodes.group, nodes.pattern, nodes.size_bytes, nodes.root)
    _check_agreement(trace, nodes, kind)
    turn = _turns(kind, nodes.rank, np.arange(len(kind)))
    if by_name and len(kind):
        turn = _turns_by_name(trace, nodes, kind, turn)
    # Collectives are numbered as the first of their nodes comes up, rank by rank.
    first, which = row_places(kind, turn)
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    first = np.sort(first)
    columns = (nodes.group[first], nodes.pattern[first], nodes.size_bytes[first], nodes.root[first])
    return Instances(nodes, number[which], *columns)


def _turns(kind: NDArray[np.int64], rank: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of earlier nodes of the same kind on the same rank."""
    order = np.lexsort((place, rank, kind))
    same = np.zeros(len(kind), np.bool_)
    same[1:] = (kind[order][1:] == kind[order][:-1]) & (rank[order][1:] == rank[order][:-1])
    at = np.arange(len(kind))
    begin = np.maximum.accumulate(np.where(same, 0, at))
    turn = np.empty(len(kind), np.int64)
    turn[order] = at - begin
    return turn


def _turns_by_name(trace: Trace, nodes: CollectiveNodes, kind: NDArray[np.int64], turn: NDArray[np.int64]) -> NDArray[np.int64]:
    """For kinds whose nodes have the same distinct names on all ranks, the turn that a name has on the first of them."""
    _, name = np.unique(np.array(read_names(trace, nodes.row)), return_inverse=True)
    name = name.reshape(-1)
    order = np.lexsort((name, nodes.rank, kind))
    begins = np.flatnonzero(np.diff(kind[order], prepend=-1))
    turn = turn.copy()
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
        entries = order[begin:end]
        num_ranks = len(np.unique(nodes.rank[entries]))
        if len(entries) == num_ranks:
            continue
        table = name[entries].reshape(num_ranks, -1)
        if (table == table[0]).all() and (np.diff(table[0]) > 0).all():
            turn[entries] = np.tile(turn[entries[: table.shape[1]]], num_ranks)
    return turn


def _check_agreement(trace: Trace, nodes: CollectiveNodes, kind: NDArray[np.int64]) -> None:
    for group, ranks in nodes.members.items():
        entries = np.flatnonzero(nodes.group == group)
        _, local = np.unique(kind[entries], return_inverse=True)
        counts = np.zeros((len(ranks), int(local.max(initial=-1)) + 1), np.int64)
        place = {rank: number for number, rank in enumerate(ranks)}
        np.add.at(counts, (np.array([place[rank] for rank in nodes.rank[entries].tolist()], np.int64), local.reshape(-1)), 1)
        odd = np.flatnonzero((counts != counts[0]).any(axis=1))
        if len(odd):
            _disagreement(trace, nodes, kind, group, ranks[0], ranks[int(odd[0])])


def _disagreement(trace: Trace, nodes: CollectiveNodes, kind: NDArray[np.int64], group: int, one: int, other: int) -> None:
    """Raise the error for two ranks that differ: the first position at which they do."""
    lists = [np.flatnonzero((nodes.group == group) & (nodes.rank == rank)) for rank in (one, other)]
    shorter = min(len(entries) for entries in lists)
    differ = np.flatnonzero(kind[lists[0][:shorter]] != kind[lists[1][:shorter]])
    position = int(differ[0]) if len(differ) else shorter
    found = [
        describe(nodes, trace, int(entries[position])) if position < len(entries) else f"no node on rank {rank}"
        for rank, entries in zip((one, other), lists, strict=True)
    ]
    name = "all ranks" if group == 0 else f"group {group}"
    raise ConfigError(
        f"{trace.prefix}: {name}, position {position}: {found[0]}, but {found[1]}; expected one collective on all members"
    )
