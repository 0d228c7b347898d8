"""The page of a comparison of synthesizers: all sizes in one table, and a table per size, the fastest first, with who refused."""

from __future__ import annotations

from collections.abc import Sequence

from astra_tacos.pages.compare_rows import CompareRow
from astra_tacos.pages.comparison_table import Compared
from astra_tacos.pages.html.page import Section, render_page
from astra_tacos.support.rows_html import table_html


def compare_page(rows: Sequence[CompareRow], title: str | None = None) -> bytes:
    """The report of the rows of a comparison, as bytes of HTML; `title` replaces the default heading."""
    clock = next((row.backend for row in rows if row.backend is not None), "")
    tables = enumerate(Compared(rows, clock).tables())
    sections = [Section(f"table-{number}", table.title, table_html(table)) for number, table in tables]
    task = rows[0]
    subtitle = f"{task.collective} on {task.network} ({task.topology}), {task.num_npus:,} NPUs"
    return render_page(title or "Comparison of synthesizers", subtitle, sections, {}, ())
