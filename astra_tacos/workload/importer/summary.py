"""Summary of PyTorch's traces: what they communicate and compute, with the keys of a summary of Chakra traces.

The nodes of a rank of a workload text: computation and collectives of its layers, one after another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.temporaries import garbage_kept
from astra_tacos.workload.importer.documents import read_documents
from astra_tacos.workload.importer.host_trace import DEFAULT_GROUP, Communication
from astra_tacos.workload.importer.rank_nodes import Builder, RankNode, Rounding, rank_nodes
from astra_tacos.workload.importer.rank_sources import find_ranks
from astra_tacos.workload.importer.simai import LayerCollective, SimaiWorkload
from astra_tacos.workload.repairer.draft import Log
from astra_tacos.workload.repairer.node import ALL_RANKS

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
        ranks.append(chain.builder.nodes)
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
    """The nodes of a rank, each of which waits for the one before it."""

    builder: Builder = field(default_factory=Builder)
    last: tuple[int, ...] = ()
    rounding: Rounding = field(default_factory=Rounding)
    updates: Rounding = field(default_factory=Rounding)

    def compute(self, name: str, ns: int) -> None:
        us = self.rounding.take(ns / _NS_PER_US)
        if us:
            self.last = (self.builder.compute(name, us, self.last, on_cpu=False),)

    def communicate(self, call: Communication, update_ns: int, *, is_blocking: bool) -> None:
        done = (self.builder.communicate(call, 0, self.last),)
        if is_blocking:
            self.last = done
            self.compute(f"{call.name} update", update_ns)
        elif us := self.updates.take(update_ns / _NS_PER_US):
            self.builder.compute(f"{call.name} update", us, done, on_cpu=False)


def summarise_files(files: Iterable[Path]) -> dict[str, Any]:
    """The figures of PyTorch's traces, as values that JSON can represent.

    `compute` is time of GPUs, `cpu_compute` that of the host between launches. `critical_path` is the longest chain of what has
    to wait for one another within a rank, by measured durations, also those of communication.

    Raises
    ------
    ConfigError
        If a file is no trace of PyTorch.
    """
    with garbage_kept():
        sources = find_ranks(read_documents(files))
        ranks = [rank_nodes(rank, source, Log("inspect")) for rank, source in enumerate(sources)]
    counts = [len(nodes) for nodes in ranks]
    kinds = Counter(NodeType(node.kind).name for nodes in ranks for node in nodes)
    result: dict[str, Any] = {
        "ranks": len(sources),
        "has_times": all(source.device is not None for source in sources),
        "nodes": sum(counts),
        "nodes_per_rank": {"least": min(counts), "most": max(counts)},
        "node_types": dict(sorted(kinds.items())),
    }
    for key, on_cpu in (("compute", False), ("cpu_compute", True)):
        found = [[node.duration_us for node in nodes if node.kind == NodeType.COMP and node.on_cpu == on_cpu] for nodes in ranks]
        if any(found):
            sums = list(map(sum, found))
            result[key] = {"nodes": sum(map(len, found)), "total_us": sum(sums), "most_us_of_a_rank": max(sums)}
    paths = [_critical_path_us(nodes) for nodes in ranks]
    result["critical_path"] = {"us": max(paths), "rank": paths.index(max(paths))}
    result["collectives"] = _collectives(ranks)
    return result


def _critical_path_us(nodes: list[RankNode]) -> int:
    """The longest chain; nodes come after what they depend on."""
    chain: list[int] = []
    for node in nodes:
        deps = node.deps
        before = chain[deps[0]] if len(deps) == 1 else max([chain[dep] for dep in deps], default=0)
        chain.append(node.duration_us + before)
    return max(chain, default=0)


def _collectives(ranks: list[list[RankNode]]) -> list[dict[str, Any]]:
    cases: dict[tuple[CommType, str, int | None], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, nodes in enumerate(ranks):
        for node in nodes:
            if node.call is not None and node.call.pattern is not None:
                cases[node.call.pattern, node.call.group, node.call.size_bytes][rank].append(node.duration_us)
    found: list[dict[str, Any]] = []
    for (pattern, group, size), by_rank in cases.items():
        counts = [len(durations) for durations in by_rank.values()]
        found.append(
            {
                "pattern": pattern.name,
                "group": "all ranks" if group in ALL_RANKS else group,
                "size_bytes": size,
                "ranks": len(by_rank),
                "nodes": sum(counts),
                "nodes_per_rank": {"least": min(counts), "most": max(counts)},
                "duration_us": sum(map(sum, by_rank.values())),
            }
        )
    return sorted(found, key=lambda entry: -(entry["size_bytes"] or 0) * int(entry["nodes"]))
