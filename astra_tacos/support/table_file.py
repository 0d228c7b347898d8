"""CSV files with a header line that names their columns, in any order; blank lines and `#` lines are skipped.

CSV files with a matrix of sizes: a line for each source, a field for each target; blank lines and `#` lines are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import describe, read_text
from astra_tacos.support.units import parse_size


def read_table(path: Path, columns: Sequence[str], row: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and fields of each line after the header, in the order of `columns`.

    Parameters
    ----------
    path
        The file.
    columns
        The names that the header has, in any order.
    row
        What a line stands for, in a word.

    Raises
    ------
    ConfigError
        If the file cannot be read, its header has other columns or a line has another number of fields.
    """
    reader = csv.reader(read_text(path).splitlines(), skipinitialspace=True)
    expected = ",".join(columns)
    order: list[int] = []
    try:
        for line in reader:
            fields = [field.strip() for field in line]
            if not any(fields) or fields[0].startswith("#"):
                continue
            if not order:
                if sorted(fields) != sorted(columns):
                    found = describe(",".join(fields))
                    raise ConfigError(f"{path}:{reader.line_num}: header is {found}, expected {expected}")
                order = [fields.index(column) for column in columns]
                continue
            if len(fields) != len(order):
                raise ConfigError(f"{path}:{reader.line_num}: {len(fields)} fields, expected {len(order)}")
            yield reader.line_num, tuple(fields[index] for index in order)
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not order:
        raise ConfigError(f"{path}: file is empty, expected a header {expected} and one {row} a line")


_MOST_ROWS = 4096
_MOST_FILE_BYTES = 1 << 28


def read_matrix(path: Path) -> NDArray[np.int64]:
    """int64[n, n], bytes; fields are sizes such as 0, 4096 or 64KiB.

    Raises
    ------
    ConfigError
        If the file cannot be read, a field is no size, or there are not as many rows as columns, 2 to 4,096.
    """
    rows: list[list[int]] = []
    known = {"0": 0}
    reader = csv.reader(read_text(path, _MOST_FILE_BYTES).splitlines(), skipinitialspace=True)
    try:
        for line in reader:
            if not any(field.strip() for field in line) or line[0].startswith("#"):
                continue
            row = []
            for number, field in enumerate(line, 1):
                text = field.strip()
                if text not in known:
                    known[text] = parse_size(text, f"{path}:{reader.line_num}: field {number}")
                row.append(known[text])
            if rows and len(row) != len(rows[0]):
                raise ConfigError(f"{path}:{reader.line_num}: {len(row)} fields, expected {len(rows[0])}")
            rows.append(row)
            if len(rows) > _MOST_ROWS:
                raise ConfigError(f"{path}: more than {_MOST_ROWS:,} rows, expected at most so many")
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not rows:
        raise ConfigError(f"{path}: file is empty, expected a line of sizes for each NPU, like {describe('0,64KiB,4096')}")
    if len(rows) != len(rows[0]) or len(rows) < 2:
        raise ConfigError(f"{path}: {len(rows)} rows of {len(rows[0])} sizes, expected as many rows as columns, 2 or more")
    return np.array(rows, np.int64)
