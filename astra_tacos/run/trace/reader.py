"""Reading of `PREFIX.<rank>.et` files into columns.

Files are scanned as bytes, not parsed into objects. This reader accepts and refuses what protobuf's own parser (upb) accepts and
refuses: unknown fields and attributes are skipped, lists may be packed or not, varints may be longer than necessary, the last of
several values of a field counts, groups may nest 100 deep, every string has to be UTF-8. In addition, a file is refused if a node
has no id or two nodes have the same one (ASTRA-sim would forget one of them), and a compressed file if it decompresses to more
than 4 GiB, or to more than 64 MiB and 100 times its size.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
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
    find,
    measure,
    read_file,
    room_for,
)
from astra_tacos.run.trace.trace import ABSENT, ChunkColumns, NumberLists, Trace, WorkloadColumns
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import distinct, group_by

Load = Callable[[], FileBytes]
MAX_RANKS = 1_000_000
"""Each has a file."""
_THREADED_BYTES = 1 << 21
"""Total size of files below which one thread reads them faster than several."""
_KEPT_BYTES = 1 << 28
"""Total size of files above which they are loaded twice: to count their nodes, and to read them into columns."""


def trace_files(prefix: str | Path, most_ranks: int = MAX_RANKS) -> list[Path]:
    """The files `PREFIX.0.et`, `PREFIX.1.et`, ... in order of rank; ranks from `most_ranks` on are ignored.

    Raises
    ------
    ConfigError
        If there is no rank 0, or a rank is missing between others.
    """
    prefix = Path(prefix)
    files: list[Path] = []
    while len(files) < min(most_ranks, MAX_RANKS) and (path := Path(f"{prefix}.{len(files)}.et")).is_file():
        files.append(path)
    if not files:
        raise ConfigError(f"{prefix}.0.et: no such file, expected a trace per rank: PREFIX.0.et, PREFIX.1.et, ...")
    numbers = [path.name[len(prefix.name) + 1 : -3] for path in prefix.parent.glob(f"{glob.escape(prefix.name)}.*.et")]
    given = [int(number) for number in numbers if number.isascii() and number.isdigit()]
    beyond = sorted(number for number in given if len(files) <= number < most_ranks)
    if beyond:
        raise ConfigError(f"{prefix}.{len(files)}.et: no such file, although there is one of rank {beyond[0]}")
    return files


def read_trace(prefix: str | Path, *, chunks: bool = True, workload: bool = False, most_ranks: int = MAX_RANKS) -> Trace:
    """Read the traces of all ranks; files may be compressed with gzip.

    Several threads read files at the same time. The bytes of a file are in memory while it is read.

    Parameters
    ----------
    prefix
        Rank r is read from `PREFIX.r.et`.
    chunks, workload
        Whether to read `Trace.chunks` and `Trace.workload`.
    most_ranks
        Number of ranks to read; files of later ranks are not opened.

    Raises
    ------
    ConfigError
        If a file is missing, cannot be read, is truncated or not a Chakra trace, has no nodes, or two of its nodes have the same
        id (the message names file and byte offset), or if memory does not suffice.

    Examples
    --------
    >>> from astra_tacos import read_trace
    >>> trace = read_trace("configs/workload/transformer_16/workload/w", workload=True)
    >>> trace.num_ranks, trace.num_nodes == len(trace.node_id)
    (16, True)
    """
    return read_files(str(prefix), trace_files(prefix, most_ranks), chunks=chunks, workload=workload)


def read_files(prefix: str, files: Sequence[Path], *, chunks: bool, workload: bool) -> Trace:
    """Read the trace of which some files are ranks 0, 1 and so on; see `read_trace`."""
    is_small = sum(path.stat().st_size for path in files) < _THREADED_BYTES
    threads = 1 if is_small else min(os.cpu_count() or 1, len(files))
    return read_ranks(prefix, [partial(load_file, path) for path in files], threads=threads, chunks=chunks, workload=workload)


def read_names(trace: Trace, rows: Iterable[int]) -> list[str]:
    """Read the names of the nodes at some rows from the files.

    Raises
    ------
    ConfigError
        If a file cannot be read, or has changed since the trace was read.
    """
    wanted = np.fromiter(rows, np.int64)
    rank = np.searchsorted(trace.rank_first, wanted, side="right") - 1
    local, file = wanted - trace.rank_first[rank], rank if trace.files is None else trace.files[rank]
    numbers = distinct(file)
    first, members = group_by(np.searchsorted(numbers, file), np.arange(len(wanted)), len(numbers))
    result = np.empty(len(wanted), object)
    known: dict[bytes, tuple[str, ...]] = {}
    for number, begin, end in zip(numbers.tolist(), first[:-1].tolist(), first[1:].tolist(), strict=True):
        chosen = members[begin:end]
        these, earliest, place = np.unique(local[chosen], return_index=True, return_inverse=True)
        read, expected = load_number(trace, number), trace.node_id[wanted[chosen[earliest]]].tolist()
        _, ids, names = find(read, these, known)
        if ids != expected:
            raise ConfigError(f"{read.path}: has changed since it was read, expected node {expected[len(ids) - 1]}")
        result[chosen] = np.array(names, object)[place]
    return result.tolist()


def read_held(prefix: str, held: Mapping[int, Load], *, chunks: bool, workload: bool) -> Trace:
    """Read a trace whose files need not be written: what gives the bytes of each, by rank; see `read_trace`."""
    loads, threads = list(held.values()), min(os.cpu_count() or 1, len(held))
    return replace(read_ranks(prefix, loads, threads=threads, chunks=chunks, workload=workload), held=held)


def load_number(trace: Trace, number: int) -> FileBytes:
    """The bytes of a file of a trace, by its number.

    Raises
    ------
    ConfigError
        If it cannot be read.
    """
    return load_file(Path(f"{trace.prefix}.{number}.et")) if trace.held is None else trace.held[number]()


def file_of(name: Path, parts: Iterable[bytes]) -> FileBytes:
    """The bytes of a trace file that is not written, and what errors call it."""
    from astra_tacos.run.trace._scan_kernels import PADDING

    data = bytearray().join((*parts, bytes(PADDING)))
    return FileBytes(name, np.frombuffer(data, np.uint8), len(data) - PADDING, False)


def load_file(path: Path, name: Path | None = None) -> FileBytes:
    """The bytes of a trace file, with the padding that `read_ranks` needs.

    Parameters
    ----------
    name
        What errors in its contents call it; None for its path.

    Raises
    ------
    ConfigError
        If it cannot be read.
    """
    from astra_tacos.run.trace._scan_kernels import PADDING

    return read_file(path, PADDING, name)


_Result = TypeVar("_Result")


def read_ranks(prefix: str, loads: Sequence[Callable[[], FileBytes]], *, threads: int, chunks: bool, workload: bool) -> Trace:
    """Read all ranks into columns that are allocated once, with their final size.

    Parameters
    ----------
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
        group_names = _number_groups(columns, rank_first, [piece.group_names for piece in rest]) if workload else ()
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


def _number_groups(columns: Columns, rank_first: Ints, names: list[tuple[str, ...]]) -> tuple[str, ...]:
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
    lengths = np.concatenate([np.diff(numbers.first) for numbers in lists])
    node, entry = np.concatenate([numbers.node for numbers in lists]), np.concatenate([numbers.entry for numbers in lists])
    return NumberLists(node, np.concatenate(([0], np.cumsum(lengths))), entry)


def _trace(
    prefix: str,
    rank_first: Ints,
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
            chunk_lists=_join_lists([piece.chunk_lists for piece in rest]),
            place_lists=_join_lists([piece.place_lists for piece in rest]),
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
        duration_us=numbers["duration_us"],
        size_bytes=numbers["size_bytes"],
        peer=numbers["peer"],
        tag=numbers["tag"],
        dep_first=columns.dep_first,
        dep=columns.dep,
        chunks=of_chunks,
        workload=of_workload,
    )
