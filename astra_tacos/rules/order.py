"""Checks C: collectives across ranks. All members of a group have to issue its collectives, in one common order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astra_tacos.rules.collective_nodes import Collectives
from astra_tacos.rules.facts import Facts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.run_order import SEND_GROUP, Pairs, cycles
from astra_tacos.rules.trace_view import TraceView, listed
from astra_tacos.run.chunks import count_chunks
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.patterns import pattern_name
from astra_tacos.run.run import NATIVE, PATTERN_KEYS
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import distinct, row_places
from astra_tacos.support.rows import Severity
from astra_tacos.support.units import format_size

_SHOWN_OF_CHAIN = 10
"""Nodes of a chain, in a finding."""
_REMEDY = "order them by control dependencies, alike on every rank"


def _group_text(group: int) -> str:
    return "all ranks" if group == ALL_RANKS else f"group {group}"


def _node_text(view: TraceView, collectives: Collectives, row: int) -> str:
    """A node in words, like `node 12 (ALL_REDUCE of group 1)`."""
    kind = view.kind_name(row)
    entry = np.flatnonzero(collectives.row == row)
    if len(entry):
        kind += f" of {_group_text(collectives.group[entry[0]])}"
    elif view.trace.kind[row] == NodeType.COMM_SEND:
        kind = f"send to rank {view.trace.peer[row]}"
    elif view.trace.kind[row] == NodeType.COMM_RECV:
        kind = f"receive from rank {view.trace.peer[row]}"
    return f"node {view.node(row)} ({kind})"


@rule("C01", "collective without a node on some rank")
def missing_member(facts: Facts) -> Findings:
    """The ranks of a group do not run the same number of collectives.

    All ranks of a collective wait for one another: if a rank has one node less, the others stall at their last one
    (`system/Sys.cc`: the collectives of a group are numbered in the order of their issue).

    Remedy: write one node per collective on each rank of its group.
    """
    view, collectives = facts.workload, facts.collectives
    for group, members, sorts, counts in _counts(facts, collectives):
        total = counts.sum(axis=0)
        if total.min() == total.max():
            continue
        least, most = total.argmin(), total.argmax()
        sort = sorts[np.argmax(counts[:, most] - counts[:, least])]
        entry = _entry(collectives, members[most], sort)
        numbers = f"rank {members[least]} runs {total.min():,} collectives of {_group_text(group)}"
        shortage = f"{numbers}, rank {members[most]} {total.max():,}: it lacks {_what(collectives, entry, facts)}, as here"
        yield view.at(collectives.row[entry], shortage, "add a node for this collective on each rank of the group")


def _counts(facts: Facts, collectives: Collectives) -> Iterator[tuple[int, list[int], Ints, Ints]]:
    """For each group whose files are all readable: its id, ranks and sorts, and int64[sorts, ranks], numbers of nodes."""
    trace = facts.workload.trace
    readable = np.zeros(facts.num_npus, np.bool_)
    rows = np.diff(trace.rank_first) > 0
    readable[: len(rows)] = rows[: facts.num_npus]
    for group, ranks in collectives.members.items():
        members = [rank for rank in ranks if rank < facts.num_npus]
        entries = np.flatnonzero(collectives.group == group)
        if not readable[members].all() or not len(entries):
            continue
        sorts, sort = np.unique(collectives.sort[entries], return_inverse=True)
        place = np.full(facts.num_npus, -1)
        place[members] = np.arange(len(members))
        counts = np.zeros((len(sorts), len(members)), np.int64)
        np.add.at(counts, (sort, place[collectives.rank[entries]]), 1)
        yield group, members, sorts, counts


def _entry(collectives: Collectives, rank: int, sort: int) -> int:
    """Entry of a rank's last node of a sort."""
    return int(np.flatnonzero((collectives.rank == rank) & (collectives.sort == sort))[-1])


def _what(collectives: Collectives, entry: int, facts: Facts) -> str:
    if collectives.run[entry] != NATIVE:
        return f"{facts.implementations[0][collectives.run[entry]]} ({pattern_name(collectives.comm_type[entry])})"
    return f"{pattern_name(collectives.comm_type[entry])} of {format_size(max(collectives.size_bytes[entry], 0))}"


