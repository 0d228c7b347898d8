"""CSV files with a header line that names their columns, in any order; blank lines and `#` lines are skipped."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.yaml_text import describe, read_text


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
