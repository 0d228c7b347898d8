"""Checks A and D: kinds of nodes, their attributes, and dependencies within a rank."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astra_tacos.run.aborts import lack_statistics
from astra_tacos.run.backend import EXACT_NS
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, WORKLOAD_ATTRIBUTES
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import distinct
from astra_tacos.support.units import NS_PER_US, format_size
from astra_tacos.workload.linter import _order_kernels as kernels
from astra_tacos.workload.linter.facts import Facts
from astra_tacos.workload.linter.finding import Findings, Found, Severity, check
from astra_tacos.workload.linter.trace_view import TraceView

_MOST_SKIPPED = 64
"""Most skipped nodes of a rank for which lint searches the nodes that may run at the same time."""
_SHOWN_OF_CYCLE = 8
"""Nodes of a cycle, in a finding."""


def _messages(facts: Facts, view: TraceView) -> Bools:
    return view.sends_or_receives & facts.communicates


@check("A11", "communication on the CPU")
def cpu_communication(facts: Facts) -> Findings:
    """A communication node has is_cpu_op.

    ASTRA-sim throws `Comm node should not be on CPU` (`workload/Workload.cc`, `issue_comm`): it aborts at time 0; later, the rank
    stalls.

    Remedy: set is_cpu_op to False.
    """
    view = facts.communicating
    comm = view.rows(NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)
    yield view.each(comm & view.columns.is_cpu_op, "{kind} with is_cpu_op", "set is_cpu_op to False")


@check("A12", "METADATA or unknown node")
def metadata_node(facts: Facts) -> Findings:
    """A node is of type METADATA, or of a type that the Chakra schema does not have.

    ASTRA-sim's statistics abort at the node before it is issued: `Assertion 'false' failed`, `Invalid node_type`
    (`workload/Statistics.cc`, `get_operator_type`).

    Remedy: remove the node.
    """
    view = facts.workload
    where = view.rows(NodeType.METADATA) | (view.trace.kind > max(NodeType))
    yield view.each(where, "{kind}", "leave it out")


@check("A13", "skipped node", left_to_timing=True)
def skipped_node(facts: Facts) -> Findings:
    """ASTRA-sim skips a node: it is of type INVALID, or has tensor_size 0 under the roofline.

    A skipped node ends at once, but ASTRA-sim issues its dependents only at the rank's next event (`workload/Workload.cc`,
    `skip_invalid`). If no other node of the rank is running then, there is no such event: the rank stalls silently. This is an
    error if all other nodes of the rank come before or after the skipped one, else a warning.

    Remedy: make it a COMP node, or let its dependents depend on its predecessors instead.
    """
    view, system = facts.workload, facts.system
    if system.replay_only:
        return
    where = view.rows(NodeType.INVALID)
    if system.roofline_enabled:
        where |= view.computes_on_gpu & (view.columns.tensor_size == 0)
    child_first, _ = view.children
    where &= np.diff(child_first) > 0
    remedy = "make it a COMP node, or let its dependents go past it"

    def describe(row: int) -> str:
        what = "INVALID" if view.trace.kind[row] == NodeType.INVALID else "COMP of tensor_size 0"
        return f"{what} is skipped, and what depends on it starts with the rank's next event"

    for row in _alone(view, where):
        where[row] = False
        yield view.at(row, f"{describe(row)}: there is none, the rank stalls", remedy)
    for row in np.flatnonzero(where).tolist():
        yield view.at(row, describe(row), remedy, Severity.WARNING)


def _alone(view: TraceView, where: Bools) -> list[int]:
    """Rows of the given nodes that dependencies order with every other node of their rank."""
    found: list[int] = []
    for rank in np.unique(view.rank[where]).tolist():
        begin, end = view.trace.rank_first[rank], view.trace.rank_first[rank + 1]
        for row in (np.flatnonzero(where[begin:end])[:_MOST_SKIPPED] + begin).tolist():
            others = np.arange(begin, end)
            others = others[others != row]
            same = np.full(len(others), row)
            if (view.precede(others, same) | view.precede(same, others)).all():
                found.append(row)
    return found


@check("A14", "node that statistics lack")
def no_statistics(facts: Facts) -> Findings:
    """A rank runs CPU nodes, loads or stores, or skipped nodes.

    After ASTRA-sim has printed the rank's line, its statistics throw `Only GPU and COMM types are supported for overlap
    extraction` (`workload/Statistics.cc`, `extract_comp_comm_overlap`). The rank gets no statistics. If the rank's last event is
    a message of the workload, ASTRA-sim aborts, so that later ranks never print their line. This is an error if all nodes without
    dependents are messages, else a warning.

    Remedy: make them GPU nodes, if their timing may be that of GPU nodes.
    """
    view = facts.workload
    where = lack_statistics(view.trace, view.columns)
    child_first, _ = view.children
    last = np.diff(child_first) == 0
    messages = _messages(facts, view)
    for rank in np.unique(view.rank[where]).tolist():
        rows = slice(int(view.trace.rank_first[rank]), int(view.trace.rank_first[rank + 1]))
        row = rows.start + np.flatnonzero(where[rows])[0]
        count = where[rows].sum()
        kind = "COMP with is_cpu_op" if view.trace.kind[row] == NodeType.COMP else view.kind_name(row)
        what = f"{count:,} {'nodes' if count > 1 else 'node'} of a kind that ASTRA-sim's statistics lack ({kind})"
        ends_alone = bool(messages[rows][last[rows]].all())
        end = "ASTRA-sim aborts as the rank ends" if ends_alone else "the rank gets no statistics, or ASTRA-sim aborts at its end"
        yield view.at(row, f"{what}: {end}", "make them GPU nodes", Severity.ERROR if ends_alone else Severity.WARNING)


@check("A15", "unsupported pattern")
def unsupported_pattern(facts: Facts) -> Findings:
    """A collective has a pattern that ASTRA-sim does not run.

    REDUCE, GATHER, SCATTER, REDUCE_SCATTER_BLOCK and BARRIER throw `Unsupported collective comm type`, even with a per-node trace
    (`workload/Workload.cc`, `issue_coll_comm`): ASTRA-sim aborts at time 0; later, the rank stalls.

    Remedy: use a supported comm_type (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL) with a custom trace of the pattern.
    """
    view = facts.communicating
    known = [*PATTERN_KEYS, CommType.BROADCAST, ABSENT]
    where = view.rows(NodeType.COMM_COLL) & ~np.isin(view.columns.comm_type, known)
    remedy = "give it a supported comm_type and a per-node custom trace"
    yield view.each(where, "{kind} is not supported", remedy)


@check("A16", "BROADCAST only waits", Severity.WARNING)
def broadcast_waits(facts: Facts) -> Findings:
    """A node is a BROADCAST, for which ASTRA-sim sends nothing.

    On each rank the node only takes its `duration_micros`, and 1 ns if that is 0 (`workload/Workload.cc`, `issue_coll_comm`).

    Remedy: use a supported comm_type with a per-node custom trace that broadcasts, or write the duration that it should take.
    """
    view = facts.communicating
    where = view.rows(NodeType.COMM_COLL) & (view.columns.comm_type == CommType.BROADCAST)

    def describe(row: int) -> str:
        size, duration = view.trace.size_bytes[row], view.trace.duration_us[row]
        return f"BROADCAST of {format_size(max(size, 0))} sends nothing and takes {f'{duration:,} us' if duration else '1 ns'}"

    yield view.each(where, describe, "give it a supported comm_type and a per-node custom trace")


@check("A17", "no dimension involved")
def no_dimension(facts: Facts) -> Findings:
    """The involved_dim of a native collective leaves nothing to do, or has fewer entries than the network has dimensions.

    With no dimension involved the collective has no phases and never ends: its ranks stall. ASTRA-sim reads a list that is too
    short past its end. Without the attribute it assumes a list of four entries, so that a network of five dimensions reads past
    the end, too (`workload/Workload.cc`, `issue_coll_comm`). Collectives in communicator groups ignore the attribute.

    Remedy: write a bool_list of one entry per dimension, at least one of them true.
    """
    view, collectives, count = facts.workload, facts.collectives, len(facts.network.dimensions)
    if not count:
        return
    rows = collectives.row[(view.group[collectives.row] == ALL_RANKS) & (collectives.run < 0)]
    given, dims = view.columns.involved_count[rows], view.columns.involved_dims[rows]
    nothing = (given > 0) & (dims & ((1 << min(count, 62)) - 1) == 0)
    short = np.where(given > 0, given, 4) < count
    yield view.each(rows[nothing], "involved_dim involves no dimension: it never ends", "involve one")
    short_given, short_absent = rows[short & ~nothing & (given > 0)], rows[short & (given == 0)]
    yield view.each(short_given, f"involved_dim is shorter than the {count} dimensions", "one entry per dimension")
    yield view.each(short_absent, f"no involved_dim: ASTRA-sim assumes four of {count} dimensions", "write involved_dim")


@check("A18", "no operations under the roofline")
def no_operations(facts: Facts) -> Findings:
    """A compute node has 0 operations under the roofline.

    ASTRA-sim computes a performance of 0 operations per second and a time of 0/0, which it converts to a time far in the future:
    the rank stalls (`workload/Workload.cc`, `issue_comp`).

    Remedy: write at least 1 operation, or remove the node.
    """
    view, system = facts.workload, facts.system
    if not system.roofline_enabled or system.replay_only:
        return
    columns = view.columns
    where = view.computes_on_gpu & (columns.num_ops == 0) & (columns.tensor_size > 0)
    yield view.each(where, "num_ops is 0 under the roofline: it never ends", "leave it out")


@check("D01", "dangling dependency")
def dangling(facts: Facts) -> Findings:
    """A node depends on an id that no node of its rank has.

    ASTRA-sim throws when it reads the file: `Node 7 in data_dep graph, but not found in index, file might be corrupted` (Chakra
    `feeder_v3/et_feeder.cpp`, `graph_sanity_check`). In a custom collective it exits with a message about the path.

    Remedy: correct the dependency. It can only name nodes of the same rank's file.
    """
    for view in facts.views:
        rows = distinct(np.repeat(np.arange(view.trace.num_nodes), np.diff(view.trace.dep_first))[view.trace.dep == DANGLING])
        yield view.each(rows, lambda row: "depends on a node that does not exist", "ids count within a rank's file")


@check("D02", "no node can start")
def all_wait(facts: Facts) -> Findings:
    """No node of a rank can start: each depends on another one, or on itself.

    ASTRA-sim throws when it reads the file: `No dependancy free nodes found, there might be deadlocks` (Chakra
    `feeder_v3/dependancy_solver.cpp`, `resolve_dependancy_free_nodes`).

    Remedy: break the cycle.
    """
    for view in facts.views:
        for rank in np.flatnonzero((view.ordered == 0) & (np.diff(view.trace.rank_first) > 0)).tolist():
            yield _cycle(view, rank, "no node can start")


@check("D03", "cycle of dependencies")
def some_wait(facts: Facts) -> Findings:
    """Some nodes of a rank depend on one another in a cycle.

    ASTRA-sim silently skips these nodes and all nodes that depend on them: when all other nodes have finished, the rank finishes
    and prints its line (`workload/Workload.cc`, `call`: no node is free, none is running).

    Remedy: break the cycle.
    """
    for view in facts.views:
        counts = np.diff(view.trace.rank_first)
        for rank in np.flatnonzero((view.ordered > 0) & (view.ordered < counts)).tolist():
            lost = counts[rank] - view.ordered[rank]
            yield _cycle(view, rank, f"{lost:,} of {counts[rank]:,} nodes never run, and the rank finishes without them")


def _cycle(view: TraceView, rank: int, what: str) -> Found:
    start = view.issue.order[view.trace.rank_first[rank] + view.ordered[rank]]
    rows = kernels.find_cycle(view.trace.dep_first, view.trace.dep, ~view.runs, start).tolist()[::-1]
    ids = [str(view.node(row)) for row in [*rows, rows[0]]]
    if len(ids) > _SHOWN_OF_CYCLE:
        ids = [*ids[: _SHOWN_OF_CYCLE - 1], "...", ids[-1]]
    return view.at(rows[0], f"waits for itself ({' -> '.join(ids)}): {what}", "break the cycle")


_BIT = {name: np.uint32(1 << place) for place, name in enumerate(WORKLOAD_ATTRIBUTES)}


def _reads(facts: Facts, view: TraceView) -> Iterator[tuple[str, Bools, bool]]:
    """The attributes that `Workload.cc` reads of a workload's nodes, or `CustomAlgorithm.cc` of those of a custom collective.

    Of each: the name, the nodes, and whether these need it.
    """
    if view.is_workload:
        yield "is_cpu_op", np.ones(view.trace.num_nodes, np.bool_), False
    if not facts.communicates:
        return
    coll, send, recv = (view.rows(kind) for kind in (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV))
    message = send | recv
    yield "comm_dst", send, True
    yield "comm_src", recv, True
    yield "comm_src", send, False
    yield "comm_tag", message, True
    if not view.is_workload:
        yield "comm_size", message, True
        return
    yield "comm_size", message | coll, True
    yield "comm_dst", recv, False
    yield "comm_type", coll, True
    for name in ("comm_priority", "pg_name", "involved_dim"):
        yield name, coll, False
    compute = view.computes_on_gpu & facts.system.roofline_enabled
    yield "num_ops", compute, True
    yield "tensor_size", compute | view.rows(NodeType.MEM_LOAD, NodeType.MEM_STORE), True


def _column(view: TraceView, name: str, recv: bool) -> Ints:
    trace, columns = view.trace, view.columns
    table = {
        "comm_size": trace.size_bytes,
        "comm_tag": trace.tag,
        "comm_src": trace.peer if recv else columns.own,
        "comm_dst": columns.own if recv else trace.peer,
        "comm_type": columns.comm_type,
        "num_ops": columns.num_ops,
        "tensor_size": columns.tensor_size,
    }
    return table[name]


@check("A01", "missing attribute")
def missing_attribute(facts: Facts) -> Findings:
    """A node lacks an attribute that ASTRA-sim reads.

    ASTRA-sim throws `Attribute comm_size not found in node 0` (Chakra `feeder_v3/et_feeder_node.h`). At time 0, or while a
    message arrives, the exception aborts the run. In any other event ASTRA-sim only logs it (`a callable is removed before
    call`), and the rank stalls (`system/Sys.cc`, `call_events`).

    Remedy: write the attribute. A collective needs comm_type and comm_size; a message comm_size, comm_tag and comm_dst or
    comm_src; a compute node under the roofline num_ops and tensor_size; a load or store tensor_size.
    """
    for view in facts.views:
        for name, nodes, required in _reads(facts, view):
            if required:
                recv = name in ("comm_src", "comm_dst") and bool((nodes & view.rows(NodeType.COMM_RECV)).any())
                given = (view.columns.wrong_type | view.columns.no_value) & _BIT[name] != 0
                where = nodes & (_column(view, name, recv) == ABSENT) & ~given
                yield view.each(where, f"{{kind}} without {name} (or of -1)", f"add {name}")


@check("A02", "attribute of a wrong type")
def wrong_type(facts: Facts) -> Findings:
    """An attribute has a value of a type that ASTRA-sim does not accept.

    ASTRA-sim accepts every integer type and bool for numbers; it throws `std::bad_cast` for floating point, text and bytes, and
    `Attribute type not supported` for lists. pg_name has to be a string_val, involved_dim a bool_list (Chakra
    `feeder_v3/et_feeder_node.h`, `flagged_implicit_converter`; `workload/Workload.cc`). At time 0 the exception aborts the run;
    later, the rank stalls.

    Remedy: use int64_val for numbers (uint64_val for tensor_size), bool_val for is_cpu_op.
    """
    yield from _bad_values(facts, wrong=True, what="has a value of a wrong type", remedy="write an integer type")


@check("A03", "attribute without a value")
def no_value(facts: Facts) -> Findings:
    """An attribute that ASTRA-sim reads has a name but no value.

    ASTRA-sim throws `Attribute type not supported, for list types please handle them manually` (Chakra
    `feeder_v3/et_feeder_node.h`): it aborts at time 0; later, the rank stalls. Attributes that ASTRA-sim does not read need no
    value.

    Remedy: write a value, or remove the attribute.
    """
    yield from _bad_values(facts, wrong=False, what="has no value", remedy="write a value or leave it out")


def _bad_values(facts: Facts, *, wrong: bool, what: str, remedy: str) -> Findings:
    special = {"pg_name": "write a string_val", "involved_dim": "write a bool_list", "is_cpu_op": "write a bool_val"}
    for view in facts.views:
        bits = view.columns.wrong_type if wrong else view.columns.no_value
        for name, nodes, _ in _reads(facts, view):
            where = nodes & (bits & _BIT[name] != 0)
            yield view.each(where, f"{name} {what}", special.get(name, remedy) if wrong else remedy)


@check("A04", "size 0")
def size_zero(facts: Facts) -> Findings:
    """A message or an All-Gather has size 0.

    A send or receive of 0 bytes aborts the run: `Assertion 'chunk_size > 0' failed` (`common/ChunkIdGenerator.cc`). An All-Gather
    of 0 bytes, custom or native, has no chunks and never ends: its ranks stall (`system/Sys.cc`, `generate_collective`).

    Remedy: remove the node, or write its size.
    """
    for view in facts.communicating_views:
        where = view.sends_or_receives & (view.trace.size_bytes == 0)
        if view.is_workload:
            gathers = view.rows(NodeType.COMM_COLL) & (view.columns.comm_type == CommType.ALL_GATHER)
            where |= gathers & (view.trace.size_bytes == 0)
        yield view.each(where, "{kind} of 0 bytes", "leave it out")


@check("A05", "collective smaller than a byte per NPU", Severity.WARNING)
def size_raised(facts: Facts) -> Findings:
    """A collective is smaller than one byte per NPU.

    ASTRA-sim raises the size of All-Reduce, Reduce-Scatter and All-to-All to the number of NPUs of the network, also in smaller
    groups (`system/Sys.cc`, `determine_chunk_size`). The collective then takes longer than one of its own size, even at 0 bytes.

    Remedy: remove the node, or write its size.
    """
    view, collectives = facts.workload, facts.collectives
    splits = max(facts.system.preferred_dataset_splits or 1, 1)
    small = (collectives.size_bytes >= 0) & (collectives.size_bytes // splits < facts.num_npus) & (collectives.run < 0)
    rows = collectives.row[small & (collectives.comm_type != CommType.ALL_GATHER)]
    runs_as = facts.num_npus * splits
    yield view.each(rows, f"{{kind}} of {{bytes}} bytes runs as one of {runs_as:,}", "leave it out, or give it its size")


@check("A06", "size or duration out of range")
def size_huge(facts: Facts) -> Findings:
    """A size or duration is negative, or too large for ASTRA-sim's clock.

    ASTRA-sim reads a negative size as a number near 2**64. It passes times as doubles, which represent every nanosecond only up
    to 2**53 (104 days): later events happen at wrong times, and ranks stall (`common/CommonNetworkApi.cc`, `sim_schedule`).

    Remedy: correct the value; durations are in microseconds.
    """
    for view in facts.views:
        comm = view.rows(NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV) & facts.communicates
        size = view.trace.size_bytes
        where = comm & ((size < ABSENT) | (size > EXACT_NS))
        yield view.each(where, "comm_size is {bytes}", "correct it")
        single = (view.trace.duration_us < 0) | (view.trace.duration_us > EXACT_NS // NS_PER_US)
        yield view.each(single, "takes {us} us, more than ASTRA-sim's clock counts", "durations are microseconds")
        total = np.bincount(view.rank[~single], view.trace.duration_us[~single], view.trace.num_ranks)
        for rank in np.flatnonzero(total * NS_PER_US > EXACT_NS).tolist():
            yield Found("the rank computes for more than 2**53 ns", "durations are microseconds", view.files.file(rank), rank)


@check("A07", "tag out of range")
def negative_tag(facts: Facts) -> Findings:
    """A tag is negative, or 2**31 or more, which ASTRA-sim reads as a negative number.

    ASTRA-sim aborts: `Assertion 'tag >= 0' failed` (`common/ChunkIdGenerator.cc`).

    Remedy: use tags from 0 to 499,999,999, as ASTRA-sim takes tags modulo 500,000,000.
    """
    for view in facts.communicating_views:
        tag = view.trace.tag
        where = view.sends_or_receives & (tag != ABSENT) & (tag & 0xFFFF_FFFF > 0x7FFF_FFFF)
        yield view.each(where, "comm_tag is {tag}", "use 0 to 499999999")


@check("A08", "peer that does not exist")
def peer_outside(facts: Facts) -> Findings:
    """A message comes from or goes to a rank that does not exist.

    A send aborts the run: `Assertion '0 <= dest && dest < npus_count' failed`; a receive waits for ever. In a custom collective
    the peer is a position in the communicator group; for a position beyond the group ASTRA-sim reads out of bounds
    (`CustomAlgorithm.cc`, `convert_algo_rank_to_real_rank`).

    Remedy: use ranks from 0 to the number of NPUs minus 1, and in a custom collective positions in the group.
    """
    for view in facts.views:
        count = facts.num_npus if view.is_workload else view.num_ranks
        where = _messages(facts, view) & (view.trace.peer != ABSENT) & ((view.trace.peer < 0) | (view.trace.peer >= count))
        yield view.each(where, f"{{towards}}, there are {count:,}", f"use 0 to {count - 1}")


@check("A09", "message to itself")
def peer_itself(facts: Facts) -> Findings:
    """A rank sends a message to itself.

    There is no link for such a message, and ASTRA-sim aborts. The exception is a Switch on the congestion-aware backend, where
    the message goes to the switch and back (`congestion_aware/network/Device.cpp`;
    `congestion_unaware/basic-topology/BasicTopology.cpp`).

    Remedy: remove the send and the receive.
    """
    network = facts.inputs.network
    dimensions = network.dimensions if facts.queues and network else ()
    if dimensions and all(dimension.building_block.delivers_to_itself for dimension in dimensions):
        return
    for view in facts.views:
        where = _messages(facts, view) & (view.trace.peer == view.rank)
        yield view.each(where, "{towards}: itself", "leave it out")


@check("A10", "message of another rank")
def other_rank(facts: Facts) -> Findings:
    """A send names another rank as its source, or a receive names another rank as its destination.

    ASTRA-sim throws `Send node should be issued by the sender` (`workload/Workload.cc`, `issue_send_comm`): it aborts at time 0;
    later, the rank stalls. In custom collectives these attributes have no effect.

    Remedy: remove comm_src of sends and comm_dst of receives, or set them to the rank of the file.
    """
    view = facts.workload
    own = view.columns.own
    where = _messages(facts, view) & (own != ABSENT) & (own != view.rank)
    yield view.each(where, "{own}, in the file of rank {rank}", "set it to the rank of the file")
