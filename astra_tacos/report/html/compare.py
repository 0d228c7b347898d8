"""The page of a comparison of synthesizers: a table per size, the fastest first, and who refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from astra_tacos.report.compare_rows import CompareRow, best_bound_ns
from astra_tacos.report.html.page import Section, escape, render_page
from astra_tacos.support.units import format_size, format_time

_HEADER = ("synthesizer", "time", "of the bound", "bus bandwidth", "sends")


def compare_page(rows: Sequence[CompareRow], title: str | None = None) -> bytes:
    """The report of the rows of a comparison, as bytes of HTML; `title` replaces the default heading."""
    task, bounds = rows[0], best_bound_ns(rows)
    by_size = groupby(sorted(rows, key=lambda row: row.size_bytes), key=lambda row: row.size_bytes)
    sections = [_section(size, list(of_size), bounds.get(size)) for size, of_size in by_size]
    subtitle = f"{task.collective} on {task.network} ({task.topology}), {task.num_npus:,} NPUs"
    return render_page(title or "Comparison of synthesizers", subtitle, sections, {}, ())


def _section(size_bytes: int, rows: Sequence[CompareRow], bound_ns: int | None) -> Section:
    """The rows of one size."""
    made = sorted((row for row in rows if row.time_ns is not None), key=lambda row: (row.time_ns or 0, row.synthesizer))
    lines = [_cells(row) for row in made]
    lines += [(row.synthesizer, "none", row.refusal, "", "") for row in rows if row.time_ns is None]
    head = "".join(f"<th>{escape(name)}</th>" for name in _HEADER)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in lines)
    html = f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    bound = "" if bound_ns is None else f"No algorithm takes less than {format_time(bound_ns)}."
    return Section(f"size-{size_bytes}", format_size(size_bytes), html, bound)


def _cells(row: CompareRow) -> tuple[str, ...]:
    """What the table says of a row that has a time."""
    name = row.synthesizer + (f" ({row.made_by})" if row.made_by not in (None, row.synthesizer) else "")
    share = "" if row.efficiency is None else f"{row.efficiency:.1%}"
    bandwidth = "" if row.bus_bandwidth_gbps is None else f"{row.bus_bandwidth_gbps:.4g} GB/s"
    return (
        name,
        format_time(row.time_ns or 0),
        share,
        bandwidth,
        "" if row.num_sends is None else f"{row.num_sends:,}",
    )
