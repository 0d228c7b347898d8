"""Dependencies on nodes that exist, without cycles."""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np

from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import DraftNode

_SHOWN = 4
"""Ids that a change lists."""


@mend("dangling-dependencies", "D01")
def drop_dangling(draft: Draft, log: Log) -> None:
    """Remove dependencies on ids that no node of the rank has.

    Converters leave nodes out (of threads, of operators without kernels) and keep the ids of those that others waited for. What
    a missing node waited for is not in the file.
    """
    for nodes in draft.ranks:
        find = nodes.finder()
        for node in nodes.dangling():
            missing = {dep: None for dep in node.deps if find(dep) is None}
            if missing:
                listed = ", ".join(map(str, list(missing)[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
                change = f"no longer depends on {listed}"
                log.add(change, "no node of the rank has that id", node)
                node.replace_deps(lambda dep, gone=missing: () if dep in gone else (dep,))


@mend("cycles", "D02", "D03")
def cut_cycles(draft: Draft, log: Log) -> None:
    """Cut cycles of dependencies, at the dependency that loses least.

    A control dependency goes before one on data, one on a later id before one on an earlier id, and among equals the one that
    cuts the most cycles of two. All others stay.
    """
    for nodes in draft.ranks:
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
            log.add(f"no longer depends on {dep}", f"it waited for {size}", node)
            inside[node_id].discard(dep)
            pending += _components(members, inside)


def _needed(node: DraftNode, among: Container[int]) -> set[int]:
    return {dep for dep in node.deps if dep in among}


def _cheapest(by_id: dict[int, DraftNode], inside: dict[int, set[int]]) -> tuple[int, int]:
    """A node and what it depends on: the dependency that loses least."""
    data = {node_id: set(by_id[node_id].message.data_deps) for node_id in inside}

    def cost(edge: tuple[int, int]) -> tuple[int, ...]:
        node_id, dep = edge
        return dep != node_id, dep in data[node_id], dep < node_id, node_id not in inside[dep], node_id

    return min(((node_id, dep) for node_id in sorted(inside) for dep in sorted(inside[node_id])), key=cost)


def _components(members: Iterable[int], needed: dict[int, set[int]]) -> list[set[int]]:
    """Sets of nodes that depend on one another in cycles."""
    from astra_tacos.planner.group_topology import components

    place = {node_id: number for number, node_id in enumerate(members)}
    edges = [(place[node_id], place[dep]) for node_id in place for dep in needed[node_id]]
    parts: dict[int, set[int]] = {}
    for node_id, part in zip(place, components(len(place), *np.array(edges).T).tolist() if edges else (), strict=False):
        parts.setdefault(part, set()).add(node_id)
    return [part for part in parts.values() if len(part) > 1 or part <= needed[min(part)]]