@rule("C02", "collectives differ between ranks")
def different_collectives(facts: Facts) -> Findings:
    """The ranks of a group run collectives of different patterns or sizes.

    Native algorithms match by number: the first collective of a group on one rank communicates with the first one on the others.
    If their patterns or sizes differ, so do the sizes or the number of messages, and the ranks stall silently.

    Remedy: write the same comm_type and comm_size on each rank.
    """
    view, collectives = facts.workload, facts.collectives
    for group, members, sorts, counts in _counts(facts, collectives):
        total = counts.sum(axis=0)
        differs = np.flatnonzero((counts != counts[:, :1]).any(axis=0))
        if total.min() != total.max() or not len(differs):
            continue
        other = differs[0]
        more = counts[:, other] - counts[:, 0]
        here = _entry(collectives, members[other], sorts[more.argmax()])
        there = _entry(collectives, members[0], sorts[more.argmin()])
        if NATIVE not in (collectives.run[here], collectives.run[there]) or min(collectives.size_bytes[[here, there]]) < 0:
            continue  # the traces differ, which T05 reports, or a size is missing, which A01 reports
        expectation = f"rank {members[0]} runs {_what(collectives, there, facts)} in {_group_text(group)}"
        yield view.at(
            collectives.row[here],
            f"{expectation}, rank {members[other]} this {_what(collectives, here, facts)} instead",
            "the same comm_type and comm_size on each rank",
        )


@rule("C03", "sizes of a custom collective differ between ranks", Severity.WARNING)
def different_sizes(facts: Facts) -> Findings:
    """The ranks of a custom collective give it different sizes.

    ASTRA-sim takes sizes from the custom trace, and the run does not change. In a joint schedule of `plan`, groups have sizes of
    their own, and no size is wrong. In other runs, one of the stated sizes is wrong.

    Remedy: write the same comm_size on each rank, but leave a joint schedule of `plan` as it is.
    """
    view, collectives = facts.workload, facts.collectives
    custom = np.flatnonzero(collectives.run != NATIVE)
    order = custom[np.lexsort((collectives.rank[custom], collectives.instance[custom]))]
    instance, size = collectives.instance[order], collectives.size_bytes[order]
    for at in np.flatnonzero((instance[1:] == instance[:-1]) & (size[1:] != size[:-1])).tolist():
        first, other = order[at], order[at + 1]
        sizes = f"{format_size(max(size[at + 1], 0))} here, {format_size(max(size[at], 0))} on rank"
        yield view.at(
            collectives.row[other],
            f"{sizes} {collectives.rank[first]}, node {view.node(collectives.row[first])}",
            "the same comm_size on each rank",
        )


@rule("C08", "ranks count their collectives differently")
def different_numbers(facts: Facts) -> Findings:
    """A native collective of all ranks has another number on some rank, as ranks ran different numbers of collectives before.

    Messages match by the number of the collective. In a communicator group only the group's collectives count. For the group of
    all ranks ASTRA-sim counts every collective that a rank has started, also those in groups and custom ones (and each of their
    `preferred-dataset-splits`): `num_streams++` comes before it looks at the group (`system/Sys.cc`, `generate_collective`). If a
    rank has started more collectives than another one, their messages never match, and all ranks stall silently.

    Remedy: add a group of all ranks to the file of groups, and use its id as pg_name: such a group has its own count.
    """
    view, collectives, order = facts.workload, facts.collectives, facts.order
    if not len(collectives.row):
        return
    turn = np.lexsort((order.place[collectives.row], collectives.rank))
    streams = _streams(facts, collectives)[turn]
    started = np.empty(len(turn), np.int64)
    started[turn] = np.cumsum(streams) - streams
    _, first = np.unique(collectives.rank, return_index=True)
    started -= np.repeat(started[turn][first], np.diff(np.append(first, len(turn))))
    pairs = order.pairs.where((order.pairs.first_group != SEND_GROUP) & (order.pairs.second_group != SEND_GROUP))
    free = np.isin(collectives.row, np.concatenate((pairs.first, pairs.second)))
    free |= np.isin(collectives.rank, order.short_ranks)
    chosen = np.flatnonzero((collectives.group == ALL_RANKS) & (collectives.run == NATIVE) & ~free)
    chosen = chosen[np.lexsort((collectives.rank[chosen], collectives.instance[chosen], order.place[collectives.row[chosen]]))]
    same = collectives.instance[chosen][1:] == collectives.instance[chosen][:-1]
    differs = np.flatnonzero(same & (started[chosen][1:] != started[chosen][:-1]))
    if len(differs):
        first_entry, second_entry = chosen[differs[0]], chosen[differs[0] + 1]
        counts = [f"rank {collectives.rank[entry]} has started {started[entry]:,}" for entry in (first_entry, second_entry)]
        counts_text = f"{_node_text(view, collectives, collectives.row[second_entry])}: {' collectives before it, '.join(counts)}"
        yield view.at(
            collectives.row[second_entry], f"{counts_text}, so they never meet", "name a group of all ranks as its pg_name"
        )


