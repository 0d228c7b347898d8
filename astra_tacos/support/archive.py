"""Columns with a JSON header in one `.npz`: read as what anybody may have made or damaged.

NumPy's own reader inflates whatever a file declares, and lets errors of zlib, zipfile and its parser through. Here NumPy reads
the headers of arrays. The sizes in them and in the archive's directory are checked before anything is inflated. Every failure is
one line.
"""

from __future__ import annotations

import contextlib
import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.files import replaced_file
from astra_tacos.support.formats.json_files import parse_json_object
from astra_tacos.support.formats.numbers import is_whole
from astra_tacos.support.formats.values import describe
from astra_tacos.support.input_file import open_regular

HEADER = "header"
MOST_ENTRIES = 256
ALWAYS_ALLOWED_BYTES, MOST_INFLATION = 64 << 20, 500
"""An archive may declare so many bytes, and so many for each of its own: deflate reaches 1,032, schedules at most some 200."""
MOST_HEADER_BYTES = 64 << 20
_LONGEST_ARRAY_HEADER = 1024
_FAULTS = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, EOFError, RuntimeError)
_DAMAGE = (*_FAULTS, zipfile.BadZipFile, zlib.error, struct.error)
_NO_HEADER = (*_FAULTS, SyntaxError, tokenize.TokenError, MemoryError, Warning)
"""What NumPy's parser of headers raises."""


class Archive:
    """An open `.npz`.

    Raises
    ------
    ValueError, BadZipFile
        If it is no archive of arrays, or declares more than `most_bytes`.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._zip = zipfile.ZipFile(file)
        size = file.seek(0, 2)
        entries = self._zip.infolist()
        if len(entries) > MOST_ENTRIES or len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("the archive has too many entries, or two entries of one name")
        for entry in entries:
            if entry.flag_bits & 1:
                raise ValueError(f"{entry.filename} is encrypted")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{entry.filename} is compressed by method {entry.compress_type}")
        declared = sum(entry.file_size for entry in entries)
        if declared > most_bytes(size):
            raise ValueError(f"it declares {declared:,} bytes in a file of {size:,}")

    def header(self, form: str, most_bytes: int = MOST_HEADER_BYTES) -> dict[str, Any]:
        """Its JSON object: kept as a text, or as a column of bytes.

        Parameters
        ----------
        form
            Its `format`.

        Raises
        ------
        ConfigError
            If it is none, or has another format.
        ValueError, zlib.error, ...
            If it cannot be read.
        """
        declared = self._zip.getinfo(f"{HEADER}.npy").file_size
        if declared > most_bytes:
            raise ValueError(f"its header has {declared:,} bytes, expected at most {most_bytes:,}")
        kind, shape, content = self._array(HEADER)
        if kind == np.uint8 and len(shape) == 1:
            text = content.decode()
        elif kind.str.startswith("<U") and shape == ():
            text = content.decode("utf-32-le").rstrip("\0")
        else:
            raise ValueError(f"its header is {len(shape)}-dimensional {kind}, expected a text")
        header = parse_json_object(text, f"{self._path}: {HEADER}")
        if header.get("format") != form:
            raise ConfigError(f"{self._path}: format is {describe(header.get('format'))}, expected {form!r}")
        return header

    def columns(self, kinds: Mapping[str, DTypeLike], prefix: str = "") -> dict[str, NDArray[Any]]:
        """Columns by name.

        Raises
        ------
        KeyError, ValueError, zlib.error, ...
            If one is missing, of another type or not one-dimensional, or damaged.
        """
        return {name: self._column(f"{prefix}{name}", np.dtype(kind)) for name, kind in kinds.items()}

    def _column(self, name: str, kind: np.dtype[Any]) -> NDArray[Any]:
        dtype, shape, content = self._array(name)
        if dtype != kind or len(shape) != 1:
            raise ValueError(f"{name} is {len(shape)}-dimensional {dtype}, expected a column of {kind}")
        array = np.frombuffer(content, kind)
        if kind == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise ValueError(f"{name} has values that are neither true nor false")
        return array

    def _array(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...], bytes]:
        """Type, shape and content of an array."""
        entry = self._zip.getinfo(f"{name}.npy")
        with self._zip.open(entry) as stream:
            kind, shape = _read_array_header(stream)
            left = entry.file_size - stream.tell()
            if math.prod(shape) * kind.itemsize != left:
                raise ValueError(f"{name} has {left:,} bytes, its header gives {describe(shape)} values of {kind}")
            content = stream.read(left)
        if len(content) != left:
            raise EOFError("it ends early")
        return kind, shape, content


def text(header: dict[str, Any], name: str) -> str:
    """A text of a header, else ValueError."""
    value = header[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is {describe(value)}, expected a text")
    return value


def whole(header: dict[str, Any], name: str, most: int) -> int:
    """A whole number of a header, 0 to `most`, else ValueError."""
    value = header[name]
    if not is_whole(value, 0, most):
        raise ValueError(f"{name} is {describe(value)}, expected a whole number of 0 to {most}")
    return value


def most_bytes(size: int) -> int:
    """The largest size that an archive of a given file size may declare."""
    return ALWAYS_ALLOWED_BYTES + MOST_INFLATION * size


@contextlib.contextmanager
def opened_archive(path: Path, kind: str) -> Iterator[Archive]:
    """Open an archive; any fault in it, found here or by the block, becomes a one-line error.

    Raises
    ------
    ConfigError
        If it is something else.
    """
    with one_line(path, kind), open_regular(path, f"a {kind} of astra_tacos") as file:
        yield Archive(path, file)


@contextlib.contextmanager
def one_line(path: Path, kind: str) -> Iterator[None]:
    """Turn errors of reading an untrusted file into a `ConfigError` that names the file.

    Parameters
    ----------
    kind
        As of `opened_archive`.
    """
    try:
        with np.errstate(all="ignore"):  # what values lead to is checked
            yield
    except AstraTacosError as error:
        if str(error).startswith(str(path)):
            raise
        raise ConfigError(f"{path}: not a {kind} of astra_tacos ({error})") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from None
    except _DAMAGE as error:
        detail = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ConfigError(f"{path}: not a {kind} of astra_tacos ({detail or type(error).__name__})") from None


def write_archive(path: Path, header: NDArray[Any], columns: Mapping[str, NDArray[Any]]) -> None:
    """Write an archive that `opened_archive` reads: the same bytes for the same content.

    Raises
    ------
    ConfigError
        If it cannot be written.
    """
    arrays = {HEADER: header, **columns}
    with replaced_file(path) as temporary:
        with temporary.open("wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        if sum(array.nbytes for array in arrays.values()) > most_bytes(temporary.stat().st_size) - ALWAYS_ALLOWED_BYTES // 2:
            with temporary.open("wb") as stream:  # more regular than a reader would believe
                np.savez(stream, **arrays)  # type: ignore[arg-type]


def _read_array_header(stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    try:
        with warnings.catch_warnings(action="error"):
            np.lib.format.read_magic(stream)
            shape, _, kind = np.lib.format.read_array_header_1_0(stream, max_header_size=_LONGEST_ARRAY_HEADER)
    except _NO_HEADER:
        raise ValueError("an array has no header of NumPy's") from None
    return kind, shape
