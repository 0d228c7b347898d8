"""Which kernels a task calls, so that they are compiled ahead, on all cores, when they are not yet.

A name is that of a module, for all of its kernels, or of one of them (`find`), where tasks do not need the others.

What is missing here is compiled when it is called, on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from astra_tacos.collective.collective import Collective
    from astra_tacos.network.topology import Topology
    from astra_tacos.synthesizer.search.search_options import SearchOptions

T = TypeVar("T")
OnProgress = Callable[[int, int], None]
QUIET: OnProgress = lambda done, total: None  # noqa: E731
Progress = Callable[[str], AbstractContextManager[OnProgress]]
"""Entered with what is being done; gives a function that takes how much of it is done, and how much there is."""


@contextmanager
def silent(purpose: str) -> Iterator[OnProgress]:
    """Show nothing."""
    yield lambda done, total: None


def collected(what: str, rows: Iterable[T], total: int, progress: Progress = silent) -> list[T]:
    """All rows, with progress at each of them."""
    collected_rows: list[T] = []
    with progress(what) as on_progress:
        on_progress(0, total)
        for row in rows:
            collected_rows.append(row)
            on_progress(min(len(collected_rows), total), total)
    return collected_rows


_ROUTING = "astra_tacos.synthesizer.routing"
_ALGORITHMS = "astra_tacos.synthesizer.algorithms"
_PARTS = "astra_tacos.synthesizer.parts"
_GRAPHS = "astra_tacos.support._graph_kernels"
_BOUND = ("astra_tacos.bounds._bound_kernels", _GRAPHS)
_EXACT_TIME = "astra_tacos.schedule._settle_kernels"
_ROWS = "astra_tacos.run.trace._row_kernels"
_ORACLE = "astra_tacos.verifier._oracle_kernels"
_ORDER = "astra_tacos.run.graph._order_kernels"
_SORT = "astra_tacos.support.kernels.shared"

READING = ("astra_tacos.run.trace._scan_kernels", _ROWS)
"""Traces, from files."""
INSPECTING = (*READING, "astra_tacos.pages._path_kernels")
"""A summary of traces."""
WRITING = (_ROWS,)
"""Traces, to files."""
CONNECTING = (f"{_GRAPHS}:shortest_ways",)
"""A topology: whether all NPUs reach one another."""
CHECKING = (f"{_ORACLE}:follow_contributions", "astra_tacos.replayer._schedule_replay_kernels")
"""A schedule: the oracle and the replay."""
CERTIFYING = (*_BOUND, _EXACT_TIME)
"""A schedule's bounds and exact time."""
SEARCHING = (f"{_ROUTING}._routing_kernels", f"{_PARTS}._dispatch_kernels", _EXACT_TIME, *_BOUND)
"""Schedules, of any pattern on any network."""
SHARED = (
    "astra_tacos.synthesizer.matching._matching_kernels",
    "astra_tacos.synthesizer.columns._arborescence_kernels",
    f"{_PARTS}._tree_kernels",
    f"{_ROUTING}._tree_kernels",
)
"""Schedules of collectives in which chunks go to several NPUs."""
ROOTED = (f"{_ALGORITHMS}._branching_kernels",)
"""Schedules of collectives of which one NPU has or gets everything."""
SYMMETRIC = ("astra_tacos.synthesizer.symmetric._symmetric_kernels", _EXACT_TIME)
"""Schedules in which all NPUs do the same."""
PERSONALISED = (f"{_ROUTING}._path_kernels",)
"""Schedules of collectives in which every chunk has one target."""
UNEQUAL = (f"{_ALGORITHMS}._permutation_kernels",)
"""Schedules of collectives whose parts have sizes of their own."""
ALL_SEARCHING = (*SEARCHING, *SHARED, *PERSONALISED, *SYMMETRIC)
"""Schedules of the patterns that workloads have."""
REPLAYING = ("astra_tacos.replayer._packet_kernels", "astra_tacos.replayer._run_layout_kernels", _GRAPHS)
"""A run, on any network model."""
PROGRAMS = (_ORACLE,)
"""What ranks' traces or XML programs compute."""
LINTING = ("astra_tacos.rules._order_kernels", _SORT, *READING)
PLANNING = (_ORDER, _SORT, *READING, *REPLAYING, *PROGRAMS)
REPAIRING = (*LINTING, _ORDER, *REPLAYING)
"""A broken run: the linter, an order of collectives, the replay."""


def searching(topology: Topology, collective: Collective) -> tuple[str, ...]:
    """What a search for a schedule calls."""
    from astra_tacos.synthesizer.algorithms.symmetric import refuse_asymmetric

    names = (*SEARCHING, *(PERSONALISED if collective.is_personalised else SHARED))
    if collective.part_bytes is not None:
        names += UNEQUAL
    if collective.root is not None and not collective.is_personalised:
        names += ROOTED
    if collective.root is None and refuse_asymmetric(topology, collective) is None:
        names += SYMMETRIC
    return names


def finding_optimum(topology: Topology, collective: Collective, options: SearchOptions) -> tuple[str, ...]:
    """What a synthesizer calls that may know an optimum, so that there is no search; nothing if there is none.

    Parameters
    ----------
    topology, collective, options
        As `search` takes them.
    """
    from astra_tacos.synthesizer import SYNTHESIZERS

    entries = [SYNTHESIZERS[name] for name in options.synthesizers]
    if any(entry.optimum is not None and entry.why_not(topology, collective) is None for entry in entries):
        return (*SYMMETRIC, *_BOUND)
    return ()


def compile_ahead(*names: str, later: Iterable[str] = (), progress: Progress = silent) -> None:
    """Compile the kernels of modules that are not compiled yet, and print a line; kernels for later compile in the background."""
    from astra_tacos.support.kernels.first_use import compile_kernels, missing_kernels

    missing = missing_kernels(dict.fromkeys(names))
    following = missing_kernels(dict.fromkeys(name for name in later if name not in names))
    if missing:
        with progress("compiling kernels, first use only") as report:
            compile_kernels(missing, report, later=following)
    elif following:
        compile_kernels([], later=following)
