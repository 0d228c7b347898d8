"""The trace that each collective node runs, and the changes to nodes that make ASTRA-sim run it.

ASTRA-sim finds a node's trace by the lower 32 bits of the node's id alone, for all ranks, and a communicator group keeps the
trace that the first node of each type named. So one such id cannot stand for two traces, nor can the nodes of one type in a
group. Native collectives of all ranks that some rank would number differently get a communicator group, which has a numbering of
its own.

Their messages would never match otherwise. Messages of a native collective carry a number. A communicator group counts its own
collectives. The group of all ranks has no counter of its own: it uses the rank's counter, which increases with every collective
that the rank begins, including those in groups and those that run custom traces (`Sys.cc`, `generate_collective`:
`num_streams++`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.chunks import cut_into_chunks
from astra_tacos.run.graph.instances import Instances
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.patterns import carrying_type
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, looked_up, pattern_key
from astra_tacos.run.system import INT32_MAX, SystemConfig
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import distinct, distinct_places, row_places


def differently_numbered(instances: Instances, implementation: Ints, order: Ints, system: SystemConfig) -> Bools:
    """bool[num_instances], native collectives of all ranks before which ranks begin, or may begin, unequal numbers of others.

    Parameters
    ----------
    implementation
        int64[num_instances], NATIVE for those without a trace.
    order
        int64[num_instances], place of each collective in the order in which ranks begin them.
    system
        Of the run as it was: where anything runs a trace, nothing is split.

    Raises
    ------
    ConfigError
        If the system cuts a native collective into less than a byte.
    """
    is_native = (implementation == NATIVE) & np.isin(instances.pattern, list(PATTERN_KEYS))
    is_asked: Bools = is_native & (instances.group == ALL_RANKS)
    if not is_asked.any():
        return is_asked
    streams = (implementation != NATIVE).astype(np.int64)
    if (streams.astype(np.bool_) & (instances.num_members < 2)).any():
        return is_asked  # nothing orders a group of one among the others, so that no number is sure
    streams[is_native] = 1 if streams.any() else _num_chunks(instances, is_native, system)
    # How many streams each node's rank has begun before it.
    turn = np.lexsort((order[instances.instance], instances.nodes.rank))
    rank, instance = instances.nodes.rank[turn], instances.instance[turn]
    before = np.cumsum(streams[instance]) - streams[instance]
    before -= before[np.searchsorted(rank, rank)]
    lowest = np.full(instances.num_instances, np.iinfo(np.int64).max)
    highest = np.zeros(instances.num_instances, np.int64)
    np.minimum.at(lowest, instance, before)
    np.maximum.at(highest, instance, before)
    differs: Bools = is_asked & (lowest != highest)
    return differs


def _num_chunks(instances: Instances, is_native: Bools, system: SystemConfig) -> Ints:
    """int64[native collectives], the number of chunks that each is cut into; all of them are streams."""
    num_npus = len(instances.nodes.members[ALL_RANKS])
    pattern, size = instances.pattern[is_native], instances.size_bytes[is_native]
    first, which = row_places(pattern, size)
    cases = zip(pattern[first].tolist(), size[first].tolist(), strict=True)
    return np.array([cut_into_chunks(pattern_key(key), size, num_npus, system)[1] for key, size in cases], np.int64)[which]


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Groups, ids and traces that the collective nodes get.

    Parameters
    ----------
    implementation
        int64[num_instances], entry of the traces that are written, NATIVE for those without.
    group
        int64[num_instances], id of the group that its nodes name.
    node_id
        uint64[len(nodes)], new ids of the collective nodes.
    """

    implementation: Ints
    group: Ints
    groups: Mapping[int, tuple[int, ...]]
    node_id: NDArray[np.uint64]
    per_node: Mapping[int, int]


def assign(
    trace: Trace,
    instances: Instances,
    implementation: Ints,
    groups: Mapping[int, tuple[int, ...]],
    order: Ints | None,
    system: SystemConfig,
) -> Assignment:
    """Give every collective a group and ids under which ASTRA-sim finds its trace.

    Parameters
    ----------
    implementation
        int64[num_instances], the trace that each instance runs, or NATIVE.
    order
        int64[num_instances], place of each collective in the order in which ranks issue them; None if they are native and nothing
        orders them but what the run has.

    Raises
    ------
    ConfigError
        If there are not enough ids, or the system cuts a native collective into less than a byte.
    """
    if order is None:
        node_id = trace.node_id[instances.nodes.row].copy()
        return Assignment(implementation, instances.group.copy(), dict(groups), node_id, {})
    known = np.isin(instances.pattern, [int(pattern) for pattern in PATTERN_KEYS])
    runs = np.flatnonzero(known | (implementation != NATIVE))
    group, all_groups = _groups(instances, implementation, groups, runs[np.argsort(order[runs])])
    apart = differently_numbered(instances, implementation, order, system)
    if apart.any():
        group[apart] = max(all_groups, default=ALL_RANKS) + 1
        all_groups[int(group[apart][0])] = instances.nodes.members[ALL_RANKS]
    node_id = _node_ids(trace, instances, implementation, order)
    chosen = implementation[instances.instance]
    per_node = {int(node): int(entry) for node, entry in zip(node_id.tolist(), chosen.tolist(), strict=True) if entry != NATIVE}
    return Assignment(implementation, group, all_groups, node_id, dict(sorted(per_node.items())))


