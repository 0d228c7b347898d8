"""Comparisons for a terminal: of synthesizers, of sums by hosts and by switches, and of numbers of parameter servers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from astra_tacos.cli.shared.console import echo, print_table
from astra_tacos.report.compare_rows import NATIVE, CompareRow, best_bound_ns
from astra_tacos.report.table import no_bound_text
from astra_tacos.support.units import format_size, format_time, ratio_text

if TYPE_CHECKING:
    from astra_tacos.solver.devices_that_add import OffloadRow, ServerRow

_NO_RESULT = "-"
_MOST_COLUMNS = 4
"""Synthesizers that are shown: what fits into 100 columns beside the size, native and the bound."""
_OFFLOAD_HEADER = ("NPUs", "size", "hosts", "network", "gain", "bound, hosts", "bound, network", "gain of bounds")
_SERVERS_HEADER = ("variant", "servers", "theory", "programme", "bound", "scheduled", "time", "over all-reduce")


def print_comparison(rows: Sequence[CompareRow], clock: str, programs: Collection[str] = (), *, verbose: bool) -> None:
    """Sizes down, the fastest synthesizers, native and the bound across: one time a cell, the fastest of a size with a star.

    Parameters
    ----------
    programs
        Columns that are shown in any case, with the reason where there is no time.
    """
    by_size, bounds, first = _by_size(rows), best_bound_ns(rows), rows[0]
    names = _columns(by_size, None if verbose else _MOST_COLUMNS, programs)
    cells = [
        (
            format_size(size),
            *(_cell(results.get(name)) for name in names),
            format_time(bounds[size]) if size in bounds else _NO_RESULT,
        )
        for size, results in by_size.items()
    ]
    title = f"{first.collective} on {first.network}: {first.topology}, {first.num_npus:,} NPUs; times on {clock}"
    print_table(title, ("size", *names, "bound"), cells)
    echo("\n* the fastest of a size")
    if not bounds and any(row.time_ns is not None for row in rows):
        echo(no_bound_text(clock))
    hidden = len({row.synthesizer for row in rows}) - len(names)
    if verbose:
        for note in _notes(rows):
            echo(note)
        return
    for note in _refusals([row for row in rows if row.synthesizer in programs]):
        echo(note)
    if hidden:
        what = "algorithm" if hidden == 1 else "algorithms"
        echo(f"{hidden} more {what}: --verbose shows them and all notes; --csv and --json have all figures")


def _columns(by_size: Mapping[int, Mapping[str, CompareRow]], most: int | None, programs: Collection[str]) -> list[str]:
    """Names of the columns: those whose times are nearest to the fastest of a size first, then native."""
    behind: dict[str, float] = {}
    for results in by_size.values():
        least = min((row.time_ns for row in results.values() if row.time_ns), default=1)
        for name, row in results.items():
            ratio = row.time_ns / least if row.time_ns else math.inf
            behind[name] = min(behind.get(name, math.inf), ratio)
    made = sorted((name for name in behind if name != NATIVE), key=lambda name: behind[name])
    able = [name for name in made if most is None or behind[name] < math.inf][:most]
    shown = [name for name in made if name in able or name in programs]
    return [*shown, *(name for name in behind if name == NATIVE)]


def _cell(row: CompareRow | None) -> str:
    if row is None or row.time_ns is None:
        return _NO_RESULT
    return f"{format_time(row.time_ns)}{'*' if row.is_best else ' '}"


def _by_size(rows: Iterable[CompareRow]) -> dict[int, dict[str, CompareRow]]:
    by_size: dict[int, dict[str, CompareRow]] = {}
    for row in rows:
        by_size.setdefault(row.size_bytes, {})[row.synthesizer] = row
    return by_size


def _notes(rows: Sequence[CompareRow]) -> list[str]:
    """What the reader of the times should know, and why there are gaps."""
    notes = []
    cut_off = dict.fromkeys(row.synthesizer for row in rows if row.cut_off_by_budget)
    if cut_off:
        notes.append(f"the budget was used up before all candidates had been tried: {', '.join(cut_off)}")
    late = dict.fromkeys(row.synthesizer for row in rows if row.cut_off_by_time_limit)
    if late:
        notes.append(f"cut off by --time-limit, so that the result depends on the machine: {', '.join(late)}")
    for row in rows:
        where = f"{format_size(row.size_bytes)}: {row.synthesizer}"
        if row.notes and (row.is_best or row.synthesizer == NATIVE):
            notes.append(f"{where}: {row.notes}")
        if row.prints and (row.is_best or row.synthesizer == NATIVE):
            notes.append(f"{where} prints on {row.prints}")
    return [*notes, *_refusals(rows)]


def _refusals(rows: Iterable[CompareRow]) -> list[str]:
    """Why there are gaps: each reason once, with the sizes if it does not hold for all."""
    sizes: dict[str, list[int]] = {}
    reasons: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        sizes.setdefault(row.synthesizer, []).append(row.size_bytes)
        if row.refusal:
            reasons.setdefault((row.synthesizer, row.refusal), []).append(row.size_bytes)
    notes = []
    for (name, reason), at in reasons.items():
        where = "" if at == sizes[name] else f" at {', '.join(format_size(size) for size in at)}"
        notes.append(f"{_NO_RESULT} {name}{where}: {reason}")
    return notes


def print_offload(rows: Sequence[OffloadRow], title: str) -> None:
    """NPUs and sizes down: times of both, bounds, and what is gained."""

    def time(value: float | None) -> str:
        return _NO_RESULT if value is None else format_time(value)

    def gain(value: float | None, other: float | None) -> str:
        return _NO_RESULT if value is None or other is None else ratio_text(value, other)

    cells = [
        (
            f"{row.npus:,}",
            format_size(row.size_bytes),
            time(row.host_ns),
            time(row.network_ns),
            gain(row.host_ns, row.network_ns),
            time(row.host_bound_ns),
            time(row.network_bound_ns),
            gain(row.host_bound_ns, row.network_bound_ns),
        )
        for row in rows
    ]
    print_table(title, _OFFLOAD_HEADER, cells)
    for row in rows:
        if row.refusal:
            echo(f"{row.npus} NPUs, {format_size(row.size_bytes)}: {row.refusal}")


def print_servers(rows: Sequence[ServerRow], title: str, racks: Mapping[str, float], racks_title: str) -> None:
    """Variants and numbers of servers down, in units of S / B; below, the theory of racks, if there is any."""
    from astra_tacos.solver.devices_that_add import first_that_wins
    from astra_tacos.synthesizer.parts.server_shares import colocated, fewest_that_win

    workers, unit_ns = rows[0].workers, rows[0].unit_ns
    cells = [
        (
            row.kind,
            f"{row.servers}",
            f"{row.formula:.4f}",
            *(f"{time_ns / row.unit_ns:.4f}" for time_ns in (row.programme_ns, row.bound_ns, row.time_ns)),
            format_time(row.time_ns),
            f"{colocated(workers) / row.formula:.2f}",
        )
        for row in rows
    ]
    print_table(f"{title}, in units of {format_time(unit_ns)}", _SERVERS_HEADER, cells)
    if racks:
        print_table(racks_title, ("variant", "units"), [(name, f"{value:.4f}") for name, value in racks.items()])
    echo(f"\ndedicated servers alone win from {fewest_that_win(workers)} on, mixed ones from 1 on (theory)")
    winner = first_that_wins(rows)
    if winner is not None:
        echo(f"scheduled: mixed servers win from {winner} on, of the numbers above")
