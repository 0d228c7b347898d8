"""CSV tables that are safe to open in a spreadsheet.

A spreadsheet takes text that begins with `=`, `+`, `-` or `@` for a formula, and a formula can start programs (OWASP, "CSV
injection"). Names may come from other people's files, so an apostrophe is put in front of such text, and in front of text that
begins with an apostrophe: `original_text` removes it again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import TextIO

_GUARD = "'"
_GUARDED = (*"=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", _GUARD)
"""First characters that are guarded, full-width ones too."""


def write_table(file: TextIO, rows: Iterable[Sequence[object]]) -> None:
    """Write rows, text among them guarded."""
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        has_return = any(isinstance(cell, str) and "\r" in cell for cell in row)  # the plain writer would not quote it
        writer = quoted if has_return else plain
        writer.writerow([_guarded(cell) if isinstance(cell, str) else cell for cell in row])


def original_text(cell: str) -> str:
    """The text of a cell that `write_table` wrote."""
    return cell.removeprefix(_GUARD)


def _guarded(text: str) -> str:
    return _GUARD + text if text.startswith(_GUARDED) else text