def _streams(facts: Facts, collectives: Collectives) -> Ints:
    """int64[n], number of streams that ASTRA-sim makes of each collective: 1 if it is custom, else one per chunk."""
    streams = np.ones(len(collectives.row), np.int64)
    for pattern, key in PATTERN_KEYS.items():
        native = (collectives.run == NATIVE) & (collectives.comm_type == pattern)
        streams[native] = count_chunks(key, collectives.size_bytes[native], facts.num_npus, facts.system)
    return streams


@rule("C04", "ranks wait in a cycle")
def deadlock(facts: Facts) -> Findings:
    """Ranks wait for one another in a cycle: they stall at any timing.

    All ranks of a collective wait for one another, a receive waits for its send, and every node for its dependencies. If two
    ranks order two collectives in opposite ways, or a send has to wait for a collective that waits for its receiver, none of them
    ever starts. ASTRA-sim reports nothing: no rank of the cycle prints its line.

    Remedy: use one order of collectives on all ranks.
    """
    view, collectives, order = facts.workload, facts.collectives, facts.order
    for rows in order.deadlocks:
        links = [f"rank {view.rank[row]} {_node_text(view, collectives, row)}" for row in rows]
        if len(links) > _SHOWN_OF_CHAIN:
            links = [*links[: _SHOWN_OF_CHAIN - 1], "...", links[-1]]
        cycle_text = f"waits for itself: {' -> '.join([*links, links[0]])}; {order.never:,} nodes never run"
        yield view.at(rows[0], cycle_text, "start collectives in one order on all ranks")


@rule("C05", "order left to timing", Severity.WARNING, left_to_timing=True)
def free_order(facts: Facts) -> Findings:
    """A rank may start two nodes in either order, and one of the orders stalls it for ever.

    A rank runs one collective or send at a time: the ready node of the lowest id; nodes that become ready later wait
    (`workload/HardwareResource.cc`, `is_available`; `workload/Workload.cc`, `issue_dep_free_nodes`). If dependencies do not order
    two collectives that share ranks, timing and ids do, and these may differ between ranks. If two ranks choose different orders,
    each runs a collective that the other one cannot start: both stall. The same holds for a collective and a send that it waits
    for through another rank. Whether the stall happens depends on bandwidth and latency.

    Remedy: chain each rank's collectives by control dependencies, in start collectives in one order on all ranks.
    """
    view, collectives, order = facts.workload, facts.collectives, facts.order
    pairs = order.pairs
    risky = pairs.where(pairs.first_waits | pairs.second_waits | _share_ranks(collectives, pairs))
    if not len(risky):
        return
    low = np.minimum(risky.first_group, risky.second_group)
    high = np.maximum(risky.first_group, risky.second_group)
    first, place = row_places(low, high)
    for at, number in zip(first.tolist(), np.bincount(place).tolist(), strict=True):
        row, other = risky.first[at], risky.second[at]
        pair_text = f"nothing orders {_node_text(view, collectives, row)} and {_node_text(view, collectives, other)}"
        if risky.first_waits[at] or risky.second_waits[at]:
            late, early = (row, other) if risky.first_waits[at] else (other, row)
            why = f"node {view.node(late)} needs node {view.node(early)} by way of other ranks, and blocks it if it starts first"
        else:
            shared = set(collectives.members[risky.first_group[at]]) & set(collectives.members[risky.second_group[at]])
            why = f"which both need ranks {listed(sorted(shared))}: these stall if they choose differently"
        more = f" ({number:,} such pairs)" if number > 1 else ""
        yield view.at(row, f"{pair_text}, {why}{more}", _REMEDY)


