"""Bounded reading of files that users name: at most a given size, and never blocking on what is not a regular file.

Files of other tools that people take for inputs are known by how they begin, and refused with what to do with each.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from io import FileIO
from pathlib import Path

from astra_tacos.support.errors import ConfigError, MissingFileError

BEGIN = 1 << 12
"""Bytes that tell."""
INFRAGRAPH_KEYS = frozenset({"infrastructure", "instances", "devices"})
"""Keys of which an InfraGraph has one or more at its top, and a network none."""
_HWLOC = re.compile(rb"<!DOCTYPE\s+topology\b|<topology\b[^>]*>\s*(?:<\w[^>]*/>\s*)*<object\b")
_JSON_NETWORK = re.compile(rb'"(?:topologies-per-dim|dimensions-count|topology-name|units-count)"\s*:')
_SYSTEM = re.compile(
    rb"\s*(?:scheduling-policy|endpoint-delay|active-chunks-per-dimension|preferred-dataset-splits|boost-mode|"
    rb"(?:all-reduce|all-gather|reduce-scatter|all-to-all)-implementation|collective-optimization|intra-dimension-scheduling|"
    rb"inter-dimension-scheduling)\s*:\s*\S+[ \t]*\r?\n\s*[a-z-]+\s*:"
)
_WORKLOAD = re.compile(rb"\s*(?:DATA|MODEL|MICRO|DISTRIBUTED_INFERENCE|HYBRID_[A-Z_]+)\b[^\n]*\n\s*[0-9]+\s*\n")
_NS3 = re.compile(rb"\s*[0-9]+[ \t]+[0-9]+[ \t]+[0-9]+(?:[ \t]+[0-9]+[ \t]+[0-9]+[ \t]+\w+)?[ \t]*\r?\n\s*[0-9]")
_JSON_TRACE = re.compile(
    rb'\{\s*(?:"version"\s*:\s*"[^"]*"\s*,?\s*)?(?:"attr"\s*:\s*\[\s*\{\s*"name"\s*:|\}\s*\{\s*"(?:id|name|type)"\s*:)'
)
"""A `GlobalMetadata` of Chakra in protobuf's JSON form, with attributes, or with a node after it."""
_GOAL = re.compile(rb"\s*(?:(?://|#)[^\n]*\n\s*)*num_ranks[ \t]+[0-9]+\s+rank[ \t]+[0-9]+[ \t]*\{")
_UCC = re.compile(rb"^[^\n]{0,80}?Collective:[ \t]+\S[^\n]*\n[^\n]{0,80}?Memory type:", re.MULTILINE)
_OSU = re.compile(rb"^[^\n]{0,80}?# OSU [A-Z][^\n]* Test\b", re.MULTILINE)
_TIMES = "times as a log of nccl-tests or rccl-tests, or CSV with columns collective, size_bytes, time_us, nodes, gpus_per_node"
_READ = "convert the file with `astra-tacos network read FILE --output DIR`"

_Format = tuple[Callable[[bytes], object], str, str]
"""Whether content begins so, what it is, and what is expected."""


def _is_old_plan(begin: bytes) -> bool:
    return begin.startswith(b"{") and b'"gpus"' in begin and (b'"inputChunks"' in begin or b'"outputChunks"' in begin)


_CHAKRA_JSON: _Format = (
    _JSON_TRACE.match,
    "a Chakra trace as JSON, which chakra_jsonizer writes to be looked at",
    "the binary file (.et) that the JSON was made of",
)
_REFUSED: tuple[_Format, ...] = (
    (
        _HWLOC.search,
        "hwloc's XML of a machine, which has no links between GPUs",
        "a topology of NCCL or RCCL (set NCCL_TOPO_DUMP_FILE), for `astra-tacos network read`",
    ),
    (
        lambda begin: begin.startswith(b"{") and _JSON_NETWORK.search(begin),
        "a network file of ASTRA-sim 1.0 (JSON)",
        "a YAML with topology, npus_count, bandwidth and latency, as ASTRA-sim 2 reads it",
    ),
    (_SYSTEM.match, "a system file of ASTRA-sim 1.0 (lines of text)", "JSON, as ASTRA-sim 2 reads it"),
    (
        _is_old_plan,
        "an MSCCL++ plan of an older version (keys as inputChunks)",
        "a plan of a current MSCCL++ (keys as input_chunks): make the plan again with a current MSCCL++",
    ),
    _CHAKRA_JSON,
    (
        _GOAL.match,
        "a schedule in GOAL, the text of LogGOPSim and ATLAHS, which names no collective",
        "Chakra traces, an MSCCL XML or a saved schedule",
    ),
    (_UCC.search, "what ucc_perftest prints, which does not say its ranks", _TIMES),
    (_OSU.search, "what an OSU micro-benchmark prints, which does not say its ranks", _TIMES),
)
_WORKLOADS: _Format = (
    _WORKLOAD.match,
    "a workload of ASTRA-sim 1.0 or SimAI (text)",
    "a run: make a run with `astra-tacos import FILE --network N --output DIR`",
)


def refuse_foreign(path: Path, content: bytes, *, workloads: bool = False) -> None:
    """Refuse what is a file of another tool by its name.

    Parameters
    ----------
    content
        Its content, or the first `BEGIN` bytes of it.
    workloads
        Whether a workload in the text of ASTRA-sim 1.0 is foreign here, too.

    Raises
    ------
    ConfigError
        If it is, with what it is and what to do.
    """
    _refuse(path, content, (*_REFUSED, *([_WORKLOADS] if workloads else [])))


