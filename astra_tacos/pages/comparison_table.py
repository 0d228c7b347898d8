"""A comparison of synthesizers as a table: sizes down, synthesizers across."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from astra_tacos.pages.compare_rows import NATIVE, CompareRow, best_bound_ns
from astra_tacos.pages.table import no_bound_text
from astra_tacos.support.rows import Figure, Importance, Result, Row, Table, Value, share_of, size_figure, time_figure
from astra_tacos.support.units import format_size, format_time

_NO_RESULT = "-"
_OF_SIZE = ("synthesizer", "time", "of the bound", "bus bandwidth", "sends", "notes")
MOST_COLUMNS = 4
"""Synthesizers that are shown: what fits into 100 columns beside the size, native and the bound."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compared(Result):
    """What synthesizers take for a collective of some sizes.

    Parameters
    ----------
    by_task, clock
        A row for each size and synthesizer, and the network model that all times are of.
    programs
        Columns that are shown in any case, with the reason where there is no time.
    remarks
        What else there is to say.

    Examples
    --------
    >>> from astra_tacos import compare
    >>> compared = compare("configs/network/torus_4x4.yml", "all-gather", "64KiB", ["ring", "direct"])
    >>> min(compared.by_task, key=lambda row: row.time_ns).is_best
    True
    """

    by_task: Sequence[CompareRow]
    clock: str
    programs: Collection[str] = ()
    remarks: tuple[str, ...] = ()

    def title(self) -> str:
        """None: the table has it."""
        return ""

    def rows(self) -> list[Row]:
        """None: all figures are in the table."""
        return []

    def tables(self) -> list[Table]:
        """Sizes down, synthesizers, native and the bound across: one time a cell, the fastest of a size with a star.

        Then a table for each size, with all figures of each synthesizer.
        """
        names, few = (_columns(_by_size(self.by_task), most, self.programs) for most in (None, MOST_COLUMNS))
        notes = _refusals([row for row in self.by_task if row.synthesizer in self.programs])
        hidden = len(names) - len(few)
        if hidden:
            noun = "algorithm" if hidden == 1 else "algorithms"
            notes.append(f"{hidden} more {noun}: add --verbose to read these and all notes; --csv and --json have all figures")
        return [self._table(names, _notes(self.by_task), self._table(few, notes)), *map(self._of_size, _by_size(self.by_task))]

    def _of_size(self, size: int) -> Table:
        """The synthesizers of one size, the fastest first, then those that refused."""
        results = _by_size(self.by_task)[size].values()
        ordered = sorted(results, key=lambda row: (math.inf if row.time_ns is None else row.time_ns, row.synthesizer))
        bound_ns = best_bound_ns(self.by_task).get(size)
        remarks = () if bound_ns is None else (f"no algorithm takes less than {format_time(bound_ns)}",)
        cells = [_figures(row) for row in ordered]
        return Table(format_size(size), _OF_SIZE, cells, Importance.DETAIL, left=_OF_SIZE[-1:], remarks=remarks)

    def _table(self, names: Sequence[str], notes: Sequence[str], short: Table | None = None) -> Table:
        bounds, first = best_bound_ns(self.by_task), self.by_task[0]
        cells = [
            (
                size_figure(size),
                *(_cell(results.get(name)) for name in names),
                time_figure(bounds[size]) if size in bounds else None,
            )
            for size, results in _by_size(self.by_task).items()
        ]
        title = f"{first.collective} on {first.network}: {first.topology}, {first.num_npus:,} NPUs"
        title += f"; times on {self.clock}" if self.clock else ""
        has_times = any(row.time_ns is not None for row in self.by_task)
        unbounded = [no_bound_text(self.clock)] if not bounds and has_times else []
        remarks = ("", "* the fastest of a size", *unbounded, *notes, *self.remarks)
        return Table(title, ("size", *names, "bound"), cells, remarks=remarks, short=short)


def _figures(row: CompareRow) -> tuple[Value, ...]:
    """What the table of a size says of a synthesizer."""
    name = row.synthesizer + (f" ({row.made_by})" if row.made_by not in (None, row.synthesizer) else "")
    if row.time_ns is None:
        return (name, None, None, None, None, row.refusal)
    share = None if row.efficiency is None else share_of(row.efficiency)
    gbps = row.bus_bandwidth_gbps
    bandwidth = None if gbps is None else Figure(gbps, f"{gbps:.4g} GB/s", "GB/s")
    return (name, time_figure(row.time_ns), share, bandwidth, row.num_sends, row.notes or "")


def _columns(by_size: Mapping[int, Mapping[str, CompareRow]], most: int | None, programs: Collection[str]) -> list[str]:
    """Names of the columns: those whose times are nearest to the fastest of a size first, then native."""
    behind: dict[str, float] = {}
    for results in by_size.values():
        least = min((row.time_ns for row in results.values() if row.time_ns), default=1)
        for name, row in results.items():
            ratio = row.time_ns / least if row.time_ns else math.inf
            behind[name] = min(behind.get(name, math.inf), ratio)
    ranked = sorted((name for name in behind if name != NATIVE), key=lambda name: behind[name])
    able = [name for name in ranked if most is None or behind[name] < math.inf][:most]
    shown = [name for name in ranked if name in able or name in programs]
    return [*shown, *(name for name in behind if name == NATIVE)]


def _cell(row: CompareRow | None) -> Figure | None:
    if row is None or row.time_ns is None:
        return None
    return time_figure(row.time_ns, "*" if row.is_best else " ")


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
