"""`astra-tacos report` of a schedule: reads its directory, runs the predefined algorithms for comparison, and makes the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.cli.console import progress
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import read_json_object

if TYPE_CHECKING:
    from astra_tacos.report.compare_rows import CompareRow
    from astra_tacos.schedule.schedule import Schedule

COMPARISON_SECONDS = 10.0
"""Of estimated work, not of a clock, so that the same directory gives the same page on every machine."""
_MOST_SENDS = 50_000
_NUMBERS = ("predicted_ns", "bound_ns", "algorithm_bandwidth_gbps", "bus_bandwidth_gbps", "num_links", "size_bytes")
_OTHERS = ("network", "topology", "chunks_per_npu", "root", "num_chunks", "chunk_bytes", "synthesizer", "seed", "link_model")
_BOUNDS = ("bound", "bound_where", "bounds_ns", "chunked_bound_ns", "chunked_bound", "chunked_bound_where")
_NEEDED = (*_NUMBERS, *_OTHERS, *_BOUNDS, "efficiency", "optimal", "busiest_link", "idlest_link")
"""What of a certificate a page shows."""
_CHUNK_COUNTS = 6
"""About how many numbers of chunks a search tries."""


def page(directory: Path, title: str | None, with_comparison: bool) -> bytes:
    """The page of a directory that `synthesize --output` wrote.

    Raises
    ------
    ConfigError
        If it is damaged, or its parts do not fit one another.
    """
    from astra_tacos.report.html.synthesis import synthesis_page

    schedule = _load(directory)
    result = _result(directory / "result.json", schedule)
    rows, note = _comparison(schedule) if with_comparison else (None, "No comparison (--no-compare).")
    with progress("drawing"):
        return synthesis_page(schedule, result, rows, note, title)


def _load(directory: Path) -> Schedule:
    from astra_tacos.schedule.schedule import check_rows
    from astra_tacos.schedule.symmetric_schedule import load_rows

    schedule = load_rows(directory / "schedule.npz")
    check_rows(schedule)
    return schedule


def _result(path: Path, schedule: Schedule) -> dict[str, Any]:
    """The certificate, if it is one, and this schedule's."""
    try:
        result = read_json_object(path)
        known: list[tuple[str, object]] = [("num_sends", schedule.num_sends)]
        known += [("predicted_ns", max(schedule.collective_time_ns, 1))]
        known += [("collective", schedule.collective.name), ("num_npus", schedule.topology.num_endpoints)]
        wrong = [(name, result[name], value) for name, value in known if result[name] != value]
        missing = [name for name in _NEEDED if name not in result]
        missing += [name for name in _NUMBERS if not isinstance(result.get(name), int | float)]
        missing += ["efficiency"] * (not isinstance(result.get("efficiency"), int | float | None))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not the certificate of a schedule ({' '.join(str(error).split())})") from None
    if missing:
        raise ConfigError(f"{path}: not the certificate of a schedule (no {missing[0]!r})")
    if wrong:
        name, found, expected = wrong[0]
        raise ConfigError(f"{path}: {name} is {found}, the schedule beside it has {expected}: they belong to different runs")
    return dict(result)


def _comparison(schedule: Schedule) -> tuple[Sequence[CompareRow] | None, str]:
    """What the predefined algorithms make of the same collective, and how that was found out, or why not."""
    from astra_tacos.collective import cut_into
    from astra_tacos.solver.comparison import Comparison
    from astra_tacos.synthesizer import SYNTHESIZERS, auto_synthesizers
    from astra_tacos.synthesizer.search.search_options import SearchOptions
    from astra_tacos.synthesizer.work import SENDS_PER_SECOND

    topology, collective, timing = schedule.topology, schedule.collective, schedule.timing
    names = tuple(name for name in auto_synthesizers() if not SYNTHESIZERS[name].is_random)
    whole = cut_into(collective, 1)
    able = [name for name in names if SYNTHESIZERS[name].why_not(topology, whole) is None]
    guess = sum(SYNTHESIZERS[name].work(topology, whole) for name in able) * _CHUNK_COUNTS / SENDS_PER_SECOND
    if guess > COMPARISON_SECONDS and whole.least_sends > _MOST_SENDS:
        text = f"Left out: {len(able)} algorithms would take about {guess / _CHUNK_COUNTS:,.0f} s or more on this network, "
        return None, f"{text}and a page has {COMPARISON_SECONDS:g}. 'astra-tacos compare' makes this comparison."
    options = SearchOptions(
        chunks_per_npu="auto",
        max_sends=_MOST_SENDS,
        link_model=timing.link_model,
        reduce_bandwidth_gbps=timing.reduce_bandwidth_gbps,
        trials=1,
        threads=1,
    )
    rows: list[CompareRow] = []
    with progress("comparing") as on_progress:
        on_progress(0, len(names))
        for row in Comparison(topology, collective.name, collective.root, options, (collective.size_bytes,), names).rows():
            rows.append(row)
            on_progress(len(rows), len(names))
    note = (
        "The same collective on the same network by the predefined algorithms, each with its best number of chunks "
        f"(up to {_MOST_SENDS:,} sends), verified and timed in the same way. The bound is that of any algorithm."
    )
    return rows, note
