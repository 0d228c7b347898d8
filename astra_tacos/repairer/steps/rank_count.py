"""As many traces as the network has NPUs."""

from __future__ import annotations

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step
from astra_tacos.trace.schema import NodeType


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
        draft.ranks.append(nodes.copy())
        draft.metadata.append(draft.metadata[0])
        log.add(
            "copied from rank 0",
            f"there is one trace for {wanted:,} ranks: assumed that they are data-parallel",
            rank,
            compute_us=compute_us,
            is_assumed=True,
        )
    # Groups of a part of the ranks say nothing about copies: every collective is one of all ranks.
    for rank, node in draft.collectives():
        if node.get("pg_name") not in (None, "", "0"):
            what = f"group {node.get('pg_name')!r} became all ranks"
            log.add(what, "every rank is a copy of rank 0", rank, node.id, is_assumed=True)
            node.drop("pg_name")
    draft.groups.clear()


STEP = Step("rank-count", ("F06", "F07"), fit_ranks)
