"""A growing matrix, to which rows are appended one after another: in memory, or streamed into a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

MAX_BYTES_IN_MEMORY = 6 << 30
"""What is expected to be larger goes into a file."""
_HEADER_BYTES = 128
_MAGIC = b"\x93NUMPY\x01\x00"


class RowStore:
    """Rows of `width` numbers; a context that closes its file.

    Parameters
    ----------
    width, kind
        Of a row.
    expected_rows
        How many there will probably be.
    path
        A `.npy` file to stream the rows into. None for memory, or past `MAX_BYTES_IN_MEMORY` a temporary file.
    """

    def __init__(self, width: int, kind: DTypeLike, expected_rows: int, path: Path | None = None) -> None:
        self._width, self._kind = width, np.dtype(kind)
        self._rows = 0
        self._array: NDArray[Any] = np.empty((0, width), kind)
        self._file: IO[bytes] | None = None
        if path is not None:
            self._file = path.open("w+b")
        elif expected_rows * width * self._kind.itemsize > MAX_BYTES_IN_MEMORY:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        else:
            self._array = np.empty((expected_rows, width), kind)  # pages that are never written to take no memory
        if self._file is not None:
            self._file.write(self._header())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows, cast to the store's type."""
        end = self._rows + len(rows)
        if self._file is not None:
            self._file.write(rows.astype(self._kind).data)
        else:
            if end > len(self._array):
                array = np.empty((max(2 * len(self._array), end), self._width), self._kind)
                array[: self._rows] = self._array[: self._rows]
                self._array = array
            self._array[self._rows : end] = rows
        self._rows = end

    def reverse(self) -> None:
        """Reverse the order of all rows so far."""
        array = self._array[: self._rows] if self._file is None else self._mapped("r+")
        for row in range(self._rows // 2):
            other = self._rows - 1 - row
            kept = array[row].copy()
            array[row] = array[other]
            array[other] = kept

    def finish(self) -> NDArray[Any]:
        """The matrix; if it is in a file, a read-only memory map, which outlives the store."""
        if self._file is None:
            return self._array[: self._rows]
        self._file.seek(0)
        self._file.write(self._header())
        return self._mapped("r")

    def _mapped(self, mode: Any) -> NDArray[Any]:
        assert self._file is not None
        self._file.flush()
        if not self._rows:
            return self._array
        mapped = np.memmap(self._file, self._kind, mode, _HEADER_BYTES, (self._rows, self._width))
        self._file.seek(0, 2)  # the map's offset moves the file's position
        return mapped

    def _header(self) -> bytes:
        """NumPy's format, version 1.0, at a length that any number of rows fits into."""
        text = f"{{'descr': '{self._kind.str}', 'fortran_order': False, 'shape': ({self._rows}, {self._width}), }}"
        body = text.encode().ljust(_HEADER_BYTES - len(_MAGIC) - 3) + b"\n"
        return _MAGIC + len(body).to_bytes(2, "little") + body
