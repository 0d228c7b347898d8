"""A comparison of synthesizers as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from astra_tacos.cli.console import echo, show, styled
from astra_tacos.report.compare_rows import CompareRow, best_bound_ns
from astra_tacos.units import format_size, format_time

_NO_RESULT = "-"
_WIDEST_NAME = 10


def print_comparison(rows: Sequence[CompareRow]) -> None:
    """Sizes down, synthesizers across: time, and how near it is to the bound; the best of a size is bold and has a star."""
    from rich.table import Table

    names = list(dict.fromkeys(row.synthesizer for row in rows))
    by_size: dict[int, dict[str, CompareRow]] = {}
    for row in rows:
        by_size.setdefault(row.size_bytes, {})[row.synthesizer] = row
    bounds = best_bound_ns(rows)
    first = rows[0]
    echo(f"{first.collective} on {first.network}: {first.topology}, {first.num_npus} NPUs; time, and bound / time\n")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("size", justify="right", no_wrap=True)
    for name in (*names, "lower bound"):
        table.add_column(styled(_fold(name)), justify="right", no_wrap=True)
    for size, results in by_size.items():
        cells = [styled(text, "bold green" if best else "") for text, best in (_cell(results[name]) for name in names)]
        bound = styled(format_time(bounds[size]) if size in bounds else _NO_RESULT, "dim")
        table.add_row(format_size(size), *cells, bound)
    show(table)
    echo("\n* fastest at this size")
    for note in _notes(rows):
        echo(note)


def _cell(row: CompareRow) -> tuple[str, bool]:
    if row.time_ns is None or row.efficiency is None:
        return _NO_RESULT, False
    star = "*" if row.is_best else " "
    return f"{format_time(row.time_ns)}{star}\n{row.efficiency:.1%}{_cut_off(row)}", bool(row.is_best)


def _cut_off(row: CompareRow) -> str:
    if row.cut_off_by_time_limit:
        return "!"
    return "+" if row.cut_off_by_budget else " "


def _fold(name: str) -> str:
    """A long name on several lines, at its hyphens."""
    return name.replace("-", "-\n").replace(" ", "\n") if len(name) > _WIDEST_NAME else name


def _notes(rows: Iterable[CompareRow]) -> list[str]:
    """Why there are gaps: each reason once, with the sizes if it does not hold for all."""
    rows = list(rows)
    sizes: dict[str, list[int]] = {}
    reasons: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        sizes.setdefault(row.synthesizer, []).append(row.size_bytes)
        if row.refusal:
            reasons.setdefault((row.synthesizer, row.refusal), []).append(row.size_bytes)
    notes = []
    if any(row.cut_off_by_budget for row in rows):
        notes.append("+ the budget was used up before all candidates had been tried")
    if any(row.cut_off_by_time_limit for row in rows):
        notes.append("! cut off by --time-limit: the result depends on the machine")
    for (name, reason), at in reasons.items():
        where = "" if at == sizes[name] else f" at {', '.join(format_size(size) for size in at)}"
        notes.append(f"{_NO_RESULT} {name}{where}: {reason}")
    return notes
