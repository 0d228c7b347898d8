"""Pages of what was written: finds out what a directory holds, reads it, and makes its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tacos.run.directory import Given, find_run, holds_run
from astra_tacos.solver.first_use import LINTING, READING, REPLAYING, Progress, collected, compile_ahead, silent
from astra_tacos.study.reporter.drawn import load_schedule
from astra_tacos.support.errors import ConfigError, ReplayError
from astra_tacos.support.temporaries import scratch_directory
from astra_tacos.workload.path_kind import Kind, refuse_lockstep

if TYPE_CHECKING:
    from astra_tacos.pages.compare_rows import CompareRow
    from astra_tacos.run.directory import CompactInputs
    from astra_tacos.run.run import RunInputs
    from astra_tacos.schedule.schedule import Schedule

COMPARISON_SECONDS = 10.0
"""Of estimated work, not of a clock, so that the same directory gives the same page on every machine."""
_MOST_SENDS = 50_000
"""Of each schedule of the comparison."""
_CHUNK_COUNTS = 6
"""About how many numbers of chunks a search tries."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants of a page.

    Parameters
    ----------
    title
        Heading; None for that of the kind.
    where
        Expression that must be true for the points of a sweep; None for all points.
    """

    title: str | None = None
    with_comparison: bool = True
    where: str | None = None
    progress: Progress = silent


def _of_schedule(directory: Path, wanted: Wanted) -> bytes:
    from astra_tacos.pages.certificate_file import read_certificate
    from astra_tacos.pages.html.synthesis import synthesis_page

    schedule = load_schedule(Kind.RUN_DIRECTORY, directory)
    result = read_certificate(directory / "result.json", schedule)
    rows, note = None, "No comparison (--no-compare)."
    if wanted.with_comparison:
        rows, note = _comparison(schedule, result.get("backend"), wanted.progress)
    with wanted.progress("drawing"):
        return synthesis_page(schedule, result, rows, note, wanted.title)


def _of_run(directory: Path, wanted: Wanted) -> bytes:
    from astra_tacos.pages.html.run import PLAN_FILE, plan_page, replay_page

    return (plan_page if (directory / PLAN_FILE).is_file() else replay_page)(directory, wanted.title)


def _of_comparison(directory: Path, wanted: Wanted) -> bytes:
    from astra_tacos.pages.compare_rows import read_rows
    from astra_tacos.pages.html.compare import compare_page

    return compare_page(read_rows(directory), wanted.title)


def _of_sweep(directory: Path, wanted: Wanted) -> bytes:
    from astra_tacos.pages.html.sweep import render_sweep
    from astra_tacos.study.sweep.store import TABLE_FILE
    from astra_tacos.study.sweep.table import read_sweep

    return render_sweep(read_sweep(directory), TABLE_FILE, wanted.title, wanted.where)


Page = Callable[[Path, Wanted], bytes]


@dataclass(frozen=True, slots=True)
class PageKind:
    """A kind of directory that there is a page of.

    Parameters
    ----------
    markers
        Files that tell: a directory is of this kind if it has all of them.
    """

    command: str
    markers: tuple[str, ...]
    make: Page


SWEEP = "sweep"
PAGES = {
    "schedule": PageKind("synthesize --output", ("result.json", "schedule.npz"), _of_schedule),
    "plan": PageKind("plan --output", ("plan.json", "replay.npz"), _of_run),
    "replay": PageKind("replay --output", ("replay.json", "replay.npz"), _of_run),
    SWEEP: PageKind("sweep --output", ("sweep.parquet",), _of_sweep),
    "comparison": PageKind("compare --output", ("compare.json",), _of_comparison),
}
"""Kinds of directories; the first that fits counts."""


def _replayed(inputs: RunInputs | CompactInputs) -> Page:
    """What makes the page of a run that nothing was replayed of yet: it is replayed first."""

    def page(directory: Path, wanted: Wanted) -> bytes:
        from astra_tacos.network.network_config import read_network
        from astra_tacos.run.directory import CompactInputs
        from astra_tacos.workload.linted_replay import ReplayOutputs, replay_compact, replay_embedded

        progress = wanted.progress
        compile_ahead(*READING, *REPLAYING, *LINTING, progress=progress)
        with scratch_directory() as scratch:
            outputs = ReplayOutputs(directory=scratch / "replay")
            if isinstance(inputs, CompactInputs):
                replayed = replay_compact(inputs.folder, read_network(inputs.network), None, outputs, progress, {}, {})
            else:
                replayed = replay_embedded(inputs, None, outputs, 1, progress, {}, {})
            if replayed.reason is not None:
                raise ReplayError(f"{directory}: {replayed.reason}")
            replayed.write(progress)
            return _of_run(scratch / "replay", wanted)

    return page


def find_page(path: Path, network: Path | None, typed: str | None) -> tuple[str, Path, Page]:
    """What a directory is, by the files in it, the directory itself if `path` is one of these, and what makes its page.

    A run is replayed for its page, on `network` if one is given. `typed` is as `find_run` takes it.

    Raises
    ------
    ConfigError
        If it is nothing that there is a page of.
    """
    if path.is_file() and any(path.name in kind.markers for kind in PAGES.values()):
        path = path.parent
    if not path.is_dir():
        raise ConfigError(
            f"{path}: {'is no directory' if path.exists() else 'does not exist'}, expected a directory that a command wrote"
        )
    for name, kind in PAGES.items():
        if network is None and all((path / marker).is_file() for marker in kind.markers):
            return name, path, kind.make
    refuse_lockstep(path)
    if holds_run(path):
        return "replay", path, _replayed(find_run(path, typed, Given(network=network)))
    expected = "; ".join(f"{kind.command} ({', '.join(kind.markers)})" for kind in PAGES.values())
    raise ConfigError(f"{path}: found no output of a command, expected the output of one of these commands: {expected}")


def _comparison(schedule: Schedule, backend: object, progress: Progress) -> tuple[Sequence[CompareRow] | None, str]:
    """What the predefined algorithms make of the same collective on its clock, and how that was found out, or why not."""
    from astra_tacos.collective import cut_into
    from astra_tacos.export.astra_sim_network import astra_sim_network
    from astra_tacos.network.network_config import NetworkConfig
    from astra_tacos.run.backend import BACKENDS, PACKET, backend_of_model
    from astra_tacos.solver.comparison import Comparison
    from astra_tacos.synthesizer import SYNTHESIZERS, auto_synthesizers
    from astra_tacos.synthesizer.search.search_options import SearchOptions
    from astra_tacos.synthesizer.work import SENDS_PER_SECOND

    topology, collective, timing = schedule.topology, schedule.collective, schedule.timing
    if backend == PACKET.name:
        return None, f"Left out: packets take long to replay. 'astra-tacos compare --backend {PACKET}' makes this comparison."
    clock = BACKENDS.get(str(backend)) or backend_of_model(timing.link_model)
    forwards = bool(topology.forwarding)
    network = NetworkConfig(topology.name, ()) if forwards else astra_sim_network(topology, timing.link_model, clock).to_config()
    names = tuple(name for name in auto_synthesizers() if not SYNTHESIZERS[name].is_random)
    uncut = cut_into(collective, 1)
    able = [name for name in names if SYNTHESIZERS[name].why_not(topology, uncut) is None]
    guess = sum(SYNTHESIZERS[name].work(topology, uncut) for name in able) * _CHUNK_COUNTS / SENDS_PER_SECOND
    if guess > COMPARISON_SECONDS and uncut.least_sends > _MOST_SENDS:
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
    arguments = topology, collective.name, collective.root, options, (collective.size_bytes,), names, network
    comparison = Comparison(*arguments, clock=clock, with_native=False)
    rows = collected("comparing", comparison.rows(), len(names), progress)
    note = (
        "The same collective on the same network by the predefined algorithms, each with its best number of chunks "
        f"(up to {_MOST_SENDS:,} sends), verified and timed in the same way. Times are on {clock}."
    )
    return rows, note
