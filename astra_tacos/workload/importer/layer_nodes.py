"""The nodes of a rank of a workload text: computation and collectives of its layers, one after another."""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.importer.communication import DEFAULT_GROUP, Communication
from astra_tacos.workload.importer.rank_nodes import RankNode, Rounding
from astra_tacos.workload.importer.simai import LayerCollective, SimaiWorkload

MOST_NODES = 1_000_000
"""Nodes of all ranks of a run that is made; each takes several us and about a kilobyte until it is written."""
_NS_PER_US = 1_000


def layer_groups(workload: SimaiWorkload) -> dict[str, list[int]]:
    """Ranks of each group of some of the ranks, by the name that its collectives give it."""
    return {
        _group_name(axis, first): ranks
        for axis, groups in workload.groups().items()
        for first, ranks in groups.items()
        if 1 < len(ranks) < workload.num_ranks
    }


def rounded_gathers(workload: SimaiWorkload) -> int:
    """Number of All-Gathers of a rank whose size is not a multiple of the number of ranks."""
    sizes = {axis: len(next(iter(groups.values()))) for axis, groups in workload.groups().items()}
    calls = (phase.collective for _, phase, _, _ in workload.work() if phase.collective is not None)
    return sum(call.pattern == CommType.ALL_GATHER and call.size_bytes % sizes[call.axis] > 0 for call in calls)


def layer_nodes(workload: SimaiWorkload) -> list[list[RankNode]]:
    """The nodes of each rank; ranks differ in the groups of their collectives only.

    Computation and collectives form a chain, but for collectives of weights' gradients, which nothing waits for. Durations are
    whole us: fractions are carried over to what follows, so that the sum stays. Collectives of one rank are left out.

    Raises
    ------
    ConfigError
        If there would be more than `MOST_NODES` nodes.
    """
    members = {axis: {rank: ranks for ranks in groups.values() for rank in ranks} for axis, groups in workload.groups().items()}
    steps = list(workload.work())
    if 2 * len(steps) * workload.num_ranks > MOST_NODES:
        raise ConfigError(
            f"{workload.source}: {workload.num_ranks:,} ranks with {len(steps):,} phases each, expected at most "
            f"{MOST_NODES // 2:,} in all"
        )
    ranks: list[list[RankNode]] = []
    for rank in range(workload.num_ranks):
        chain = _Chain()
        own = {axis: of_rank[rank] for axis, of_rank in members.items()}
        for name, phase, update_ns, is_blocking in steps:
            chain.compute(name, phase.compute_ns)
            if phase.collective is not None and len(own[phase.collective.axis]) > 1:
                call = _call(name, phase.collective, own[phase.collective.axis], workload.num_ranks)
                chain.communicate(call, update_ns, is_blocking=is_blocking)
        ranks.append(chain.nodes)
    return ranks


def _call(name: str, collective: LayerCollective, ranks: list[int], num_ranks: int) -> Communication:
    group = DEFAULT_GROUP if len(ranks) == num_ranks else _group_name(collective.axis, ranks[0])
    size = collective.size_bytes
    if collective.pattern == CommType.ALL_GATHER:  # what a rank contributes, not what it has in the end
        size = -(-size // len(ranks))
    return Communication(name, collective.pattern, size, group)


def _group_name(axis: str, first: int) -> str:
    return f"{axis} {first}"


@dataclass(slots=True)
class _Chain:
    """The nodes of a rank, as they are added."""

    nodes: list[RankNode] = field(default_factory=list)
    last: tuple[int, ...] = ()
    rounding: Rounding = field(default_factory=Rounding)
    updates: Rounding = field(default_factory=Rounding)

    def compute(self, name: str, ns: int) -> None:
        us = self.rounding.take(ns / _NS_PER_US)
        if us:
            self.last = self._add(RankNode(name, NodeType.COMP, us, self.last))

    def communicate(self, call: Communication, update_ns: int, *, is_blocking: bool) -> None:
        done = self._add(RankNode(call.name, NodeType.COMM_COLL, 0, self.last, call=call))
        if is_blocking:
            self.last = done
            self.compute(f"{call.name} update", update_ns)
        elif us := self.updates.take(update_ns / _NS_PER_US):
            self._add(RankNode(f"{call.name} update", NodeType.COMP, us, done))

    def _add(self, node: RankNode) -> tuple[int, ...]:
        self.nodes.append(node)
        return (len(self.nodes) - 1,)
