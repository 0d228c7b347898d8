"""CSV files of directed links: a header line `src,dst,bandwidth,latency`, then one link a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from astra_tacos.support.table_file import read_table

COLUMNS = ("src", "dst", "bandwidth", "latency")


def read_link_table(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and the four fields, in the order of `COLUMNS`, of each link.

    Raises
    ------
    ConfigError
        If the file cannot be read, its header lacks a column or a line has another number of fields.
    """
    return read_table(path, COLUMNS, "link")
