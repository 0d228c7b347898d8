"""Summary of a trace: nodes by kind, messages, compute times, and collectives by pattern, group and size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.groups import ALL_RANKS, UNKNOWN, group_ids
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools
from astra_tacos.support.grouping import group_by, row_places
from astra_tacos.support.units import format_size

_MOST_US = 1 << 40
"""Durations beyond this, more than 12 days, are damage, and would overflow sums."""
_GROUP_TEXTS = {ALL_RANKS: "all ranks"}
COLLECTIVES_TITLE = "collectives"
COLLECTIVES_HEADER = ("pattern", "group", "size", "ranks", "nodes", "nodes a rank", "duration us")


def summarise_trace(trace: Trace) -> dict[str, Any]:
    """The figures of a trace, as values that JSON can represent.

    `compute` and `cpu_compute` describe the compute nodes of GPUs and CPUs: their number, and the sum of their durations in us,
    over all ranks and on the rank that computes most. `critical_path` is the longest chain of dependencies within a rank by the
    durations that nodes state, also those measured of communication, and the rank that has it. `collectives` has one entry per
    pattern, group and size, those with most bytes first. Keys for which the trace has no data, or was read without the columns,
    are missing.
    """
    names = {int(kind): kind.name for kind in NodeType}
    kinds, counts = np.unique(trace.kind, return_counts=True)
    per_rank = np.diff(trace.rank_first)
    result: dict[str, Any] = {
        "ranks": trace.num_ranks,
        "nodes": trace.num_nodes,
        "nodes_per_rank": _ends(per_rank),
        "node_types": {names.get(int(kind), str(kind)): int(count) for kind, count in zip(kinds, counts, strict=True)},
        "dependencies": len(trace.dep),
    }
    sends = trace.kind == NodeType.COMM_SEND
    sizes = trace.size_bytes[sends & (trace.size_bytes >= 0)]
    if len(sizes):
        result["message_bytes"] = _ends(sizes) | {"all": int(sizes.sum())}
    chunks = np.unique(trace.chunks.total_chunks[sends]).tolist() if trace.chunks else []
    if chunks and chunks[0] >= 0:
        result["chunks"] = chunks
    if trace.workload is not None:
        computes, on_cpu = trace.kind == NodeType.COMP, trace.workload.is_cpu_op
        for key, rows in (("compute", computes & ~on_cpu), ("cpu_compute", computes & on_cpu)):
            if rows.any():
                result[key] = _durations(trace, rows)
        result["critical_path"] = _critical_path(trace)
        result["collectives"] = _collectives(trace)
    return result


def collective_rows(collectives: list[dict[str, Any]], most: int) -> tuple[str, list[tuple[str, ...]]]:
    """Title and rows of a table of the collectives with most bytes, from the `collectives` of `summarise_trace`."""
    hidden = len(collectives) - most
    title = COLLECTIVES_TITLE + (f" (the {most} with most bytes of {len(collectives):,})" if hidden > 0 else "")
    return title, [_row(entry) for entry in collectives[:most]]


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    size, least, most = entry["size_bytes"], entry["nodes_per_rank"]["least"], entry["nodes_per_rank"]["most"]
    return (
        entry["pattern"],
        entry["group"],
        "none" if size is None else format_size(size),
        f"{entry['ranks']:,}",
        f"{entry['nodes']:,}",
        f"{most:,}" if least == most else f"{least:,} to {most:,}",
        f"{entry['duration_us']:,}",
    )


def _ends(values: NDArray[np.integer]) -> dict[str, int]:
    return {"least": int(values.min()), "most": int(values.max())}


def _critical_path(trace: Trace) -> dict[str, int]:
    from astra_tacos.pages._path_kernels import longest_chains

    chain = longest_chains(trace.dep_first, trace.dep, trace.duration_us.clip(0, _MOST_US))
    row = int(np.argmax(chain))
    return {"us": max(int(chain[row]), 0), "rank": int(np.searchsorted(trace.rank_first, row, side="right")) - 1}


def _durations(trace: Trace, rows: Bools) -> dict[str, int]:
    duration_us = trace.duration_us[rows]
    by_rank = np.bincount(trace.rank[rows], duration_us, trace.num_ranks)
    return {"nodes": int(rows.sum()), "total_us": int(duration_us.sum()), "most_us_of_a_rank": int(by_rank.max())}


def _collectives(trace: Trace) -> list[dict[str, Any]]:
    columns = trace.workload
    rows = np.flatnonzero(trace.kind == NodeType.COMM_COLL)
    if columns is None or not rows.size:
        return []
    group, name = group_ids(columns)[rows], columns.group[rows].astype(np.int64)
    name[group != UNKNOWN] = -1  # different texts of one number mean one group
    keys = (trace.size_bytes[rows], name, group, columns.comm_type[rows])
    firsts, case_of_row = row_places(*keys)
    begins, order = group_by(case_of_row, np.arange(len(rows)), len(firsts))
    rank = trace.rank[rows]
    collectives = []
    for begin, end in pairwise(begins.tolist()):
        case = order[begin:end]
        size, text, number, pattern = (int(key[case[0]]) for key in keys)
        _, nodes_of_rank = np.unique(rank[case], return_counts=True)
        collectives.append(
            {
                "pattern": CommType(pattern).name if 0 <= pattern <= max(CommType) else f"type {pattern}",
                "group": columns.group_names[text] if number == UNKNOWN else _GROUP_TEXTS.get(number, str(number)),
                "size_bytes": None if size < 0 else size,
                "ranks": len(nodes_of_rank),
                "nodes": end - begin,
                "nodes_per_rank": _ends(nodes_of_rank),
                "duration_us": int(trace.duration_us[rows[case]].sum()),
            }
        )
    return sorted(collectives, key=lambda entry: -(entry["size_bytes"] or 0) * entry["nodes"])
