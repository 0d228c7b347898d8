"""In-place edits of the nodes of a trace file: a node's message is parsed, changed and written back; all other bytes are kept.

Whole trace files are read as protobuf messages for code that changes any part of a node and keeps the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from astra_tacos.run.trace.reader import load_number
from astra_tacos.run.trace.scan import FileBytes, read_file
from astra_tacos.run.trace.schema import METADATA, NodeType, field_of, schema_module
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError

_WHOLE = {
    **dict.fromkeys(("int32_val", "sint32_val", "sfixed32_val"), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys(("uint32_val", "fixed32_val"), (0, (1 << 32) - 1)),
    **dict.fromkeys(("int64_val", "sint64_val", "sfixed64_val"), (-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys(("uint64_val", "fixed64_val"), (0, (1 << 64) - 1)),
}
"""The numbers that kinds of attributes hold."""


def load_rank(trace: Trace, rank: int) -> bytes:
    """The decompressed bytes of a rank's trace file.

    Raises
    ------
    ConfigError
        If it cannot be read.
    """
    file = load_number(trace, rank if trace.files is None else int(trace.files[rank]))
    return file.data[: file.size].tobytes()


def node_at(data: bytes, offset: int) -> Any:
    """The `Node` whose length prefix begins at an offset, with all its fields, known or not."""
    size, begin = _length(data, offset)
    node = _node_class()()
    node.ParseFromString(data[begin : begin + size])
    return node


def replace_nodes(data: bytes, offset: Ints, nodes: Mapping[int, Any], path: str) -> bytes:
    """A trace file's bytes with some of its nodes replaced.

    Parameters
    ----------
    data
        Its bytes.
    offset
        int64[num_nodes], where each node of the file begins.

    Raises
    ------
    ConfigError
        If the file is not the one that was read before.
    """
    parts: list[bytes] = []
    at = 0
    for place in sorted(nodes):
        begin = int(offset[place])
        size, body = _length(data, begin)
        if body + size > len(data):
            raise ConfigError(f"{path}: has changed since it was read, expected a file that stays as it is")
        parts += (data[at:begin], framed(nodes[place]))
        at = body + size
    return b"".join((*parts, data[at:]))


def attribute(node: Any, *names: str) -> Any:
    """Value of the first attribute with one of these names; None if there is none or it has no value."""
    for entry in node.attr:
        if entry.name in names:
            kind = entry.WhichOneof("value")
            return getattr(entry, kind) if kind else None
    return None


def set_attribute(node: Any, name: str, kind: str, value: object) -> None:
    """Give the first attribute of that name a value of one of the schema's kinds (`string_val`), or add one."""
    for entry in node.attr:
        if entry.name == name:
            break
    else:
        entry = node.attr.add(name=name)
    setattr(entry, kind, value)


def set_number(node: Any, name: str, value: int) -> None:
    """Give the first attribute of that name a whole number, of the kind that it has if that holds the number, or add one."""
    entry = next((entry for entry in node.attr if entry.name == name), None)
    if entry is None:
        entry = node.attr.add(name=name)
    kind = entry.WhichOneof("value")
    low, high = _WHOLE.get(kind, (0, -1))
    setattr(entry, kind if low <= value <= high else "int64_val", value)


def new_node(
    node_id: int, name: str, kind: NodeType, *, duration_us: int = 0, data: Iterable[int] = (), **attributes: object
) -> Any:
    """A `Node`; `data` are ids that it depends on, `attributes` are of `ATTRIBUTE_KINDS`."""
    node = _node_class()(id=node_id, name=name, type=int(kind), duration_micros=duration_us, data_deps=data)
    for key, value in attributes.items():
        add_attribute(node, key, value)
    return node


def add_attribute(node: Any, name: str, value: Any) -> None:
    """Give a node a further attribute, one of `ATTRIBUTE_KINDS`."""
    entry, field = node.attr.add(name=name), field_of(name)
    if field.endswith("_list"):
        getattr(entry, field).values.extend(value)
    else:
        setattr(entry, field, value)


@cache
def _node_class() -> Any:
    """Looked for once: an import that fails is slow."""
    return schema_module().Node


def _length(data: bytes, at: int) -> tuple[int, int]:
    """The varint at an offset, and the offset of its end."""
    size = shift = 0
    while True:
        byte = data[at] if at < len(data) else 0
        size |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return size, at


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes((*digits, number))


def read_messages(path: Path) -> tuple[Any, list[Any]]:
    """The `GlobalMetadata` of a trace file, and its `Node` messages; the file may be compressed with gzip.

    Raises
    ------
    ConfigError
        If the file cannot be read, or is truncated or not a Chakra trace; the message names file and byte offset.
    """
    schema = schema_module()
    file = read_file(path, 0)
    frames = _frames(file)
    metadata = _parsed(schema.GlobalMetadata, file, *next(frames))
    return metadata, [_parsed(schema.Node, file, *frame) for frame in frames]


def read_metadata(file: FileBytes) -> Any:
    """The `GlobalMetadata` of a trace file; ConfigError if it begins with something else."""
    return _parsed(schema_module().GlobalMetadata, file, *next(_frames(file)))


def _parsed(kind: Any, file: FileBytes, offset: int, body: bytes) -> Any:
    """A message of a trace file; ConfigError if its bytes are none."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(body)
    except DecodeError:
        raise ConfigError(f"{file.at(offset)}: not a Chakra message") from None


def new_metadata() -> Any:
    """A `GlobalMetadata` of the schema's version."""
    return schema_module().GlobalMetadata.FromString(METADATA)


def _frames(file: FileBytes) -> Iterator[tuple[int, bytes]]:
    """The offset and the bytes of each message."""
    data, at = file.data[: file.size].tobytes(), 0
    while at < len(data):
        begin, size, shift = at, 0, 0
        while True:
            if at >= len(data) or shift > 63:
                raise ConfigError(f"{file.at(begin)}: not the length of a message, expected a Chakra trace")
            byte = data[at]
            size |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        if size > len(data) - at:
            raise ConfigError(f"{file.at(begin)}: a message of {size} bytes, but {len(data) - at} are left: truncated?")
        yield begin, data[at : at + size]
        at += size


def framed(message: Any) -> bytes:
    """The bytes of a message, with its length before it."""
    body: bytes = message.SerializeToString(deterministic=True)
    return _varint(len(body)) + body
