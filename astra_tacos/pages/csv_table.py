"""CSV tables that are safe to open in a spreadsheet.

A spreadsheet evaluates text that begins with `=`, `+`, `-` or `@` as a formula, and a formula can start programs (OWASP, "CSV
injection"). Names may come from other people's files, so this module puts an apostrophe in front of such text, and in front of
text that begins with an apostrophe; `original_text` removes it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import TextIO

_GUARD = "'"
_GUARDED = (*"=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", _GUARD)
"""First characters of texts that get an apostrophe, with their full-width forms."""


def write_table(file: TextIO, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV; texts that a spreadsheet would evaluate get an apostrophe in front."""
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        has_return = any("\r" in str(cell) for cell in row)  # the plain writer does not quote it
        writer = quoted if has_return else plain
        writer.writerow(map(_guarded, row))


def original_text(cell: str) -> str:
    """The text of a cell that `write_table` wrote, without the apostrophe in front."""
    return cell.removeprefix(_GUARD)


def _guarded(cell: object) -> object:
    return _GUARD + cell if isinstance(cell, str) and cell.startswith(_GUARDED) else cell
