"""Dependencies without cycles."""

from __future__ import annotations

from collections.abc import Container, Iterable

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.step import Step

_Edge = tuple[int, int]


def cut_cycles(draft: Draft, log: Log) -> None:
    """Cut cycles of dependencies, at the dependency that loses least.

    A control dependency goes before one on data, one on a later id before one on an earlier id, and among equals the one that
    cuts the most cycles of two. All others stay.
    """
    for rank, nodes in enumerate(draft.ranks):
        # With each dependency on a lower id, there is no cycle: every other one spans the ids of the cycles that it is in.
        by_id = {node.id: node for node in nodes.between(nodes.backward())}
        pending = _components(by_id, {node_id: _needed(node, by_id) for node_id, node in by_id.items()})
        while pending:
            members = pending.pop()
            inside = {node_id: _needed(by_id[node_id], members) for node_id in members}
            node_id, dep = _cheapest(by_id, inside)
            node = by_id[node_id]
            node.replace_deps(lambda other, dep=dep: () if other == dep else (other,))
            size = "itself" if node_id == dep else f"a cycle of {len(members):,} nodes"
            log.add(f"no longer depends on {dep}", f"it waited for {size}", rank, node_id)
            inside[node_id].discard(dep)
            pending += _components(members, inside)


def _needed(node: DraftNode, among: Container[int]) -> set[int]:
    return {dep for dep in node.deps if dep in among}


def _cheapest(by_id: dict[int, DraftNode], inside: dict[int, set[int]]) -> _Edge:
    best, best_cost = (-1, -1), (2, 2, 2, 0, 0)
    for node_id in sorted(inside):
        data = set(by_id[node_id].message.data_deps)
        for dep in sorted(inside[node_id]):
            mutual = node_id in inside[dep]
            cost = (dep != node_id, dep in data, dep < node_id, not mutual, node_id)
            if best == (-1, -1) or cost < best_cost:
                best, best_cost = (node_id, dep), cost
    return best


def _components(members: Iterable[int], needed: dict[int, set[int]]) -> list[set[int]]:
    """Sets of nodes that depend on one another in cycles (Tarjan's strongly connected components, without recursion)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[set[int]] = []
    for root in members:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(needed[root]))]
        while work:
            node, rest = work[-1]
            for dep in rest:
                if dep not in number:
                    number[dep] = low[dep] = len(number)
                    stack.append(dep)
                    on_stack.add(dep)
                    work.append((dep, iter(needed[dep])))
                    break
                if dep in on_stack:
                    low[node] = min(low[node], number[dep])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = set()
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.add(member)
                        if member == node:
                            break
                    if len(component) > 1 or node in needed[node]:
                        found.append(component)
    return found


STEP = Step("cycles", ("D02", "D03"), cut_cycles)
