"""The bytes of a trace file, decompressed if it is a gzip file."""

from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.foreign import BEGIN, refuse_json_trace
from astra_tacos.support.input_file import open_regular

MAX_UNPACKED_BYTES = 1 << 32
MAX_UNPACKED_RATIO = 100
FREE_UNPACKED_BYTES = 1 << 26
"""Decompressed size up to which any compression ratio is accepted. Beyond it, the ratio may be 100; traces have about 10. Files
and decompressed contents may have 4 GiB."""
_GZIP_MAGIC = b"\x1f\x8b"
_STEP = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class FileBytes:
    """The bytes of a trace file.

    Parameters
    ----------
    path
        The file.
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


def read_file(path: Path, padding: int) -> FileBytes:
    """Read a file, and decompress it if it is a gzip file.

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
                read = FileBytes(path, np.frombuffer(data, np.uint8), size, True)
            else:
                file.seek(0)
                array = np.empty(packed_size + padding, np.uint8)
                room = memoryview(array.data)
                size = 0
                while size < packed_size and (count := file.readinto(room[size:packed_size])):
                    size += count
                array[size:] = 0
                read = FileBytes(path, array, size, False)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    if not read.size:
        raise ConfigError(f"{path}: file is empty, expected a Chakra trace")
    refuse_json_trace(path, read.data[: min(read.size, BEGIN)].tobytes())
    return read


def _unpack(unpacking: gzip.GzipFile, path: Path, packed_size: int) -> bytearray:
    limit = min(MAX_UNPACKED_BYTES, max(FREE_UNPACKED_BYTES, MAX_UNPACKED_RATIO * packed_size))
    data = bytearray()
    while part := unpacking.read(_STEP):
        data += part
        if len(data) > limit:
            raise ConfigError(f"{path}: {packed_size} bytes that unpack to more than {limit}, expected a trace, of less")
    return data