def _groups(
    instances: Instances, implementation: Ints, groups: Mapping[int, tuple[int, ...]], in_order: Ints
) -> tuple[Ints, dict[int, tuple[int, ...]]]:
    """A group per trace and type: the first trace keeps the group, others get copies, which types share.

    A trace is played by position: a copy lists its ranks in ascending order, and if the group does not, only native collectives
    may stay with it.
    """
    group = instances.group.copy()
    all_groups = dict(groups)
    alike: dict[int, list[int]] = {}
    places: dict[tuple[int, int], dict[int, int]] = {}
    columns = [column[in_order] for column in (instances.group, instances.pattern, instances.size_bytes, implementation)]
    first, which = row_places(*columns)
    named = columns[0][first]
    for distinct_case in np.argsort(first).tolist():  # collectives that are alike have one group
        number, pattern, size_bytes, entry = (int(column[first[distinct_case]]) for column in columns)
        if number == ALL_RANKS:
            continue
        ranks = groups[number]
        carrier = carrying_type(pattern, size_bytes)
        entries = places.setdefault((number, int(carrier)), {})
        if not entries and ranks != tuple(sorted(ranks)):
            entries[NATIVE] = 0
        place = entries.setdefault(entry, len(entries))
        copies = alike.setdefault(number, [number])
        while len(copies) <= place:
            copies.append(max(all_groups) + 1)
            all_groups[copies[-1]] = tuple(sorted(ranks))
        named[distinct_case] = copies[place]
    group[in_order] = named[which]
    return group, all_groups


def _node_ids(trace: Trace, instances: Instances, implementation: Ints, order: Ints) -> NDArray[np.uint64]:
    """Ids that no two traces share: a collective whose id on some rank stands for another one gets a new id on all."""
    rows, instance = instances.nodes.row, instances.instance
    node_id = trace.node_id[rows].copy()
    entry = implementation[instance]
    _, which = distinct_places(looked_up(node_id))
    lowest = np.full(int(which.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    highest = np.full(len(lowest), NATIVE, np.int64)
    np.minimum.at(lowest, which, entry)
    np.maximum.at(highest, which, entry)
    clashes = (lowest != highest)[which] | ((node_id > INT32_MAX) & (entry != NATIVE))
    moves = np.zeros(instances.num_instances, np.bool_)
    moves[instance[clashes]] = True
    moves &= implementation != NATIVE
    moving = np.flatnonzero(moves)
    moving = moving[np.argsort(order[moving])]
    turns = _turns(instances, implementation, moving)
    fresh = np.zeros(instances.num_instances, np.uint64)
    fresh[moving] = _free_ids(trace, int(turns.max(initial=-1)) + 1)[turns]
    changes = moves[instance]
    node_id[changes] = fresh[instance[changes]]
    return node_id


def _turns(instances: Instances, implementation: Ints, moving: Ints) -> Ints:
    """The number of each collective's new id; collectives of one trace without a common rank share ids, to keep them few."""
    used: dict[tuple[int, int], int] = {}
    number_of: dict[tuple[int, int], int] = {}
    turns = np.empty(len(moving), np.int64)
    for place, number in enumerate(moving.tolist()):
        entry = int(implementation[number])
        members = instances.nodes.members[int(instances.group[number])]
        turn = max(used.get((entry, rank), 0) for rank in members)
        used.update(((entry, rank), turn + 1) for rank in members)
        turns[place] = number_of.setdefault((entry, turn), len(number_of))
    return turns


def _free_ids(trace: Trace, count: int) -> NDArray[np.uint64]:
    """Ascending ids that no node of any rank has, and by which none is looked up; larger than all ids in use if possible."""
    if not count:
        return np.empty(0, np.uint64)
    used = distinct(looked_up(trace.node_id)).astype(np.int64)
    used = used[used <= INT32_MAX]
    begin = int(used[-1]) + 1 if len(used) else 0
    if begin + count <= INT32_MAX + 1:
        return np.arange(begin, begin + count, dtype=np.uint64)
    free = np.setdiff1d(np.arange(len(used) + count), used, assume_unique=True)[:count]
    if len(free) < count or free[-1] > INT32_MAX:
        raise ConfigError(f"{trace.prefix}: no {count:,} node ids are free below 2**31, expected a smaller workload")
    return free.astype(np.uint64)


def tag_ranges(prefix: str, used: Ints, sizes: list[int], most_tags: int) -> list[int]:
    """The first tag of each trace, such that the ranges of traces do not overlap one another or the tags in use.

    Parameters
    ----------
    used
        int64[...], tags that are taken; negative ones are none.

    Raises
    ------
    ConfigError
        If there are not enough tags.
    """
    used_tags = distinct(used[used >= 0] % most_tags)
    begin = int(used_tags[-1]) + 1 if len(used_tags) else 0
    if begin + sum(sizes) <= most_tags:
        edges, room = [begin], [most_tags - begin]
    else:
        edges = np.concatenate(([0], used_tags + 1)).tolist()
        room = np.diff(np.concatenate(([-1], used_tags, [most_tags]))).tolist()
        room = [gap - 1 for gap in room]
    first = []
    at = 0
    for size in sizes:
        while at < len(edges) and room[at] < size:
            at += 1
        if at == len(edges):
            raise ConfigError(f"{prefix}: its messages leave no space for {sum(sizes):,} more tags, expected fewer chunks")
        first.append(edges[at])
        edges[at], room[at] = edges[at] + size, room[at] - size
    return first
