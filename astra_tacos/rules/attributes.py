"""Rules A01 to A10: attributes of nodes that are missing, of a wrong type or out of range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.node_facts import NodeFacts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.backend import EXACT_NS
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT, WORKLOAD_ATTRIBUTES
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.rows import Severity
from astra_tacos.support.units import NS_PER_US


def _messages(facts: NodeFacts, view: TraceView) -> Bools:
    return view.sends_or_receives & facts.communicates


_BIT = {name: np.uint32(1 << place) for place, name in enumerate(WORKLOAD_ATTRIBUTES)}


def _reads(facts: NodeFacts, view: TraceView) -> Iterator[tuple[str, Bools, bool]]:
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


def _lacks(view: TraceView, name: str, rows: Ints) -> Bools:
    """bool[num_rows], whether nodes have no value of an attribute, or -1."""
    trace = view.trace
    column = {"comm_size": trace.size_bytes, "comm_tag": trace.tag}.get(name)
    if column is None and name not in ("comm_src", "comm_dst"):
        column = getattr(view.columns, name)
    if column is not None:
        return np.equal(column[rows], ABSENT)
    is_peer = np.equal(trace.kind[rows] == NodeType.COMM_RECV, name == "comm_src")
    absent = np.equal(trace.peer[rows], ABSENT)
    return absent if is_peer.all() else np.where(is_peer, absent, view.columns.own[rows] == ABSENT)


@rule("A01", "missing attribute")
def missing_attribute(facts: NodeFacts) -> Findings:
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
                rows = np.flatnonzero(nodes)
                rows = rows[_lacks(view, name, rows)]
                for bits in (view.wrong_type, view.no_value):
                    rows = rows if bits is None else rows[bits[rows] & _BIT[name] == 0]
                yield view.each(rows, f"{{kind}} without {name} (or of -1)", f"add {name}")


@rule("A02", "attribute of a wrong type")
def wrong_type(facts: NodeFacts) -> Findings:
    """An attribute has a value of a type that ASTRA-sim does not accept.

    ASTRA-sim accepts every integer type and bool for numbers; it throws `std::bad_cast` for floating point, text and bytes, and
    `Attribute type not supported` for lists. pg_name has to be a string_val, involved_dim a bool_list (Chakra
    `feeder_v3/et_feeder_node.h`, `flagged_implicit_converter`; `workload/Workload.cc`). At time 0 the exception aborts the run;
    later, the rank stalls.

    Remedy: use int64_val for numbers (uint64_val for tensor_size), bool_val for is_cpu_op.
    """
    yield from _bad_values(facts, wrong=True, problem="has a value of a wrong type", remedy="write an integer type")


@rule("A03", "attribute without a value")
def no_value(facts: NodeFacts) -> Findings:
    """An attribute that ASTRA-sim reads has a name but no value.

    ASTRA-sim throws `Attribute type not supported, for list types please handle them manually` (Chakra
    `feeder_v3/et_feeder_node.h`): it aborts at time 0; later, the rank stalls. Attributes that ASTRA-sim does not read need no
    value.

    Remedy: write a value, or remove the attribute.
    """
    yield from _bad_values(facts, wrong=False, problem="has no value", remedy="write a value or leave out the attribute")


def _bad_values(facts: NodeFacts, *, wrong: bool, problem: str, remedy: str) -> Findings:
    special = {"pg_name": "write a string_val", "involved_dim": "write a bool_list", "is_cpu_op": "write a bool_val"}
    for view in facts.views:
        bits = view.wrong_type if wrong else view.no_value
        if bits is None or not bits.any():
            continue
        for name, nodes, _ in _reads(facts, view):
            where = nodes & (bits & _BIT[name] != 0)
            yield view.each(where, f"{name} {problem}", special.get(name, remedy) if wrong else remedy)


@rule("A04", "message or All-Gather of size 0")
def size_zero(facts: NodeFacts) -> Findings:
    """A message or an All-Gather has size 0.

    A send or receive of 0 bytes aborts the run: `Assertion 'chunk_size > 0' failed` (`common/ChunkIdGenerator.cc`). An All-Gather
    of 0 bytes, custom or native, has no chunks and never ends: its ranks stall (`system/Sys.cc`, `generate_collective`).

    Remedy: remove the node, or write its size.
    """
    for view in facts.communicating_views:
        empty = view.trace.size_bytes == 0
        yield view.each(view.sends_or_receives & empty, "{kind} of 0 bytes", "leave it out")
        if view.is_workload:
            gathers = view.rows(NodeType.COMM_COLL) & (view.columns.comm_type == CommType.ALL_GATHER)
            yield view.each(gathers & empty, "{kind} of 0 bytes", "leave it out", waits=True)


@rule("A05", "collective smaller than a byte per NPU", Severity.WARNING)
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


@rule("A06", "size or duration out of range")
def size_huge(facts: NodeFacts) -> Findings:
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
            problem = "the rank computes for more than 2**53 ns"
            yield Found(problem, "durations are microseconds", view.files.file(rank), rank, is_replayed=True)


@rule("A07", "tag out of range")
def negative_tag(facts: NodeFacts) -> Findings:
    """A tag is negative, or 2**31 or more, which ASTRA-sim reads as a negative number.

    ASTRA-sim aborts: `Assertion 'tag >= 0' failed` (`common/ChunkIdGenerator.cc`).

    Remedy: use tags from 0 to 499,999,999, as ASTRA-sim takes tags modulo 500,000,000.
    """
    for view in facts.communicating_views:
        tag = view.trace.tag
        where = view.sends_or_receives & (tag != ABSENT) & (tag & 0xFFFF_FFFF > 0x7FFF_FFFF)
        yield view.each(where, "comm_tag is {tag}", "use 0 to 499999999")


@rule("A08", "peer that does not exist")
def peer_outside(facts: NodeFacts) -> Findings:
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


@rule("A09", "message to itself")
def peer_itself(facts: NodeFacts) -> Findings:
    """A rank sends a message to itself.

    There is no link for such a message, and ASTRA-sim aborts. The exception is a Switch on the congestion-aware backend, where
    the message goes to the switch and back (`congestion_aware/network/Device.cpp`;
    `congestion_unaware/basic-topology/BasicTopology.cpp`).

    Remedy: remove the send and the receive.
    """
    dimensions = facts.dimensions
    if facts.queues and dimensions and all(dimension.building_block.delivers_to_itself for dimension in dimensions):
        return
    for view in facts.views:
        where = _messages(facts, view) & (view.trace.peer == view.owner)
        yield view.each(where, "{towards}: itself", "leave it out")


@rule("A10", "message that names another rank as its own")
def other_rank(facts: NodeFacts) -> Findings:
    """A send names another rank as its source, or a receive names another rank as its destination.

    ASTRA-sim throws `Send node should be issued by the sender` (`workload/Workload.cc`, `issue_send_comm`): it aborts at time 0;
    later, the rank stalls. In custom collectives these attributes have no effect.

    Remedy: remove comm_src of sends and comm_dst of receives, or set them to the rank of the file.
    """
    view = facts.workload
    sender = view.columns.own
    where = _messages(facts, view) & (sender != ABSENT) & (sender != view.owner)
    yield view.each(where, "{own}, in the file of rank {rank}", "write the rank of the file")
