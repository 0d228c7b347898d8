"""Synthesizers, programs of files and ASTRA-sim's own algorithms on one network, over a list of sizes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import COLLECTIVES, make_collective, size_as_run
from astra_tacos.collective.collective import Collective
from astra_tacos.export.candidate import Candidate
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.pages.compare_rows import NATIVE, CompareRow
from astra_tacos.pages.comparison_table import MOST_COLUMNS, Compared
from astra_tacos.pages.table import few_bytes_text
from astra_tacos.run.aborts import abort_at_start
from astra_tacos.run.backend import CONGESTION_AWARE, Backend, Binary
from astra_tacos.solver.clock import bounds_on, check_clock, time_on, timed_for
from astra_tacos.solver.clock_figures import figures_on
from astra_tacos.solver.many_sends import check_sends
from astra_tacos.solver.native import best_native_time
from astra_tacos.solver.solution import Request
from astra_tacos.solver.solve import check_schedule
from astra_tacos.support.errors import ConfigError, ReplayError, SynthesisError, VerificationError
from astra_tacos.support.plugins import is_added
from astra_tacos.support.quoted import quoted
from astra_tacos.support.units import format_size, parse_size, parse_sizes
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import THOROUGH, SearchOptions


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What is compared.

    Parameters
    ----------
    options
        What is asked of each search; `synthesizers` take the place of its synthesizer.
    sizes, synthesizers
        Rows and columns of the comparison; sizes in bytes.
    clock
        The network model that schedules are made for, and that all times are of.
    with_native
        Whether each size has a row of the fastest of ASTRA-sim's own algorithms.
    """

    topology: Topology
    collective: str
    root: int | None
    options: SearchOptions
    sizes: tuple[int, ...]
    synthesizers: tuple[str, ...]
    network: NetworkConfig
    candidates: tuple[Candidate, ...] = ()
    clock: Backend = CONGESTION_AWARE
    checks: bool = True
    with_native: bool = True
    _collectives: dict[int, Collective] = field(default_factory=dict, init=False)
    """By size; searches keep what they know of a collective."""

    @property
    def num_rows(self) -> int:
        """About how many rows there are."""
        return len(self.sizes) * (len(self.synthesizers) + len(self.candidates) + 1)

    def rows(self) -> Iterator[CompareRow]:
        """A row per size and synthesizer, as they get done; where one cannot do it, the row says why.

        Raises
        ------
        ConfigError
            If the root is none of the NPUs.
        VerificationError
            If a schedule is illegal.
        """
        for size in self.sizes:
            least: float | None = None
            makers: list[tuple[str, Candidate | None]] = [(name, None) for name in self.synthesizers]
            for maker in (*makers, *((candidate.name, candidate) for candidate in self.candidates)):
                row = self._row(size, *maker, least)
                least = min((value for value in (row.time_ns, least) if value is not None), default=None)
                yield row
            if self.with_native:
                yield self._native_row(size)

    def compared(self, rows: list[CompareRow]) -> Compared:
        """The rows as a result, with what there is to say of them."""
        remarks = [f"ASTRA-sim aborts here with its own algorithms: {reason}" for reason in self.astra_sim_aborts]
        remarks += [f"run as {format_size(run_bytes)}: {few_bytes_text(size)}" for size, run_bytes in self.run_as_bytes.items()]
        few = self.synthesizers if len(self.synthesizers) <= MOST_COLUMNS else ()  # who names few looks for them
        named = (*(candidate.name for candidate in self.candidates), *few)
        return Compared(rows, self.clock.name, named, tuple(remarks))

    def _blank(self, size: int, name: str) -> CompareRow:
        task_columns = self.topology.name, self.topology.describe_shape(), self.topology.num_endpoints
        return CompareRow(*task_columns, self.collective, self.root, size, name)

    def size_as_run(self, size: int) -> int:
        """The bytes that a size is run as: other ones where it has fewer than NPUs and searches choose the number of chunks."""
        return size_as_run(self.collective, self.topology.num_endpoints, size) if self.options.chooses_chunks else size

    @property
    def run_as_bytes(self) -> dict[int, int]:
        """By size, the bytes that it is run as where these are others."""
        return {size: run_bytes for size in self.sizes if (run_bytes := self.size_as_run(size)) != size}

    @property
    def astra_sim_aborts(self) -> tuple[str, ...]:
        """Why stock ASTRA-sim aborts on the network, so that nobody sees its own algorithms' times there."""
        return abort_at_start(self.network, self.clock) if self.with_native else ()

    def _of_size(self, size: int) -> Collective:
        if size not in self._collectives:
            arguments = (
                self.collective,
                self.topology.num_npus,
                self.size_as_run(size),
                self.options.first_chunks,
                self.root,
                self.topology.endpoints,
            )
            self._collectives[size] = make_collective(*arguments)
        return self._collectives[size]

    def _timed(self, size: int, time_ns: float) -> dict[str, Any]:
        """Columns that follow from a time."""
        collective = self._of_size(size)
        figures = figures_on(self.clock, bounds_on(self.topology, collective, self.clock), self.topology, collective, time_ns)
        return figures | {"exact_ns": figures["time_ns"]}

    def _row(self, size: int, name: str, program: Candidate | None, least: float | None) -> CompareRow:
        """The row of a synthesizer or a program; `least` is the least time of rows of this size so far."""
        begin, is_thorough = time.perf_counter(), self.options.effort == THOROUGH
        parts = 1 if is_thorough or self.options.budget is not None else 3
        try:
            collective = self._of_size(size)
            synthesizer = name if program is None else AUTO
            options, models, _ = timed_for(
                replace(self.options.part_of_budget(parts, self.topology), synthesizer=synthesizer), self.topology, self.clock
            )
            if program is None:
                result = search(self.topology, collective, options, rival_ns=math.inf if least is None or is_thorough else least)
                schedule, searched, remark = result.schedule, result.describe(), ""
            else:
                schedule = program.schedule(self.topology, collective, models, self.options.reduce_bandwidth_gbps).schedule
                searched, remark = {}, program.note(schedule.collective)
            seconds = time.perf_counter() - begin
            if self.checks:
                check_schedule(schedule)
            timed = time_on(schedule, self.network, self.clock)
        except (ConfigError, SynthesisError, ReplayError) as error:
            return replace(self._blank(size, name), refusal=str(error))
        except VerificationError as error:
            if not is_added(name, SYNTHESIZERS):
                raise
            return replace(self._blank(size, name), refusal=str(error))
        figures = certify(schedule, ()) | searched | self._timed(size, timed.time_ns)
        figures |= {"made_by": figures["synthesizer"], "notes": "; ".join(filter(None, (*timed.notes, remark)))}
        figures |= {"seconds": seconds, "verified": self.checks, "synthesizer": name, "size_bytes": size}
        figures |= _printed([(printed.binary, printed.time_ns) for printed in timed.prints])
        figures |= {"packets_ns": None if timed.level is None else timed.level.time_ns}
        return CompareRow(**{key: figures[key] for key in CompareRow.__dataclass_fields__ if key in figures})

    def _native_row(self, size: int) -> CompareRow:
        """The fastest of ASTRA-sim's own algorithms on the clock."""
        try:
            collective = self._of_size(size)
        except ConfigError as error:
            return replace(self._blank(size, NATIVE), refusal=str(error))
        rate, begin = self.options.reduce_bandwidth_gbps, time.perf_counter()
        native = best_native_time(self.network, collective, self.clock, rate)
        seconds = time.perf_counter() - begin
        if native.best is None or native.time_ns is None:
            return replace(self._blank(size, NATIVE), refusal=native.refusal)
        figures = self._timed(size, native.best.time_ns) | _printed(native.prints)
        extra_columns: dict[str, Any] = {
            "root": collective.root,
            "made_by": native.best.name,
            "reduce_bandwidth_gbps": rate,
            "seconds": seconds,
        }
        extra_columns |= {"notes": f"{native.best.name}, of {native.tried} configurations"}
        columns = {key: figures[key] for key in CompareRow.__dataclass_fields__ if key in figures}
        return replace(self._blank(size, NATIVE), **columns, **extra_columns)


