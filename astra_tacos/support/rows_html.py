"""Rows and tables as markup, for pages and for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

from astra_tacos.support.rows import Importance, figure_of

if TYPE_CHECKING:
    from astra_tacos.support.rows import Row, Table, Value


def rows_html(rows: Iterable[Row]) -> str:
    """The figures of the answer side by side, and below them labels and values: the details and the notes."""
    rows = list(rows)
    answer = [row for row in rows if row.importance is Importance.ANSWER]
    facts = "".join(
        f'<div class="fact"><dt>{escape(row.name)}</dt>'
        f'<dd>{escape(row.figure)}<span class="more">{escape(row.note)}</span></dd></div>'
        for row in answer
    )
    pairs = "".join(
        f"<dt>{escape(row.name)}</dt><dd>{escape(row.text)}</dd>" for row in rows if row.importance is not Importance.ANSWER
    )
    parts = [f'<dl class="facts{" four" if len(answer) == 4 else ""}">{facts}</dl>'] if facts else []
    return "".join([*parts, *([f'<dl class="pairs">{pairs}</dl>'] if pairs else [])])


def table_html(table: Table, cells: Mapping[str, Callable[[Value], str]] | None = None) -> str:
    """A table and the remarks below it, without its title; its texts are wrapped.

    Parameters
    ----------
    cells
        Markup of the cells of columns, by name; cells of others are their texts.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    marked = [(cells or {}).get(name, _text_html) for name in table.columns]
    begins = ['<td class="wrap">' if name in table.left else "<td>" for name in table.columns]
    lines = (zip(begins, marked, row, strict=True) for row in table.rows)
    body = "".join(f"<tr>{''.join(f'{begin}{markup(cell)}</td>' for begin, markup, cell in line)}</tr>" for line in lines)
    shown = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    label = escape(table.title or "Table")
    remarks = "".join(f'<p class="note">{escape(line)}</p>' for line in table.remarks if line)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{shown}</div>{remarks}'


def _text_html(cell: Value) -> str:
    return escape(figure_of(cell))
