"""Traces of ranks: one for each NPU, which ASTRA-sim reads, starts and ends."""

from __future__ import annotations

from astra_tacos.run.trace.node_bytes import new_node
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import DraftNode


@mend("compressed-traces", "F09")
def decompress(draft: Draft, log: Log) -> None:
    """Write traces that are compressed by gzip as plain files.

    ASTRA-sim takes the compressed bytes for nodes.
    """
    for rank in draft.compressed:
        log.add("decompressed", "ASTRA-sim does not read gzip", rank)


@mend("rank-count", "F06", "F07")
def fit_ranks(draft: Draft, log: Log) -> None:
    """Replicate the trace of a single rank over all NPUs, and leave out traces that no NPU reads.

    A rank is replicated only where `--ranks` asks for it: as in data parallelism, every rank then computes the same, and runs the
    same collectives in the group of all ranks. Messages have other peers on every rank, so a rank that has some is not
    replicated. ASTRA-sim never opens traces of ranks beyond the network.
    """
    wanted, count = draft.network.num_npus, draft.num_ranks
    if count == 1 and wanted > 1:
        _replicate(draft, log, wanted)
    elif count < wanted:
        raise ConfigError(
            f"{draft.name}.{count}.et: no such file, and the network has {wanted:,} NPUs: what the ranks from {count:,} on do is "
            "not known, expected a trace per NPU, or a network of fewer"
        )
    for rank in draft.surplus:
        log.add("trace left out", f"the network has {wanted:,} NPUs: ASTRA-sim never reads it", rank)


def _replicate(draft: Draft, log: Log, wanted: int) -> None:
    nodes = draft.ranks[0]
    message = next(iter(nodes.of_kind(NodeType.COMM_SEND, NodeType.COMM_RECV)), None)
    if message is not None:
        raise ConfigError(
            f"{draft.name}.0.et: node {message.id} is a message to or from another rank, whose trace is missing: a rank with "
            "messages cannot be replicated"
        )
    compute_us = nodes.compute_us()
    for rank in range(1, wanted):
        draft.ranks.append(nodes.copy(rank))
        draft.metadata.append(draft.metadata[0])
        log.add(
            "copied from rank 0",
            f"there is one trace for {wanted:,} ranks: assumed that they are data-parallel",
            rank,
            compute_us=compute_us,
            is_assumed=True,
        )
    # Groups of a part of the ranks say nothing about copies: every collective is one of all ranks.
    for node in draft.collectives():
        if node.group_name not in (None, "", "0"):
            change = f"group {node.group_name!r} became all ranks"
            log.add(change, "every rank is a copy of rank 0", node, is_assumed=True)
            node.drop("pg_name")
    draft.groups.clear()


@mend("empty-ranks", "F08")
def fill_empty(draft: Draft, log: Log) -> None:
    """Give ranks without nodes one compute node of 0 us, which takes 1 ns.

    ASTRA-sim throws at a trace without nodes.
    """
    for nodes in draft.ranks:
        if not len(nodes):
            node = DraftNode(new_node(0, "nothing", NodeType.COMP, is_cpu_op=False))
            nodes.append(node)
            log.add("a compute node of 0 us (1 ns) added", "ASTRA-sim throws at a trace without nodes", node)


@mend("first-nodes", "N04")
def delay_first(draft: Draft, log: Log) -> None:
    """Have ranks start with a compute node of 1 ns, where their first event would take less.

    ASTRA-sim asserts that its first event comes after time 0.
    """
    if not draft.found("N04"):
        return
    for rank, nodes in enumerate(draft.ranks):
        first = nodes.first()
        node = draft.pause(rank, "start")
        for other in first:
            other.depend((node.id,))
        nodes.append(node)
        log.add("starts with a compute node of 0 us (1 ns)", "ASTRA-sim aborts at less than 1 ns at time 0", node)


@mend("last-nodes", "A14", leaves_warnings=True)
def end_with_compute(draft: Draft, log: Log) -> None:
    """Have a rank that runs CPU nodes and may end with a message end with a compute node of 1 ns instead.

    ASTRA-sim's statistics throw at CPU nodes as the rank ends. That does no harm, unless the rank's last event is a message:
    ASTRA-sim then aborts. Which of several nodes ends last depends on timing.
    """
    ranks = {finding.rank for finding in draft.report().findings if finding.code == "A14"}
    for rank in sorted(rank for rank in ranks if rank is not None):
        last = draft.ranks[rank].last()
        if not any(node.is_message for node in last):
            continue
        node = draft.pause(rank, "end")
        node.depend(other.id for other in last)
        draft.ranks[rank].append(node)
        log.add("ends with a compute node of 0 us (1 ns)", "ASTRA-sim's statistics abort where a message ends it", node)