def _printed(prints: Iterable[tuple[Binary, int | None]]) -> dict[str, Any]:
    """What programs of ASTRA-sim print, as text, and as columns that the next release will not have."""
    known = [(binary, time_ns) for binary, time_ns in prints if time_ns is not None]
    return {
        "prints": "; ".join(f"{binary.label} ({binary.backend}): {time_ns:,} ns" for binary, time_ns in known),
        "stock_ns": next((time_ns for binary, time_ns in known if binary.branch is None), None),
        "congested_ns": next((time_ns for binary, time_ns in known if binary.backend.models_congestion), None),
    }


def compare(
    network: NetworkConfig | str | Path,
    collective: str,
    sizes: str | Iterable[int | str],
    synthesizers: Iterable[str] | None = None,
    root: int | None = None,
    **more: Any,
) -> Compared:
    """What synthesizers, and ASTRA-sim's own algorithms, take for a collective of some sizes on a network.

    Parameters
    ----------
    network
        The network, or the path of its file.
    sizes
        Bytes, or texts such as `64KiB`; or one text, such as `64KiB,1MiB` or `64KiB:1GiB`.
    synthesizers
        Their names; None for those that `auto` tries.
    root
        Root of a rooted collective; None for NPU 0.
    **more
        `backend`, `checks` and fields of `SearchOptions`.

    Returns
    -------
    compared
        Its `by_task` has a row for each size and synthesizer; `to_pandas` gives the table.

    Raises
    ------
    ConfigError, SynthesisError
        If the network, a size or a name is not what it should be.
    VerificationError
        If a schedule is illegal.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, compare
    >>> network = NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),))
    >>> compared = compare(network, "all-gather", ["64KiB"], ["ring", "direct"])
    >>> [row.synthesizer for row in compared.by_task]
    ['ring', 'direct', 'native']
    """
    request = Request.of(network, collective, **more)
    if "synthesizer" in more:
        raise ConfigError("synthesizer: found synthesizer and synthesizers, expected only synthesizers")
    names = tuple(auto_synthesizers() if synthesizers is None else synthesizers)
    if unknown := [name for name in names if name != AUTO and name not in SYNTHESIZERS]:
        raise ConfigError(f"synthesizers: found {quoted(unknown[0])}, expected names out of {', '.join((AUTO, *SYNTHESIZERS))}")
    if isinstance(sizes, str):
        sizes = parse_sizes(sizes)
    in_bytes = tuple(parse_size(size) if isinstance(size, str) else size for size in sizes)
    for size in in_bytes:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ConfigError(f"sizes: found {quoted(size)}, expected bytes from 1 on, or texts such as '64KiB'")
    if not in_bytes or not names:
        raise ConfigError(f"{'sizes' if names else 'synthesizers'}: found none, expected one or more")
    if collective not in COLLECTIVES:
        raise ConfigError(f"collective: found {quoted(collective)}, expected one of {', '.join(COLLECTIVES)}")
    check_sends(request.network, collective, replace(request.options, chunks_per_npu=1))
    topology = build_topology(request.network, may_forward=True)
    check_clock(topology, request.network, request.clock)
    make_collective(collective, topology.num_npus, max(in_bytes), 1, root, topology.endpoints)  # a wrong root is so for all sizes
    question = topology, collective, root, request.options, in_bytes, names, request.network
    comparison = Comparison(*question, clock=request.clock, checks=request.checks)
    return comparison.compared(mark_best(list(comparison.rows())))


def mark_best(rows: list[CompareRow]) -> list[CompareRow]:
    """The rows, with the fastest of each size marked."""
    best: dict[int, float] = {}
    for row in rows:
        if row.time_ns is not None:
            best[row.size_bytes] = min(row.time_ns, best.get(row.size_bytes, row.time_ns))
    return [row if row.time_ns is None else replace(row, is_best=row.time_ns == best[row.size_bytes]) for row in rows]
