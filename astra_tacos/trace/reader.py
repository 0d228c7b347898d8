"""Reading `PREFIX.<rank>.et` files into columns."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.errors import ConfigError
from astra_tacos.trace.schema import NodeType, schema_module
from astra_tacos.trace.trace import ABSENT, DANGLING, Trace

MAX_RANKS = 1_000_000
_GZIP_MAGIC = b"\x1f\x8b"
_ATTRIBUTES = {
    "comm_size": "size_bytes",
    "comm_tag": "tag",
    "msg_chunk_idx": "chunk",
    "msg_chunk_cnt": "num_chunks",
    "total_chunk_cnt": "total_chunks",
}
_COLUMNS = ("duration_us", "size_bytes", "peer", "tag", "chunk", "num_chunks", "total_chunks")


def trace_files(prefix: str | Path) -> list[Path]:
    """`PREFIX.0.et`, `PREFIX.1.et`, ... as far as they go without a gap.

    Raises
    ------
    ConfigError
        If there is no rank 0, or a rank is missing between others.
    """
    prefix = Path(prefix)
    files: list[Path] = []
    while len(files) < MAX_RANKS and (path := Path(f"{prefix}.{len(files)}.et")).is_file():
        files.append(path)
    if not files:
        raise ConfigError(f"{prefix}.0.et: no such file, expected a trace per rank: PREFIX.0.et, PREFIX.1.et, ...")
    numbers = [path.name[len(prefix.name) + 1 : -3] for path in prefix.parent.glob(f"{prefix.name}.*.et")]
    beyond = sorted(int(number) for number in numbers if number.isascii() and number.isdigit() and int(number) >= len(files))
    if beyond:
        raise ConfigError(f"{prefix}.{len(files)}.et: no such file, although there is one of rank {beyond[0]}")
    return files


def read_trace(prefix: str | Path) -> Trace:
    """Read the traces of all ranks.

    Raises
    ------
    ConfigError
        If a file is missing, truncated, no Chakra trace, or two of its nodes have one id; with file and byte offset.
    """
    files = trace_files(prefix)
    ids: list[int] = []
    kinds: list[int] = []
    reduces: list[bool] = []
    columns: dict[str, list[int]] = {name: [] for name in _COLUMNS}
    rank_first, dep_first = [0], [0]
    deps: list[int] = []
    for path in files:
        row_of: dict[int, int] = {}
        wanted: list[tuple[int, ...]] = []
        for offset, node in _read_nodes(path):
            if node.id in row_of:
                raise ConfigError(f"{path}: byte {offset}: a second node has the id {node.id}, expected ids to be unique")
            row_of[node.id] = len(ids)
            ids.append(node.id)
            kinds.append(node.type)
            wanted.append((*node.data_deps, *node.ctrl_deps))
            reduces.append(_add_columns(node, columns))
        if len(ids) == rank_first[-1]:
            raise ConfigError(f"{path}: no nodes, expected at least one (ASTRA-sim needs it)")
        for needed in wanted:
            deps.extend(row_of.get(dep, DANGLING) for dep in needed)
            dep_first.append(len(deps))
        rank_first.append(len(ids))
    return Trace(
        prefix=str(prefix),
        rank_first=np.array(rank_first, np.int64),
        node_id=np.array(ids, np.uint64),
        kind=np.array(kinds, np.uint8),
        reduces=np.array(reduces, np.bool_),
        dep_first=np.array(dep_first, np.int64),
        dep=np.array(deps, np.int64),
        **{name: np.array(values, np.int64) for name, values in columns.items()},
    )


def _add_columns(node: Any, columns: dict[str, list[int]]) -> bool:
    """Append a node's attributes to the columns; whether it is a receive that reduces."""
    values = dict.fromkeys(_COLUMNS, ABSENT)
    values["duration_us"] = _bounded(node.duration_micros)
    reduces = False
    peer_name = "comm_src" if node.type == NodeType.COMM_RECV else "comm_dst"
    for attribute in node.attr:
        which = attribute.WhichOneof("value")
        if which is None:
            continue
        value = getattr(attribute, which)
        if not isinstance(value, int):
            continue
        if attribute.name == "is_rrc":
            reduces = bool(value)
        elif attribute.name == peer_name:
            values["peer"] = _bounded(value)
        elif attribute.name in _ATTRIBUTES:
            values[_ATTRIBUTES[attribute.name]] = _bounded(value)
    for name, value in values.items():
        columns[name].append(value)
    return reduces


def _bounded(value: int) -> int:
    """A value that an int64 column can hold; what is larger makes no sense anywhere and stays as large as can be."""
    return min(value, (1 << 63) - 1)


def _read_nodes(path: Path) -> Iterator[tuple[int, Any]]:
    """Byte offset and message of every node of one file."""
    schema = schema_module()
    data = _read_bytes(path)
    message: Any = schema.GlobalMetadata()
    position = 0
    while position < len(data):
        start = position
        size, position = _varint(data, position, path)
        if size > len(data) - position:
            raise ConfigError(f"{path}: byte {start}: a message of {size} bytes, but {len(data) - position} are left: truncated?")
        try:
            message.ParseFromString(data[position : position + size])
        except Exception as error:  # protobuf's DecodeError lives in another module in each of its implementations
            raise ConfigError(f"{path}: byte {start}: not a Chakra message ({' '.join(str(error).split())})") from None
        if start:
            yield start, message
        message = schema.Node()
        position += size


def _read_bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP_MAGIC):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    if not data:
        raise ConfigError(f"{path}: file is empty, expected a Chakra trace")
    return data


def _varint(data: bytes, position: int, path: Path) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position + shift // 7 >= len(data):
            break
        byte = data[position + shift // 7]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + shift // 7 + 1
    raise ConfigError(f"{path}: byte {position}: not the length of a message, expected a Chakra trace")
