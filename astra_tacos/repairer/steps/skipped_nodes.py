"""Nodes that ASTRA-sim skips."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step
from astra_tacos.trace.schema import NodeType


def drop_skipped(draft: Draft, log: Log) -> None:
    """Remove nodes of type INVALID; what depended on them depends on what they depended on.

    ASTRA-sim skips such a node, and starts what depends on it with the rank's next event, which may never come.
    """
    for rank, nodes in enumerate(draft.ranks):
        gone = nodes.of_kind(NodeType.INVALID)
        for node in gone:
            log.add("removed (INVALID)", "ASTRA-sim skips the node, and may stall behind it", rank, node.id)
        draft.bypass(rank, gone)


STEP = Step("skipped-nodes", ("A13",), drop_skipped)
