"""The JSON documents in files, compressed files and archives.

Work without Python's cyclic garbage collector, which would look at every object of a large document again and again.
"""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.run.trace.scan import FREE_UNPACKED_BYTES, MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO, read_file
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import refuse_json_lines
from astra_tacos.support.formats.values import describe
from astra_tacos.support.input_file import BEGIN, refuse_json_trace

_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_FIRST_SHOWN = 20
"""Characters of a file that an error shows."""
_KINDS = (
    "JSON of PyTorch (.json), a workload text of ASTRA-sim 1.0 or SimAI, run directories, or a program (MSCCL XML, MSCCL++ plan, "
    "prefix of traces)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A JSON object."""

    name: str
    content: dict[str, Any]


def read_documents(paths: Iterable[Path]) -> list[Document]:
    """The JSON objects in files; each may be compressed by gzip, or a tar archive of JSON files that may be compressed, too.

    Members of archives that are not `.json` or `.json.gz` are left out; links, pipes and devices are refused.

    Raises
    ------
    ConfigError
        If a file cannot be read, or does not hold a JSON object.
    """
    return [Document(name, _parsed(name, data)) for path in paths for name, data in _texts(path)]


def _texts(path: Path) -> Iterator[tuple[str, bytes]]:
    file = read_file(path, 0)
    data = file.data[: file.size].tobytes()
    if data[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] != _TAR_MAGIC:
        yield str(path), data
        return
    is_found = False
    try:
        with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8") as archive:
            for member in archive:
                if not member.isfile() and not member.isdir():
                    kind = "a link" if member.issym() or member.islnk() else "a pipe" if member.isfifo() else "a device"
                    raise ConfigError(f"{path}: {member.name} is {kind}, expected files and folders: pack what it stands for")
                reader = archive.extractfile(member) if member.isfile() and _is_json(member.name) else None
                if reader is not None:
                    is_found = True
                    yield f"{path}: {member.name}", _unpacked(f"{path}: {member.name}", reader.read())
    except tarfile.TarError as error:
        raise ConfigError(f"{path}: not a readable tar archive ({error})") from None
    if not is_found:
        raise ConfigError(f"{path}: an archive without .json or .json.gz files, expected traces")


def _is_json(name: str) -> bool:
    base = name.rpartition("/")[2]
    return base.endswith((".json", ".json.gz")) and not base.startswith(".")


def _unpacked(name: str, data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    limit = min(MAX_UNPACKED_BYTES, max(FREE_UNPACKED_BYTES, MAX_UNPACKED_RATIO * len(data)))
    try:
        unpacked = zlib.decompressobj(wbits=31).decompress(data, limit + 1)
    except zlib.error as error:
        raise ConfigError(f"{name}: cannot be decompressed ({error})") from None
    if len(unpacked) > limit:
        raise ConfigError(f"{name}: {len(data)} bytes that unpack to more than {limit}, expected a trace, of less")
    return unpacked


def _parsed(name: str, data: bytes) -> dict[str, Any]:
    refuse_json_trace(Path(name), data)
    try:
        content = json.loads(data, strict=False)  # PyTorch does not escape tabs in names
    except (ValueError, RecursionError) as error:
        begin = data[:BEGIN].decode(errors="replace")
        refuse_json_lines(name, begin)
        if not begin.lstrip().startswith(("{", "[")):
            raise ConfigError(f"{name}: begins with {describe(begin.strip()[:_FIRST_SHOWN])}, expected {_KINDS}") from None
        raise ConfigError(f"{name}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{name}: found {describe(content)[:40]} at the top, expected a JSON object")
    return content
