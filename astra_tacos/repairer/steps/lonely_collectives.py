"""Collectives in which something moves."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.step import Step
from astra_tacos.trace.schema import CommType, NodeType


def drop_idle(draft: Draft, log: Log) -> None:
    """Remove collectives of one rank, and of no bytes; what depended on them depends on what they depended on.

    Nothing moves in them, but ASTRA-sim's native algorithms never end in a group of one, and an All-Gather of 0 bytes stalls.
    """
    for rank, nodes in enumerate(draft.ranks):
        gone = []
        for node in nodes.of_kind(NodeType.COMM_COLL):
            reason = _why_idle(draft, node)
            if reason:
                log.add(f"removed {CommType(node.number('comm_type') or 0).name}", reason, rank, node.id)
                gone.append(node)
        draft.bypass(rank, gone)


def _why_idle(draft: Draft, node: DraftNode) -> str | None:
    if node.number("comm_type") == CommType.BROADCAST:
        return None
    if node.number("comm_size") == 0:
        return "it has 0 bytes: nothing moves"
    members = draft.members(node.get("pg_name"))
    return f"group {node.get('pg_name')} has one rank: nothing moves" if members is not None and len(members) == 1 else None


STEP = Step("lonely-collectives", ("G08", "A04", "A05"), drop_idle)
