"""Which kernels a task calls, so that they are compiled ahead, on all cores, when they are not yet.

What is missing here is compiled when it is called, on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astra_tacos.collective.collective import Collective
    from astra_tacos.network.topology import Topology
    from astra_tacos.synthesizer.search.search_options import SearchOptions

OnProgress = Callable[[int, int], None]
Progress = Callable[[str], AbstractContextManager[OnProgress]]
"""Entered with what is being done; gives a function that takes how much of it is done, and how much there is."""


@contextmanager
def silent(what: str) -> Iterator[OnProgress]:
    """Show nothing."""
    yield lambda done, total: None


_MATCHING = "astra_tacos.synthesizer.matching._matching_kernels"
_TREES = "astra_tacos.synthesizer.parts._tree_kernels"
_ROUTING = "astra_tacos.synthesizer.routing"
_TWO_LEVEL = "astra_tacos.synthesizer.parts._two_level_kernels"
_SYMMETRIC = "astra_tacos.synthesizer.symmetric._symmetric_kernels"
_SCAN = "astra_tacos.run.trace._scan_kernels"
_LINT = "astra_tacos.workload.linter._order_kernels"
_PLAN = "astra_tacos.planner._order_kernels"
_LAYOUT = "astra_tacos.replayer._run_layout_kernels"
_PROGRAM = "astra_tacos.verifier._oracle_kernels"
_SORT = "astra_tacos.support.kernels.shared:topological_order"

READING = (
    *(f"{_SCAN}:{name}" for name in ("count_nodes", "scan_nodes", "read_lists")),
    "astra_tacos.run.trace._row_kernels:ids_to_rows",
)
"""Traces, from files."""
NODES = (f"{_SCAN}:find_nodes",)
"""Single nodes of traces, as for their names."""
INSPECTING = (*READING, "astra_tacos.report._path_kernels:longest_chains")
"""A summary of traces."""
WRITING = ("astra_tacos.run.trace._row_kernels:encode_nodes",)
"""Traces, to files."""
CHECKING = (
    "astra_tacos.verifier._oracle_kernels:follow_contributions",
    "astra_tacos.replayer._schedule_replay_kernels:replay_operations",
)
"""A schedule: the oracle and the replay."""
_BOUND = "astra_tacos.bounds._bound_kernels:smallest_times"
CERTIFYING = (_BOUND, "astra_tacos.bounds._bound_kernels:max_flow", "astra_tacos.schedule._settle_kernels:earliest_times")
"""A schedule's bounds and exact time."""
SEARCHING = (
    f"{_ROUTING}._routing_kernels:shortest_paths",
    f"{_ROUTING}._routing_kernels:merge",
    "astra_tacos.synthesizer.parts._dispatch_kernels:start_order",
    "astra_tacos.schedule._settle_kernels:earliest_times",
    _BOUND,
)
"""Schedules, of any pattern on any network."""
SHARED = (
    f"{_MATCHING}:match",
    f"{_TREES}:walk",
    f"{_ROUTING}._tree_kernels:grow",
    "astra_tacos.bounds._bound_kernels:max_flow",
)
"""Schedules of collectives in which chunks go to several NPUs."""
ROOTED = (f"{_TREES}:reaches_all", f"{_TREES}:pack")
"""Schedules of collectives of which one NPU has or gets everything."""
_EXACT_TIME = "astra_tacos.schedule._settle_kernels:earliest_times"
SYMMETRIC_TREES = (f"{_SYMMETRIC}:grow_trees", f"{_SYMMETRIC}:earliest_starts", f"{_SYMMETRIC}:dispatch", _EXACT_TIME)
SYMMETRIC_PATHS = (f"{_SYMMETRIC}:order_hops", f"{_SYMMETRIC}:earliest_starts", _EXACT_TIME)
SYMMETRIC = (*SYMMETRIC_TREES, *SYMMETRIC_PATHS)
"""Schedules in which all NPUs do the same: of chunks that go to all others, and of chunks that go to one."""
PERSONALISED = (f"{_ROUTING}._path_kernels:route", f"{_ROUTING}._path_kernels:sends_of_paths")
"""Schedules of collectives in which every chunk has one target."""
UNEQUAL = (f"{_TWO_LEVEL}:decompose", f"{_TWO_LEVEL}:lay_pieces")
"""Schedules of collectives whose parts have sizes of their own."""
OVERLAPPING = ("astra_tacos.synthesizer.parts._overlap_kernels:hops_to_come",)
"""All-Reduces without switches."""
ALL_SEARCHING = (*SEARCHING, *SHARED, *PERSONALISED, *OVERLAPPING, *SYMMETRIC)
"""Schedules of the patterns that workloads have."""
REPLAYING = (
    "astra_tacos.replayer._packet_kernels:advance",
    f"{_LAYOUT}:link_children",
    f"{_LAYOUT}:order_nodes",
    f"{_LAYOUT}:number_messages",
)
"""A run, on any network model."""
PROGRAMS = (f"{_PROGRAM}:topological_order", f"{_PROGRAM}:comes_before", f"{_PROGRAM}:conflicts", CHECKING[0])
"""What ranks' traces or XML programs compute."""
LINTING = (
    *(f"{_LINT}:{name}" for name in ("transpose", "rank_orders", "unordered_pairs", "merged_edges")),
    "astra_tacos.run.trace._row_kernels:precedes",
    _SORT,
    *READING,
)
PLANNING = (
    *(f"{_PLAN}:{name}" for name in ("issue_order", "levels", "rough_run")),
    "astra_tacos.run.trace._row_kernels:precedes",
    _SORT,
    *READING,
    *NODES,
    *WRITING,
    *REPLAYING,
    *PROGRAMS,
)
REPAIRING = (*LINTING, *(f"{_PLAN}:{name}" for name in ("issue_order", "levels", "rough_run")), *NODES, *REPLAYING)
"""A broken run: the linter, an order of collectives, the replay."""


def searching(topology: Topology, collective: Collective) -> tuple[str, ...]:
    """What a search for a schedule calls."""
    from astra_tacos.synthesizer.algorithms.symmetric import refuse_asymmetric

    names = (*SEARCHING, *(PERSONALISED if collective.is_personalised else SHARED))
    if collective.root is not None and not collective.is_personalised:
        names += ROOTED
    if collective.part_bytes is not None:
        names += UNEQUAL
    if not topology.has_switches and collective.num_phases == 2:
        names += OVERLAPPING
    if collective.root is None and refuse_asymmetric(topology, collective) is None:
        names += SYMMETRIC_PATHS if collective.is_personalised else SYMMETRIC_TREES
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
        return SYMMETRIC_PATHS if collective.is_personalised else SYMMETRIC_TREES
    return ()


def compile_ahead(*names: str, later: Iterable[str] = (), progress: Progress = silent) -> None:
    """Have kernels compiled that are not yet, with a line that says so; those for later while the caller goes on."""
    from astra_tacos.support.kernels.first_use import compile_kernels, missing_kernels

    missing = missing_kernels(dict.fromkeys(names))
    following = missing_kernels(dict.fromkeys(name for name in later if name not in names))
    if missing:
        with progress("compiling kernels, first use only") as report:
            compile_kernels(missing, report, later=following)
    elif following:
        compile_kernels([], later=following)
