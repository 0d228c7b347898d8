"""Comparisons for a terminal: of synthesizers, of sums by hosts and by switches, and of numbers of parameter servers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from astra_tacos.cli.shared.console import echo, print_table
from astra_tacos.report.compare_rows import IMPOSSIBLE_NATIVE, NATIVE, CompareRow, best_bound_ns
from astra_tacos.support.units import format_size, format_time

if TYPE_CHECKING:
    from astra_tacos.solver.devices_that_add import OffloadRow, ServerRow

_NO_RESULT = "-"
_NATIVES = (NATIVE, IMPOSSIBLE_NATIVE)
_MOST_COLUMNS = 4
"""Synthesizers that are shown: what fits into 100 columns beside the size, native and the bound."""
_OFFLOAD_HEADER = ("NPUs", "size", "hosts", "network", "gain", "bound, hosts", "bound, network", "gain of bounds")
_SERVERS_HEADER = ("variant", "servers", "theory", "programme", "bound", "scheduled", "time", "over all-reduce")


def print_comparison(rows: Sequence[CompareRow], *, verbose: bool) -> None:
    """Sizes down, the fastest synthesizers, native and the bound across: one time a cell, the fastest of a size with a star."""
    by_size, bounds, first = _by_size(rows), best_bound_ns(rows), rows[0]
    names = _columns(by_size, None if verbose else _MOST_COLUMNS)
    cells = [
        (
            format_size(size),
            *(_cell(results.get(name)) for name in names),
            format_time(bounds[size]) if size in bounds else _NO_RESULT,
        )
        for size, results in by_size.items()
    ]
    title = f"{first.collective} on {first.network}: {first.topology}, {first.num_npus:,} NPUs"
    print_table(title, ("size", *names, "bound"), cells)
    echo("\n* the fastest of a size")
    hidden = len({row.synthesizer for row in rows}) - len(names)
    if verbose:
        for note in _notes(rows):
            echo(note)
    elif hidden:
        what = "algorithm" if hidden == 1 else "algorithms"
        echo(f"{hidden} more {what}: --verbose shows them and all notes; --csv and --json have all figures")


def _columns(by_size: Mapping[int, Mapping[str, CompareRow]], most: int | None) -> list[str]:
    """Names of the columns: those whose times are nearest to the fastest of a size first, then native ones."""
    behind: dict[str, float] = {}
    for results in by_size.values():
        least = min((row.time_ns for row in results.values() if row.time_ns), default=1)
        for name, row in results.items():
            ratio = row.time_ns / least if row.time_ns else math.inf
            behind[name] = min(behind.get(name, math.inf), ratio)
    made = sorted((name for name in behind if name not in _NATIVES), key=lambda name: behind[name])
    shown = [name for name in made if most is None or behind[name] < math.inf][:most]
    return [*shown, *(name for name in behind if name == NATIVE or (most is None and name in _NATIVES))]


def _cell(row: CompareRow | None) -> str:
    if row is None or row.time_ns is None:
        return _NO_RESULT
    return f"{format_time(row.time_ns)}{'*' if row.is_best else ' '}"


def _by_size(rows: Iterable[CompareRow]) -> dict[int, dict[str, CompareRow]]:
    by_size: dict[int, dict[str, CompareRow]] = {}
    for row in rows:
        by_size.setdefault(row.size_bytes, {})[row.synthesizer] = row
    return by_size


def _judge_notes(size: str, rows: Sequence[CompareRow]) -> Iterable[str]:
    """Where another schedule than the fastest is the fastest under congestion, and what there is to say of the fastest."""
    best = next((row for row in rows if row.is_best), None)
    timed = [row for row in rows if row.congested_ns is not None and row.synthesizer != IMPOSSIBLE_NATIVE]
    fastest = min(timed, key=lambda row: row.congested_ns or 0, default=None)
    if best is not None and best.congested_ns is not None and fastest is not None:
        time_ns = fastest.congested_ns or 0
        if time_ns < best.congested_ns:
            yield f"{size}: under congestion {fastest.synthesizer} is the fastest, {format_time(time_ns)}"
    if best is not None and best.judge_notes and best.synthesizer not in _NATIVES:
        yield f"{size}: {best.judge_notes}"


def _notes(rows: Iterable[CompareRow]) -> list[str]:
    """Why there are gaps: each reason once, with the sizes if it does not hold for all."""
    from astra_tacos.bounds.certificate import below_bound

    rows = list(rows)
    sizes: dict[str, list[int]] = {}
    reasons: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        sizes.setdefault(row.synthesizer, []).append(row.size_bytes)
        if row.refusal:
            reasons.setdefault((row.synthesizer, row.refusal), []).append(row.size_bytes)
    notes = []
    cut_off = dict.fromkeys(row.synthesizer for row in rows if row.cut_off_by_budget)
    if cut_off:
        notes.append(f"the budget was used up before all candidates had been tried: {', '.join(cut_off)}")
    late = dict.fromkeys(row.synthesizer for row in rows if row.cut_off_by_time_limit)
    if late:
        notes.append(f"cut off by --time-limit, so that the result depends on the machine: {', '.join(late)}")
    for size, results in _by_size(rows).items():
        notes += _judge_notes(format_size(size), list(results.values()))
        notes += [
            f"{format_size(size)}: {row.synthesizer}: {row.judge_notes}"
            for row in results.values()
            if row.synthesizer in _NATIVES and row.judge_notes
        ]
    if any(row.time_ns is not None and row.efficiency is None and row.synthesizer not in _NATIVES for row in rows):
        notes.append("some times are below the bound, because ASTRA-sim truncates the time of such small chunks")
    for row in rows:
        less = (
            ""
            if row.time_ns is None or row.bound_ns is None or row.efficiency is None
            else below_bound(row.time_ns, row.bound_ns)
        )
        notes += [f"{format_size(row.size_bytes)}: {row.synthesizer}: {less}"] if less else []
    for (name, reason), at in reasons.items():
        where = "" if at == sizes[name] else f" at {', '.join(format_size(size) for size in at)}"
        notes.append(f"{_NO_RESULT} {name}{where}: {reason}")
    return notes


def print_offload(rows: Sequence[OffloadRow], title: str) -> None:
    """NPUs and sizes down: times of both, bounds, and what is gained."""

    def time(value: int | None) -> str:
        return _NO_RESULT if value is None else format_time(value)

    def gain(value: float | None) -> str:
        return _NO_RESULT if value is None else f"{value:.2f}"

    cells = [
        (
            f"{row.npus:,}",
            format_size(row.size_bytes),
            time(row.host_ns),
            time(row.network_ns),
            gain(row.gain),
            time(row.host_bound_ns),
            time(row.network_bound_ns),
            gain(row.bound_gain),
        )
        for row in rows
    ]
    print_table(title, _OFFLOAD_HEADER, cells)
    below = sum(row.num_below_bound for row in rows)
    if below:
        echo(f"{below} times are less than their bound, as ASTRA-sim truncates the time of each message")
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
