"""Joining of the traces of all ranks into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.scan import (
    CHUNK_NUMBERS,
    FLAGS,
    MARKS,
    NODE_NUMBERS,
    WORKLOAD_NUMBERS,
    Columns,
    Extent,
    FileBytes,
    Variable,
    fill,
    measure,
    room_for,
)
from astra_tacos.run.trace.trace import ABSENT, ChunkColumns, NumberLists, Trace, WorkloadColumns
from astra_tacos.support.errors import ConfigError

_Result = TypeVar("_Result")

_KEPT_BYTES = 1 << 28
"""Total size of files above which they are loaded twice: to count their nodes, and to read them into columns."""


def read_ranks(prefix: str, loads: Sequence[Callable[[], FileBytes]], *, threads: int, chunks: bool, workload: bool) -> Trace:
    """Read all ranks into columns that are allocated once, with their final size.

    Parameters
    ----------
    prefix
        Prefix of the trace.
    loads
        For each rank, loads its file.
    threads
        Number of files that are read at a time; the result does not depend on it.
    chunks, workload
        Whether to read `Trace.chunks` and `Trace.workload`.

    Raises
    ------
    ConfigError
        If a file is not a trace, or memory does not suffice.
    """
    try:
        measured = _measure(loads, threads)
        extents = [extent for extent, _ in measured]
        rank_first = np.cumsum([0, *(extent.num_nodes for extent in extents)], dtype=np.int64)
        rank_dep = np.cumsum([0, *(extent.num_deps for extent in extents)], dtype=np.int64)
        columns = room_for(int(rank_first[-1]), int(rank_dep[-1]), chunks=chunks, workload=workload)

        def read(rank: int) -> Variable:
            extent, file = measured[rank]
            return fill(file or loads[rank](), extent, columns, int(rank_first[rank]), int(rank_dep[rank]))

        rest = list(_in_threads(read, range(len(loads)), threads))
        group_names = _number_groups(columns, rank_first, [each.group_names for each in rest]) if workload else ()
    except MemoryError:
        raise ConfigError(f"{prefix}: traces are too large for this machine's memory") from None
    return _trace(prefix, rank_first, columns, rest, group_names, chunks, workload)


def _measure(loads: Sequence[Callable[[], FileBytes]], threads: int) -> list[tuple[Extent, FileBytes | None]]:
    """The extent of each file, and its bytes if they may stay in memory."""
    kept, lock = 0, Lock()

    def load(rank: int) -> tuple[Extent, FileBytes | None]:
        nonlocal kept
        file = loads[rank]()
        extent = measure(file)
        with lock:
            keeps = kept + file.size <= _KEPT_BYTES or len(loads) == 1
            kept += file.size * keeps
        return extent, file if keeps else None

    return list(_in_threads(load, range(len(loads)), threads))


def _in_threads(work: Callable[[int], _Result], ranks: Iterable[int], threads: int) -> Iterator[_Result]:
    """Results in the order of `ranks`; of several exceptions the first one in this order is raised."""
    if threads == 1:
        yield from map(work, ranks)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield from pool.map(work, ranks)
        finally:
            pool.shutdown(cancel_futures=True)


def _number_groups(columns: Columns, rank_first: NDArray[np.int64], names: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Number group names across ranks by first occurrence, in place; returns the names."""
    group_names = tuple(dict.fromkeys(name for of_rank in names for name in of_rank))
    number_of = {name: number for number, name in enumerate(group_names)}
    for rank, of_rank in enumerate(names):
        # An absent one becomes ABSENT in the bits of uint32.
        numbers = np.array([ABSENT, *(number_of[name] for name in of_rank)], np.int32).view(np.uint32)
        part = columns.marks[MARKS.index("group"), rank_first[rank] : rank_first[rank + 1]]
        part[:] = numbers[part]
    return group_names


def _join_lists(lists: Sequence[NumberLists]) -> NumberLists:
    lengths = np.concatenate([np.diff(each.first) for each in lists])
    node, entry = np.concatenate([each.node for each in lists]), np.concatenate([each.entry for each in lists])
    return NumberLists(node, np.concatenate(([0], np.cumsum(lengths))), entry)


def _trace(
    prefix: str,
    rank_first: NDArray[np.int64],
    columns: Columns,
    rest: Sequence[Variable],
    group_names: tuple[str, ...],
    chunks: bool,
    workload: bool,
) -> Trace:
    names = [*NODE_NUMBERS, *(CHUNK_NUMBERS if chunks else ()), *(WORKLOAD_NUMBERS if workload else ())]
    numbers: dict[str, NDArray[Any]] = dict(zip(names, columns.numbers, strict=True))
    kind, reduces, is_cpu_op = (columns.flags[FLAGS.index(name)] for name in ("kind", "reduces", "is_cpu_op"))
    of_chunks = of_workload = None
    if chunks:
        of_chunks = ChunkColumns(
            **{name: numbers[name] for name in CHUNK_NUMBERS},
            reduces=reduces.view(np.bool_),
            chunk_lists=_join_lists([each.chunk_lists for each in rest]),
            place_lists=_join_lists([each.place_lists for each in rest]),
        )
    if workload:
        wrong_type, no_value, group = (columns.marks[MARKS.index(name)] for name in ("wrong_type", "no_value", "group"))
        of_workload = WorkloadColumns(
            **{name: numbers[name] for name in WORKLOAD_NUMBERS},
            is_cpu_op=is_cpu_op.view(np.bool_),
            group=group.view(np.int32),
            group_names=group_names,
            wrong_type=wrong_type,
            no_value=no_value,
        )
    return Trace(
        prefix=prefix,
        rank_first=rank_first,
        node_id=numbers["node_id"].view(np.uint64),
        kind=kind,
        **{name: numbers[name] for name in ("duration_us", "size_bytes", "peer", "tag")},
        dep_first=columns.dep_first,
        dep=columns.dep,
        chunks=of_chunks,
        workload=of_workload,
    )
