"""CSV files: tables with a header line that names their columns, in any order, and matrices of sizes.

Blank lines and `#` lines are skipped. A matrix has a line for each source, and in it a field for each target.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.plain_text import _MAX_FILE_BYTES, read_text
from astra_tacos.support.formats.values import describe
from astra_tacos.support.units import parse_size


def _csv_lines(path: Path, max_bytes: int = _MAX_FILE_BYTES) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each line that is neither blank nor begins with `#`."""
    reader = csv.reader(read_text(path, max_bytes).splitlines(), skipinitialspace=True)
    try:
        for line in reader:
            fields = [field.strip() for field in line]
            if any(fields) and not fields[0].startswith("#"):
                yield reader.line_num, fields
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def read_table(path: Path, columns: Sequence[str], row: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and fields of each line after the header, in the order of `columns`.

    Raises
    ------
    ConfigError
        If the file cannot be read, its header has other columns or a line has another number of fields.
    """
    expected = ",".join(columns)
    order: list[int] = []
    for line, fields in _csv_lines(path):
        if not order:
            if sorted(fields) != sorted(columns):
                raise ConfigError(f"{path}:{line}: header is {describe(','.join(fields))}, expected {expected}")
            order = [fields.index(column) for column in columns]
            continue
        if len(fields) != len(order):
            raise ConfigError(f"{path}:{line}: {len(fields)} fields, expected {len(order)}")
        yield line, tuple(fields[index] for index in order)
    if not order:
        raise ConfigError(f"{path}: file is empty, expected a header {expected} and one {row} a line")


_MOST_ROWS = 4096
_MOST_FILE_BYTES = 1 << 28


def read_matrix(path: Path) -> Ints:
    """int64[n, n], bytes; fields are sizes such as 0, 4096 or 64KiB.

    Raises
    ------
    ConfigError
        If the file cannot be read, a field is no size, or there are not as many rows as columns, 2 to 4,096.
    """
    rows: list[list[int]] = []
    known = {"0": 0}
    for line, fields in _csv_lines(path, _MOST_FILE_BYTES):
        for number, field in enumerate(fields, 1):
            if field not in known:
                known[field] = parse_size(field, f"{path}:{line}: field {number}")
        rows.append([known[field] for field in fields])
        if len(fields) != len(rows[0]):
            raise ConfigError(f"{path}:{line}: {len(fields)} fields, expected {len(rows[0])}")
        if len(rows) > _MOST_ROWS:
            raise ConfigError(f"{path}: more than {_MOST_ROWS:,} rows, expected at most so many")
    if not rows:
        raise ConfigError(f"{path}: file is empty, expected a line of sizes for each NPU, like {describe('0,64KiB,4096')}")
    if len(rows) != len(rows[0]) or len(rows) < 2:
        raise ConfigError(f"{path}: {len(rows)} rows of {len(rows[0])} sizes, expected as many rows as columns, 2 or more")
    return np.array(rows, np.int64)