def refuse_json_trace(path: Path, content: bytes) -> None:
    """Refuse a Chakra trace as JSON, where one as binary is expected.

    Raises
    ------
    ConfigError
        If it is one.
    """
    _refuse(path, content, (_CHAKRA_JSON,))


def _refuse(path: Path, content: bytes, formats: Iterable[_Format]) -> None:
    begin = content[:BEGIN].removeprefix(b"\xef\xbb\xbf").lstrip()
    for is_this, kind, expected in formats:
        if is_this(begin):
            raise ConfigError(f"{path}: is {kind}, expected {expected}")


def refuse_fabric(path: Path, content: bytes) -> None:
    """Refuse what `network read` reads, where a network or a program of a collective is expected.

    Raises
    ------
    ConfigError
        If it is a topology of NCCL (.xml) or ns-3 (.txt).
    """
    begin = content[:BEGIN]
    if path.suffix == ".xml" and re.search(rb"<system[\s>]", begin):
        raise ConfigError(f"{path}: is a topology of NCCL: {_READ}")
    if path.suffix == ".txt" and _NS3.match(begin):
        raise ConfigError(f"{path}: is a topology of ns-3: {_READ}")


def refuse_infragraph(path: Path, keys: Collection[object]) -> None:
    """Refuse the keys at the top of an InfraGraph, where a network is expected.

    Raises
    ------
    ConfigError
        If there is one of them, and none of a network's.
    """
    if INFRAGRAPH_KEYS.intersection(keys) and not {"topology", "astra_tacos"}.intersection(keys):
        raise ConfigError(f"{path}: is an InfraGraph: {_READ}")


_STEP_BYTES = 1 << 20
_read: set[str] | None = None
"""What the command has read, None where nobody asks."""
_PATIENCE_MS = 1000
"""How long a pipe that nobody has opened for writing is waited for."""


@contextlib.contextmanager
def inputs_noted() -> Iterator[None]:
    """Within a command: note what is read, so that no output takes its place."""
    global _read
    before, _read = _read, set()
    try:
        yield
    finally:
        _read = before


def note_input(path: Path) -> None:
    """Note that the command reads a file."""
    if _read is not None:
        _read.add(os.path.realpath(path))


def forget_inputs(*paths: Path) -> None:
    """Note that files which were read are no inputs of the user, but of a store that the command may write again."""
    if _read is not None:
        _read.difference_update(map(os.path.realpath, paths))


def inputs_read() -> frozenset[str]:
    """What the command has read so far; nothing outside of a command."""
    return frozenset(_read or ())


def read_bounded(path: Path, max_bytes: int, expected: str) -> bytes:
    """All bytes of a file or pipe.

    Parameters
    ----------
    max_bytes
        More than these are not read.

    Raises
    ------
    ConfigError
        If it cannot be read, is neither a file nor a pipe, or is larger.
    """
    with _opened(path, expected) as file:
        mode = os.fstat(file.fileno())
        if not stat.S_ISFIFO(mode.st_mode):
            _check_regular(path, mode.st_mode, expected)
        content = bytearray()
        while len(content) <= max_bytes and mode.st_size <= max_bytes:
            part = _read_pipe(file) if stat.S_ISFIFO(mode.st_mode) else file.read(_STEP_BYTES)
            if not part:
                return bytes(content)
            content += part
        limit = f"{max_bytes >> 20} MiB" if max_bytes >> 20 else f"{max_bytes} bytes"
        raise ConfigError(f"{path}: file is larger than {limit}, expected {expected}")


def text_of(path: str | Path) -> str:
    r"""A path as text that files can hold: bytes that are not UTF-8 are escapes as `\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def read_begin(path: Path, count: int) -> bytes:
    """The first bytes of a regular file, by which its kind is told; none of what cannot be read."""
    try:
        with open_regular(path, "a file") as file:
            return file.read(count) or b""
    except ConfigError:
        return b""


@contextlib.contextmanager
def open_regular(path: Path, expected: str) -> Iterator[FileIO]:
    """A regular file, open for reading, unbuffered.

    Raises
    ------
    ConfigError
        If it cannot be opened or read, or is a directory, pipe or device.
    """
    with _opened(path, expected) as file:
        _check_regular(path, os.fstat(file.fileno()).st_mode, expected)
        yield file


@contextlib.contextmanager
def _opened(path: Path, expected: str) -> Iterator[FileIO]:
    try:
        # Without O_NONBLOCK a pipe that has no writer is waited for in `open`.
        note_input(path)
        with FileIO(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            yield file
    except OSError as error:
        kind = MissingFileError if isinstance(error, FileNotFoundError) else ConfigError
        raise kind(f"{path}: cannot be read ({error.strerror or error}), expected {expected}") from None
    except ValueError as error:  # a zero byte in the path
        raise ConfigError(f"{str(path)!r}: cannot be read ({error})") from None


def _check_regular(path: Path, mode: int, expected: str) -> None:
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{path}: is a {'pipe' if stat.S_ISFIFO(mode) else 'device'}, expected {expected}")


def _read_pipe(file: FileIO) -> bytes:
    """What comes next; nothing at its end, or if nobody writes."""
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    while True:
        waiting.poll(_PATIENCE_MS)
        part = file.read(_STEP_BYTES)
        if part is not None:  # None: it is open for writing, and nothing has come
            return part
