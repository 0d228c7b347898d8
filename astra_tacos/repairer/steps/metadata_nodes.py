"""Nodes of kinds that ASTRA-sim runs."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step
from astra_tacos.trace.schema import NodeType


def drop_metadata(draft: Draft, log: Log) -> None:
    """Remove METADATA nodes and nodes of unknown types; what depended on them depends on what they depended on.

    ASTRA-sim's statistics abort at such a node. It computes nothing.
    """
    for rank, nodes in enumerate(draft.ranks):
        gone = nodes.not_run()
        for node in gone:
            kind = "METADATA" if node.kind == NodeType.METADATA else f"type {node.kind}"
            log.add(f"removed {node.name or 'the node'} ({kind})", "ASTRA-sim aborts at such nodes", rank, node.id)
        draft.bypass(rank, gone)


STEP = Step("metadata-nodes", ("A12",), drop_metadata)
