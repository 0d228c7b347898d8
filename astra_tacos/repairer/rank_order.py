"""The order of a rank's nodes: dependencies first, then ids, as ASTRA-sim starts them."""

from __future__ import annotations

import heapq

from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.rank_nodes import RankNodes
from astra_tacos.trace.schema import NodeType

_COMMUNICATION = (NodeType.COMM_COLL, NodeType.COMM_SEND, NodeType.COMM_RECV)


def issue_order(of_rank: RankNodes) -> list[DraftNode]:
    """Collectives and messages in an order that dependencies of all nodes allow, the lowest id first among those that are ready.

    Nodes in a cycle, and those behind one, come last, by id. Dependencies on nodes that do not exist count for nothing.
    """
    if not of_rank.backward():  # then the lowest id of those that are left is always ready
        return sorted(of_rank.of_kind(*_COMMUNICATION), key=lambda node: node.id)
    nodes = list(of_rank)
    by_id = {node.id: node for node in nodes}
    waits: dict[int, int] = {}
    after: dict[int, list[int]] = {}
    for node in nodes:
        needed = {dep for dep in node.deps if dep in by_id}
        waits[node.id] = len(needed)
        for dep in needed:
            after.setdefault(dep, []).append(node.id)
    ready = [node_id for node_id, count in waits.items() if count == 0]
    heapq.heapify(ready)
    order: list[DraftNode] = []
    while ready:
        node_id = heapq.heappop(ready)
        order.append(by_id[node_id])
        for other in after.get(node_id, ()):
            waits[other] -= 1
            if waits[other] == 0:
                heapq.heappush(ready, other)
    placed = {node.id for node in order}
    order += sorted((node for node in nodes if node.id not in placed), key=lambda node: node.id)
    return [node for node in order if node.kind in _COMMUNICATION]
