"""Summary of PyTorch's traces: what they communicate and compute, with the keys of a summary of Chakra traces."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.temporaries import garbage_kept
from astra_tacos.workload.importer.documents import read_documents
from astra_tacos.workload.importer.rank_nodes import RankNode, find_ranks, rank_nodes
from astra_tacos.workload.repairer.draft import Log
from astra_tacos.workload.repairer.node import ALL_RANKS


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
        durations = [
            [node.duration_us for node in nodes if node.kind == NodeType.COMP and node.on_cpu == on_cpu] for nodes in ranks
        ]
        if any(durations):
            sums = list(map(sum, durations))
            result[key] = {"nodes": sum(map(len, durations)), "total_us": sum(sums), "most_us_of_a_rank": max(sums)}
    paths = [_critical_path_us(nodes) for nodes in ranks]
    result["critical_path"] = {"us": max(paths), "rank": sources[paths.index(max(paths))].rank}
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
    rows: list[dict[str, Any]] = []
    for (pattern, group, size), by_rank in cases.items():
        counts = [len(durations) for durations in by_rank.values()]
        rows.append(
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
    return sorted(rows, key=lambda entry: -(entry["size_bytes"] or 0) * int(entry["nodes"]))
