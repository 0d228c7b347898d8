"""The nodes of one trace file: from bytes to columns.

The bytes of a trace file, decompressed if it is a gzip file.
"""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.schema import CommType
from astra_tacos.run.trace.trace import INVALID, NO_LISTS, NumberLists
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import in_ranges
from astra_tacos.support.input_file import BEGIN, open_regular, refuse_json_trace

MAX_UNPACKED_BYTES = 1 << 32
"""Of a file."""
MAX_UNPACKED_RATIO = 100
"""Of a compressed file; traces have about 10."""
FREE_UNPACKED_BYTES = 1 << 26
"""Decompressed size up to which any compression ratio is accepted. Beyond it, the ratio may be 100; traces have about 10. Files
and decompressed contents may have 4 GiB."""
_GZIP_MAGIC = b"\x1f\x8b"
_STEP = 1 << 20
"""Bytes that are unpacked at a time."""
_MOST_DIGITS = 18
"""Of a number that int64 holds whatever its digits are."""
_MAX_NODES = (1 << 31) - 1
"""Rows are int32."""


@dataclass(frozen=True, slots=True, eq=False)
class FileBytes:
    """The bytes of a trace file.

    Parameters
    ----------
    path
        What errors call the file.
    data
        uint8[size + padding]; the padding has no meaning.
    size
        Number of bytes.
    is_unpacked
        Whether the bytes, and so offsets, are those of the decompressed contents.
    """

    path: Path
    data: NDArray[np.uint8]
    size: int
    is_unpacked: bool

    def at(self, offset: int) -> str:
        """The beginning of an error message, like `x.0.et: byte 7`."""
        return f"{self.path}: byte {offset}{' of what it unpacks to' if self.is_unpacked else ''}"


def read_file(path: Path, padding: int, name: Path | None = None) -> FileBytes:
    """Read a file, and decompress it if it is a gzip file.

    Parameters
    ----------
    name
        What errors in its contents call it; None for its path.

    Raises
    ------
    ConfigError
        If it cannot be read or decompressed, is not a regular file, is empty or too large, decompresses to too much, or is a
        Chakra trace as JSON.
    """
    try:
        with open_regular(path, "a Chakra trace") as file:
            packed_size = os.fstat(file.fileno()).st_size
            if packed_size > MAX_UNPACKED_BYTES:
                raise ConfigError(f"{path}: file is larger than {MAX_UNPACKED_BYTES >> 30} GiB, expected a Chakra trace")
            if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC:
                file.seek(0)
                with gzip.GzipFile(fileobj=file) as unpacking:
                    data = _unpack(unpacking, path, packed_size)
                size = len(data)
                data += bytes(padding)
                read = FileBytes(name or path, np.frombuffer(data, np.uint8), size, True)
            else:
                file.seek(0)
                array = np.empty(packed_size + padding, np.uint8)
                room = memoryview(array.data)
                size = 0
                while size < packed_size and (count := file.readinto(room[size:packed_size])):
                    size += count
                array[size:] = 0
                read = FileBytes(name or path, array, size, False)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    if not read.size:
        raise ConfigError(f"{read.path}: file is empty, expected a Chakra trace")
    refuse_json_trace(read.path, read.data[: min(read.size, BEGIN)].tobytes())
    return read


def _unpack(unpacking: gzip.GzipFile, path: Path, packed_size: int) -> bytearray:
    limit = min(MAX_UNPACKED_BYTES, max(FREE_UNPACKED_BYTES, MAX_UNPACKED_RATIO * packed_size))
    data = bytearray()
    while part := unpacking.read(_STEP):
        data += part
        if len(data) > limit:
            raise ConfigError(f"{path}: {packed_size} bytes that unpack to more than {limit}, expected a trace, of less")
    return data


NODE_NUMBERS = ("node_id", "duration_us", "size_bytes", "peer", "tag")
CHUNK_NUMBERS = ("chunk", "num_chunks", "total_chunks")
WORKLOAD_NUMBERS = (
    *("comm_type", "num_ops", "tensor_size", "comm_priority", "own"),
    *("involved_dims", "involved_count", "root", "carried_pattern", "own_group", "num_data", "byte_offset"),
)
FLAGS = ("kind", "reduces", "is_cpu_op", "lists")
MARKS = ("wrong_type", "no_value", "group")


