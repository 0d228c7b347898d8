"""Trace files as protobuf messages, for code that changes any part of a node and keeps the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from astra_tacos.run.trace.file_bytes import FileBytes, read_file
from astra_tacos.run.trace.schema import SCHEMA_VERSION, schema_module
from astra_tacos.support.errors import ConfigError


def read_messages(path: Path) -> tuple[Any, list[Any]]:
    """The `GlobalMetadata` of a trace file, and its `Node` messages; the file may be compressed with gzip.

    Raises
    ------
    ConfigError
        If the file cannot be read, or is truncated or not a Chakra trace; the message names file and byte offset.
    """
    from google.protobuf.message import DecodeError

    schema = schema_module()
    file = read_file(path, 0)
    messages: list[Any] = []
    for offset, body in _frames(file):
        message = schema.Node() if messages else schema.GlobalMetadata()
        try:
            message.ParseFromString(body)
        except DecodeError:
            raise ConfigError(f"{file.at(offset)}: not a Chakra message") from None
        messages.append(message)
    return messages[0], messages[1:]


def read_metadata(file: FileBytes) -> Any:
    """The `GlobalMetadata` of a trace file that is one."""
    _, body = next(_frames(file))
    return schema_module().GlobalMetadata.FromString(body)


def encode_messages(metadata: Any, nodes: Iterable[Any]) -> bytes:
    """The bytes of a trace file."""
    return b"".join(framed(message) for message in (metadata, *nodes))


def new_metadata() -> Any:
    """A `GlobalMetadata` of the schema's version."""
    return schema_module().GlobalMetadata(version=SCHEMA_VERSION)


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
    size, prefix = len(body), bytearray()
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    return bytes((*prefix, size)) + body
