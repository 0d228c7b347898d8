"""Runs of which some ranks start later: a compute node comes before all others of such a rank, and takes the delay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.source import Labels, made_of
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, DANGLING, Trace, WorkloadColumns
from astra_tacos.support.arrays import Bools, Ints

_PRESENT = {"is_cpu_op", "involved_dims", "involved_count", "num_data", "wrong_type", "no_value", "num_ops", "tensor_size"}
"""Columns of a workload in which a node that comes first has a number."""
_BEFORE = " (delay before it)"


def with_first_nodes(run: Run, delay_ns: Mapping[int, int]) -> Run:
    """The ordinary run with a compute node before all others of some ranks, which takes so many ns (`Run.delay`)."""
    trace, columns = run.workload, run.columns
    ranks = np.array(sorted(delay_ns), np.int64)
    first = trace.rank_first[ranks]
    rows = np.insert(np.arange(trace.num_nodes), first, first)  # a new node is made of the first one of its rank
    is_new = np.insert(np.zeros(trace.num_nodes, np.bool_), first, True)
    arrays = {field.name: getattr(columns, field.name) for field in fields(WorkloadColumns) if field.name != "group_names"}
    workload = replace(columns, **{name: array[rows] for name, array in arrays.items()})
    for name in arrays.keys() - {"byte_offset"}:
        getattr(workload, name)[is_new] = 0 if name in _PRESENT else ABSENT
    workload.num_ops[is_new] = workload.tensor_size[is_new] = 1  # with a roofline, a node without operations is skipped
    delayed = replace(
        trace,
        rank_first=trace.rank_first + np.searchsorted(ranks, np.arange(trace.num_ranks + 1)),
        node_id=trace.node_id[rows],
        size_bytes=np.where(is_new, ABSENT, trace.size_bytes[rows]),
        peer=np.where(is_new, ABSENT, trace.peer[rows]),
        tag=np.where(is_new, ABSENT, trace.tag[rows]),
        kind=np.where(is_new, np.uint8(NodeType.COMP), trace.kind[rows]),
        duration_us=np.where(is_new, 0, trace.duration_us[rows]),
        workload=workload,
    )
    for rank, row in zip(ranks.tolist(), np.flatnonzero(is_new).tolist(), strict=True):
        delayed.node_id[row] = _unused(trace.node_id[trace.rank_first[rank] : trace.rank_first[rank + 1]])
    delayed, waits = _with_dependencies(trace, delayed, rows, is_new, ranks)
    workload.num_data[waits] = 1
    source = made_of(run, rows)
    labels = source.labels or Labels(("",) * len(rows), ("",) * len(rows))
    suffix = tuple(_BEFORE if new else text for new, text in zip(is_new.tolist(), labels.suffix, strict=True))
    return replace(
        run,
        workload=delayed,
        implementation=np.where(is_new, np.int32(NATIVE), run.implementation[rows]),
        source=replace(source, labels=replace(labels, suffix=suffix)),
        delay=tuple(sorted(delay_ns.items())),
    )


def _unused(ids: NDArray[np.uint64]) -> int:
    """The lowest id that no node has."""
    return int(np.setdiff1d(np.arange(len(ids) + 1, dtype=np.uint64), ids)[0])


def _with_dependencies(before: Trace, trace: Trace, rows: Ints, is_new: Bools, ranks: Ints) -> tuple[Trace, Bools]:
    """The trace in which nodes that depend on none wait for the new node of their rank; and which nodes these are."""
    count = np.where(is_new, 0, np.diff(before.dep_first)[rows])
    waits = (count == 0) & ~is_new & np.isin(trace.rank, ranks)
    dep_first = np.concatenate(([0], np.cumsum(np.where(waits, 1, count))))
    moved = np.flatnonzero(~is_new)
    dep = np.empty(int(dep_first[-1]), before.dep.dtype)
    is_added = np.zeros(len(dep), np.bool_)
    is_added[dep_first[:-1][waits]] = True
    dep[~is_added] = np.where(before.dep == DANGLING, DANGLING, moved[before.dep])
    dep[is_added] = trace.rank_first[trace.rank[waits]]
    return replace(trace, dep_first=dep_first, dep=dep), waits
