"""CSV files of directed links: a header line `src,dst,bandwidth,latency`, then one link a line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from astra_tacos.config.yaml_text import describe, read_text
from astra_tacos.errors import ConfigError

COLUMNS = ("src", "dst", "bandwidth", "latency")


def read_link_table(path: Path) -> Iterator[tuple[int, tuple[str, str, str, str]]]:
    """Line number and the four fields, in the order of `COLUMNS`, of each link; blank lines and `#` lines are skipped.

    Raises
    ------
    ConfigError
        If the file cannot be read, its header lacks a column or a line has another number of fields.
    """
    reader = csv.reader(read_text(path).splitlines(), skipinitialspace=True)
    header: list[str] = []
    try:
        for row in reader:
            fields = [field.strip() for field in row]
            if not any(fields) or fields[0].startswith("#"):
                continue
            if not header:
                header = fields
                if sorted(header) != sorted(COLUMNS):
                    raise ConfigError(
                        f"{path}:{reader.line_num}: header is {describe(','.join(header))}, expected {','.join(COLUMNS)}"
                    )
                order = [header.index(column) for column in COLUMNS]
                continue
            if len(fields) != len(header):
                raise ConfigError(f"{path}:{reader.line_num}: {len(fields)} fields, expected {len(header)}")
            src, dst, bandwidth, latency = (fields[index] for index in order)
            yield reader.line_num, (src, dst, bandwidth, latency)
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not header:
        raise ConfigError(f"{path}: file is empty, expected a header {','.join(COLUMNS)} and one link a line")