@dataclass(frozen=True, slots=True)
class Extent:
    """The numbers of nodes and bytes in a trace file.

    Parameters
    ----------
    size
        Number of bytes to read: fewer than the file has if two of the nodes in them must have the same id.
    file_size
        Number of bytes of the file.
    """

    num_nodes: int
    num_deps: int
    most_held: int
    size: int
    file_size: int


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Columns of all ranks, which `fill` fills rank by rank.

    Parameters
    ----------
    numbers
        int64[5, 8, 17 or 20, num_nodes]: `NODE_NUMBERS`, then `CHUNK_NUMBERS` and `WORKLOAD_NUMBERS` if they are wanted.
    flags
        uint8[4, num_nodes], `FLAGS`; those not wanted have no meaning. Bits of `lists`: `msg_chunk_list`, `place_list`.
    marks
        uint32[3 or 0, num_nodes], `MARKS`, if the workload's columns are wanted; `group` is 0 for none, else the number plus 1.
    dep_first, dep
        As in `Trace`.
    """

    numbers: Ints
    flags: NDArray[np.uint8]
    marks: NDArray[np.uint32]
    dep_first: Ints
    dep: Ints


def room_for(num_nodes: int, num_deps: int, *, chunks: bool, workload: bool) -> Columns:
    """Allocate columns."""
    num_numbers = len(NODE_NUMBERS) + chunks * len(CHUNK_NUMBERS) + workload * len(WORKLOAD_NUMBERS)
    return Columns(
        np.empty((num_numbers, num_nodes), np.int64),
        np.empty((len(FLAGS), num_nodes), np.uint8),
        np.empty((workload * len(MARKS), num_nodes), np.uint32),
        np.zeros(num_nodes + 1, np.int64),
        np.empty(num_deps, np.int64),
    )


def measure(file: FileBytes) -> Extent:
    """Count the nodes and dependencies of a file, without checking that it is a trace.

    Raises
    ------
    ConfigError
        If there are too many nodes.
    """
    from astra_tacos.run.trace._scan_kernels import count_nodes

    num_nodes, num_deps, most_held, size = count_nodes(file.data, file.size)
    if num_nodes > _MAX_NODES:
        raise ConfigError(f"{file.path}: {num_nodes} nodes, expected at most {_MAX_NODES} in a file")
    return Extent(num_nodes, num_deps, most_held, size, file.size)


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """What of a rank is of no size known before.

    Parameters
    ----------
    chunk_lists, place_lists
        As in `ChunkColumns`.
    """

    group_names: tuple[str, ...]
    chunk_lists: NumberLists = NO_LISTS
    place_lists: NumberLists = NO_LISTS


def fill(file: FileBytes, extent: Extent, columns: Columns, first_row: int, first_dep: int) -> Variable:
    """Fill one rank's rows of the columns; returns the rest.

    Raises
    ------
    ConfigError
        If the bytes are not a Chakra trace, there are no nodes, two nodes have the same id, or the file does not have the
        measured extent. The message names file and byte offset.
    """
    from astra_tacos.run.trace._row_kernels import UNIQUE, ids_to_rows
    from astra_tacos.run.trace._scan_kernels import FINE, FIRST_TEXT, NO_ROOM, Table, Texts, scan_nodes

    if file.size != extent.file_size:
        raise ConfigError(_describe_fault(file, NO_ROOM, 0, 0))
    end_row, end_dep = first_row + extent.num_nodes, first_dep + extent.num_deps
    # Room for the largest possible number of texts; pages that are never touched take no memory.
    most = extent.num_nodes if len(columns.marks) else 0
    groups, others = (
        Texts(np.zeros(1 << (2 * count).bit_length(), np.int32), np.empty((2, count), np.int64)) for count in (most, 2 * most)
    )
    # Hashes of ids and names are seeded with a secret, so that nobody can make a file that takes quadratic time.
    seed = np.uint64(int.from_bytes(os.urandom(8), "little"))
    room = np.array([first_row, end_row, first_dep, end_dep])
    table = Table(room, columns.numbers, columns.flags, columns.marks, columns.dep_first, columns.dep)
    held = np.empty(extent.most_held, np.int64)
    scan = scan_nodes(file.data, extent.size, seed, table, held, groups, others)
    code, message_at, fault_at, num_groups, num_others = scan
    if code != FINE:
        raise ConfigError(_describe_fault(file, code, message_at, fault_at))
    if not extent.num_nodes:
        raise ConfigError(f"{file.path}: no nodes, expected at least one (ASTRA-sim needs it)")
    second = ids_to_rows(columns.numbers[0, first_row:end_row], columns.dep[first_dep:end_dep], first_row, seed)
    if second != UNIQUE:
        (message_at,), (node_id,), _ = find(file, np.array([second]))
        raise ConfigError(f"{file.at(message_at)}: a second node has the id {node_id}, expected ids to be unique")
    group_names = _texts(file, groups.names[:, :num_groups])
    if num_others:
        texts = _texts(file, others.names[:, :num_others])
        for name, meaning in (("carried_pattern", _pattern), ("own_group", _group)):
            line = columns.numbers[WORKLOAD_NUMBERS.index(name) - len(WORKLOAD_NUMBERS), first_row:end_row]
            is_text = (line <= FIRST_TEXT) & (line != INVALID)
            line[is_text] = np.array([meaning(text) for text in texts], np.int64)[FIRST_TEXT - line[is_text]]
    if len(columns.numbers) in (len(NODE_NUMBERS), len(NODE_NUMBERS) + len(WORKLOAD_NUMBERS)):
        return Variable(group_names)
    lists = columns.flags[FLAGS.index("lists"), first_row:end_row]
    return Variable(group_names, *_lists(file, lists, first_row))


def _pattern(name: str) -> int:
    return CommType[name] if name in CommType.__members__ else INVALID


def _group(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else INVALID


def _lists(file: FileBytes, has: NDArray[np.uint8], first_row: int) -> tuple[NumberLists, NumberLists]:
    """The lists of chunks and of places of the nodes that have them, bits 0 and 1 of `has`."""
    if not has.any():
        return NO_LISTS, NO_LISTS
    from astra_tacos.run.trace._scan_kernels import CHUNK_LIST, PLACE_LIST, read_lists

    lists = []
    for bit, key in ((1, CHUNK_LIST), (2, PLACE_LIST)):
        rows = np.flatnonzero(has & bit)
        ends = np.zeros(len(rows), np.int64)
        entries = np.empty(read_lists(file.data, file.size, rows, key, ends, np.empty(0, np.int32)), np.int32)
        read_lists(file.data, file.size, rows, key, ends, entries)
        lists.append(NumberLists(rows + first_row, np.concatenate(([0], ends)), entries))
    return lists[0], lists[1]


def find(
    file: FileBytes, rows: Ints, known: dict[bytes, tuple[str, ...]] | None = None
) -> tuple[list[int], list[int], tuple[str, ...]]:
    """Byte offsets, ids and names of the nodes at some ascending rows; fewer if the file has fewer nodes.

    Names that are `known` by their sizes and bytes are not made again: files of many ranks have the same.
    """
    from astra_tacos.run.trace._scan_kernels import find_nodes

    places = np.empty((4, len(rows)), np.int64)
    places = places[:, : find_nodes(file.data, file.size, rows, places)]
    ids = places[1].view(np.uint64).tolist()
    if known is None:
        return places[0].tolist(), ids, _texts(file, places[2:])
    at, size = places[2:]
    key = size.tobytes() + file.data[in_ranges(at, at + size)[1]].tobytes()
    names = known[key] if key in known else known.setdefault(key, _texts(file, places[2:]))
    return places[0].tolist(), ids, names


def _texts(file: FileBytes, places: Ints) -> tuple[str, ...]:
    """Texts at offsets `places[0]`, of sizes `places[1]`; a group name may be of protobuf's type bytes and then hold anything."""
    if not places.size:
        return ()
    data = file.data.tobytes()
    return tuple(data[at : at + size].decode(errors="backslashreplace") for at, size in places.T.tolist())