def _share_ranks(collectives: Collectives, pairs: Pairs) -> Bools:
    """bool[n], whether both nodes of a pair are collectives, and their groups have two or more ranks in common."""
    first, which = row_places(pairs.first_group, pairs.second_group)
    members = {group: set(ranks) for group, ranks in collectives.members.items()}
    both = zip(pairs.first_group[first].tolist(), pairs.second_group[first].tolist(), strict=True)
    share = [SEND_GROUP not in (first, second) and len(members[first] & members[second]) > 1 for first, second in both]
    return np.array(share, np.bool_)[which]


@rule("C06", "order left to timing, in a cycle of groups", Severity.WARNING, left_to_timing=True)
def free_cycle(facts: Facts) -> Findings:
    """Groups of which any two share one rank can wait for one another in a cycle.

    This is the fault of C05 across several ranks: each rank starts a collective that waits for the next rank of the cycle.
    Data-parallel and tensor-parallel groups form such cycles, as they cross in a grid of ranks.

    Remedy: chain each rank's collectives by control dependencies, in start collectives in one order on all ranks.
    """
    view, collectives, order = facts.workload, facts.collectives, facts.order
    pairs = order.pairs
    single = (pairs.first_group != SEND_GROUP) & (pairs.second_group != SEND_GROUP) & ~_share_ranks(collectives, pairs)
    chosen = pairs.where(single & (pairs.first_group != pairs.second_group))
    if not len(chosen):
        return
    used = np.isin(collectives.row, distinct(np.concatenate((chosen.first, chosen.second))))
    instance_of = dict(zip(collectives.row[used].tolist(), collectives.instance[used].tolist(), strict=True))
    sure = used & collectives.certain
    number_of = dict(zip(collectives.row[sure].tolist(), collectives.number[sure].tolist(), strict=True))
    for cycle in cycles(chosen, instance_of, number_of):
        choices = [
            f"nodes {view.node(first)} and {view.node(second)} on rank {rank}"
            for rank, (first, second) in zip(cycle.ranks, cycle.rows, strict=True)
        ]
        groups = " -> ".join("all" if group == ALL_RANKS else str(group) for group in (*cycle.groups, cycle.groups[0]))
        cycle_text = f"groups {groups} can wait for one another: nothing orders {', '.join(choices[:_SHOWN_OF_CHAIN])}"
        yield view.at(cycle.rows[0][0], cycle_text, _REMEDY)


@rule("C07", "search for an order cut short", Severity.WARNING, left_to_timing=True)
def cut_short(facts: Facts) -> Findings:
    """The search for orders that stall was cut short, so that there may be more faults than were found.

    Too many collectives and sends of a rank are unordered, or too many nodes would have to be followed through other ranks. The
    findings of C05 and C06 are then incomplete, or include pairs that a message from another rank does order.

    Remedy: chain each rank's collectives by control dependencies, then lint again.
    """
    order = facts.order
    if len(order.short_ranks):
        problem = f"not all pairs of collectives without an order were looked at on rank {listed(order.short_ranks)}"
        yield Found(problem, _REMEDY, facts.workload.files.file(int(order.short_ranks[0])), int(order.short_ranks[0]))
    if not order.followed:
        yield Found("the order that comes about by way of other ranks was not followed", _REMEDY, facts.workload.files.prefix)
