"""The order of a rank's nodes: dependencies first, then ids, as ASTRA-sim starts them."""

from __future__ import annotations

import heapq

from astra_tacos.repairer.node import DraftNode


def issue_order(nodes: list[DraftNode]) -> list[DraftNode]:
    """Nodes in an order that their dependencies allow, the lowest id first among those that are ready.

    Nodes in a cycle, and those behind one, come last, by id. Dependencies on nodes that do not exist count for nothing.
    """
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
    return order + sorted((node for node in nodes if node.id not in placed), key=lambda node: node.id)