def _describe_fault(file: FileBytes, code: int, message_at: int, fault_at: int) -> str:
    from astra_tacos.run.trace import _scan_kernels as kernels

    where = file.at(message_at)
    if code == kernels.NO_ROOM:
        return f"{file.path}: has changed while it was read, expected a file that stays as it is"
    if code == kernels.FRAME:
        return f"{where}: not the length of a message, expected a Chakra trace"
    if code == kernels.TRUNCATED:
        size, left = _length(file, message_at)
        return f"{where}: a message of {size} bytes, but {left} are left: truncated?"
    texts = {
        kernels.TAG: "no field begins like this",
        kernels.WIRE_TYPE: "a field of wire type 6 or 7",
        kernels.VARINT: "a number that does not end",
        kernels.LENGTH: f"a length of more than {kernels.MAX_SIZE} bytes",
        kernels.PAST_END: "a length that reaches beyond the end",
        kernels.PACKED: "a packed list whose last number is cut off",
        kernels.TEXT: "text that is not UTF-8",
        kernels.GROUP: "a group without beginning or end",
        kernels.DEPTH: "groups that are nested too deep",
    }
    return f"{where}: not a Chakra message (at byte {fault_at}: {texts[code]})"


def _length(file: FileBytes, at: int) -> tuple[int, int]:
    """The length that a message states, and the number of bytes that follow."""
    size, digits, byte = 0, 0, 128
    while byte >= 128:
        byte = int(file.data[at + digits])
        size |= (byte & 127) << 7 * digits
        digits += 1
    return size & ((1 << 64) - 1), file.size - at - digits
