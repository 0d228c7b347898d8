"""Rules A11 to A18: kinds of nodes, and what ASTRA-sim does with them."""

from __future__ import annotations

import numpy as np

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.node_facts import NodeFacts
from astra_tacos.rules.rule import Findings, rule
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.aborts import lack_statistics
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT
from astra_tacos.support.arrays import Bools
from astra_tacos.support.rows import Severity
from astra_tacos.support.units import format_size

_MOST_SKIPPED = 64
"""Most skipped nodes of a rank for which lint searches the nodes that may run at the same time."""


def _messages(facts: NodeFacts, view: TraceView) -> Bools:
    return view.sends_or_receives & facts.communicates


@rule("A11", "communication on the CPU")
def cpu_communication(facts: NodeFacts) -> Findings:
    """A communication node has is_cpu_op.

    ASTRA-sim throws `Comm node should not be on CPU` (`workload/Workload.cc`, `issue_comm`): it aborts at time 0; later, the rank
    stalls.

    Remedy: set is_cpu_op to False.
    """
    view = facts.communicating
    comm = view.rows(NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)
    yield view.each(comm & view.columns.is_cpu_op, "{kind} with is_cpu_op", "set is_cpu_op to False")


@rule("A12", "node of type METADATA or of an unknown type")
def metadata_node(facts: NodeFacts) -> Findings:
    """A node is of type METADATA, or of a type that the Chakra schema does not have.

    ASTRA-sim's statistics abort at the node before it is issued: `Assertion 'false' failed`, `Invalid node_type`
    (`workload/Statistics.cc`, `get_operator_type`).

    Remedy: remove the node.
    """
    view = facts.workload
    where = view.rows(NodeType.METADATA) | (view.trace.kind > max(NodeType))
    yield view.each(where, "{kind}", "leave it out")


@rule("A13", "node that ASTRA-sim skips", left_to_timing=True)
def skipped_node(facts: NodeFacts) -> Findings:
    """ASTRA-sim skips a node: it is of type INVALID, or has tensor_size 0 under the roofline.

    A skipped node ends at once, but ASTRA-sim issues its dependents only at the rank's next event (`workload/Workload.cc`,
    `skip_invalid`). If no other node of the rank is running then, there is no such event: the rank stalls silently. This is an
    error if dependencies order every other node of the rank before or after the skipped one, so that none can be running; else a
    warning.

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
    remedy = "make the node a COMP node, or let its dependents wait for its dependencies instead"

    def describe(row: int) -> str:
        kind = "INVALID" if view.trace.kind[row] == NodeType.INVALID else "COMP of tensor_size 0"
        return f"{kind} is skipped, and what depends on it starts with the rank's next event"

    for row in _alone(view, where):
        where[row] = False
        yield view.at(row, f"{describe(row)}: there is none, the rank stalls", remedy)
    for row in np.flatnonzero(where).tolist():
        yield view.at(row, describe(row), remedy, Severity.WARNING)


def _alone(view: TraceView, where: Bools) -> list[int]:
    """Rows of the given nodes that dependencies order with every other node of their rank."""
    rows: list[int] = []
    for rank in np.unique(view.rank[where]).tolist():
        begin, end = view.trace.rank_first[rank], view.trace.rank_first[rank + 1]
        for row in (np.flatnonzero(where[begin:end])[:_MOST_SKIPPED] + begin).tolist():
            others = np.arange(begin, end)
            others = others[others != row]
            same = np.full(len(others), row)
            if (view.precede(others, same) | view.precede(same, others)).all():
                rows.append(row)
    return rows


@rule("A14", "node kind without statistics in ASTRA-sim")
def no_statistics(facts: NodeFacts) -> Findings:
    """A rank runs CPU nodes, loads or stores, or skipped nodes.

    After ASTRA-sim has printed the rank's line, its statistics throw `Only GPU and COMM types are supported for overlap
    extraction` (`workload/Statistics.cc`, `extract_comp_comm_overlap`). The rank gets no statistics. If the rank's last event is
    a message of the workload, ASTRA-sim aborts, so that later ranks never print their line. This is an error if all nodes without
    dependents are messages, else a warning.

    Remedy: make them GPU nodes, if they may occupy the GPU.
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
        nodes_text = f"{count:,} {'nodes' if count > 1 else 'node'} of a kind without statistics in ASTRA-sim ({kind})"
        ends_alone = bool(messages[rows][last[rows]].all())
        end = "ASTRA-sim aborts as the rank ends" if ends_alone else "the rank gets no statistics, or ASTRA-sim aborts at its end"
        yield view.at(row, f"{nodes_text}: {end}", "make them GPU nodes", Severity.ERROR if ends_alone else Severity.WARNING)


@rule("A15", "unsupported pattern")
def unsupported_pattern(facts: NodeFacts) -> Findings:
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


@rule("A16", "BROADCAST only waits", Severity.WARNING)
def broadcast_waits(facts: NodeFacts) -> Findings:
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


@rule("A17", "collective that involves no dimension")
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
    yield view.each(rows[nothing], "involved_dim has no true entry: the collective never ends", "involve one")
    short_given, short_absent = rows[short & ~nothing & (given > 0)], rows[short & (given == 0)]
    yield view.each(short_given, f"involved_dim is shorter than the {count} dimensions", "one entry per dimension")
    yield view.each(short_absent, f"no involved_dim: ASTRA-sim assumes four of {count} dimensions", "write involved_dim")


@rule("A18", "compute without operations under the roofline")
def no_operations(facts: NodeFacts) -> Findings:
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
    yield view.each(where, "num_ops is 0 under the roofline: the node never ends", "leave it out")
