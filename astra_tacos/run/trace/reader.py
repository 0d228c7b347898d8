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
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from astra_tacos.run.trace.ranks import read_ranks
from astra_tacos.run.trace.scan import FileBytes, find, read_file
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import distinct, group_by

MAX_RANKS = 1_000_000
_THREADED_BYTES = 1 << 21
"""Total size of files below which one thread reads them faster than several."""


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
    for one, begin, end in zip(numbers.tolist(), first[:-1].tolist(), first[1:].tolist(), strict=True):
        chosen = members[begin:end]
        these, earliest, place = np.unique(local[chosen], return_index=True, return_inverse=True)
        path, expected = Path(f"{trace.prefix}.{one}.et"), trace.node_id[wanted[chosen[earliest]]].tolist()
        _, ids, names = find(load_file(path), these, known)
        if ids != expected:
            raise ConfigError(f"{path}: has changed since it was read, expected node {expected[len(ids) - 1]}")
        result[chosen] = np.array(names, object)[place]
    return result.tolist()


def load_file(path: Path) -> FileBytes:
    """The bytes of a trace file, with the padding that `read_ranks` needs.

    Raises
    ------
    ConfigError
        If it cannot be read.
    """
    from astra_tacos.run.trace._scan_kernels import PADDING

    return read_file(path, PADDING)
