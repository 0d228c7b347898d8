"""Plans of compact runs, their figures and files: one collective for each kind of group, one replay for each kind of rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.bounds.certificate import efficiency_of
from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.export.run_directory import SCRIPT
from astra_tacos.network.network_config import describe_dimensions
from astra_tacos.network.network_files import NETWORK
from astra_tacos.planner.compact.bound import compact_bound
from astra_tacos.planner.compact.cases import traces_of
from astra_tacos.planner.compact.expanded import write_expanded
from astra_tacos.planner.compact.search import Candidate, Search
from astra_tacos.planner.plan_result import DEPRECATED
from astra_tacos.planner.run_bound import RunBound, share_kept
from astra_tacos.planner.run_files import COLLECTIVE, PER_NODE, PLAN_FILE
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend, binaries_for, choose_backend
from astra_tacos.run.compact_run import why_not_compact
from astra_tacos.run.recording import REPLAY_FILE, record_run, save_recording
from astra_tacos.run.run import GROUPS, MEMORY, RANKS, SYSTEM, Run
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.solver.clock import Printed
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError
from astra_tacos.support.files import check_replaceable, output_place, replaced_directory, write_json
from astra_tacos.support.units import bytes_per_ns

EXPANDED, MOST_EXPANDED = "ordinary", 1024
"""The ordinary run beside a compact one, and the most ranks of such a run."""
_FILES = {PLAN_FILE, REPLAY_FILE, RANKS, SYSTEM, NETWORK, MEMORY, PER_NODE, COLLECTIVE, EXPANDED, "classes"}


@dataclass(frozen=True, slots=True, eq=False)
class CompactPlan:
    """The plan of a compact run; times in ns.

    Parameters
    ----------
    clock, baseline
        The network model that all times are of, and the native algorithm of the run before, None for the run as it was.
    before_ns, best_native_ns, time_ns
        When the run ends as it was, with the best of the native algorithms that treat ranks alike, and as planned.
    exposed_before_ns, exposed_ns
        The largest exposed communication of a rank, before and of the planned run.
    bound
        What the run takes at least.
    prints
        What programs of ASTRA-sim print for the planned run, and for the best native one.
    notes
        What could not be replayed, and why.
    """

    clock: Backend
    baseline: str | None
    num_ranks: int
    num_classes: int
    before_ns: int | None
    best_native_ns: int | None
    native_name: str
    num_tried: int
    time_ns: int
    exposed_before_ns: int | None
    exposed_ns: int
    bound: RunBound
    cases: tuple[dict[str, Any], ...]
    prints: tuple[Printed, ...]
    notes: tuple[str, ...]
    moved_ns: None = None
    placement: None = None
    """As in a `PlanResult`, which may also move ranks and communication."""

    @property
    def bound_ns(self) -> int:
        """What the run takes at least."""
        return self.bound.end_ns

    @property
    def num_collectives(self) -> int:
        """Collectives of all ranks."""
        return sum(case["count"] for case in self.cases)

    @property
    def why_no_gain(self) -> str:
        """Why the planned run ends no earlier than the best native one; "" if it does."""
        is_gain = self.best_native_ns is None or self.time_ns < self.best_native_ns
        return "" if is_gain else "no gain: native collectives are as fast (the run of `export --format run` may gain)"

    @property
    def speed_up(self) -> float | None:
        """The end of the run before over that of the planned one."""
        return None if self.before_ns is None else self.before_ns / max(self.time_ns, 1)

    @property
    def speed_up_over_best_native(self) -> float | None:
        """The end of the best native run over that of the planned one."""
        return None if self.best_native_ns is None else self.best_native_ns / max(self.time_ns, 1)

    def to_json(self) -> dict[str, Any]:
        """One object for `plan.json`, with the keys of other plans where they mean the same."""
        own: dict[str, Any] = {"backend": self.clock.name, "num_ranks": self.num_ranks, "num_classes": self.num_classes}
        own |= {"time_ns": self.time_ns, "before_ns": self.before_ns, "best_native_ns": self.best_native_ns}
        own |= {"best_native": {"name": self.native_name, "end_ns": self.best_native_ns} if self.native_name else None}
        own |= {"speed_up": self.speed_up, "speed_up_over_best_native": self.speed_up_over_best_native}
        own |= self.bound.to_json() | {"efficiency": efficiency_of(self.time_ns, self.bound_ns)}
        own |= {"exposed_before_ns": self.exposed_before_ns, "exposed_ns": self.exposed_ns}
        own |= {"prints": [each.to_json() for each in self.prints], "num_collectives": self.num_collectives}
        own |= {"after_ns": self.time_ns, "exposed_after_ns": self.exposed_ns, "deprecated": DEPRECATED}
        return own | {"cases": list(self.cases), "notes": list(self.notes)}


@dataclass(frozen=True, slots=True, eq=False)
class PlannedClasses:
    """A planned compact run: its figures, the run, that before, and the traces of schedules by the prefixes of their files."""

    result: CompactPlan
    best: Candidate
    before: Candidate | None
    traces: dict[str, SymmetricTraces]

    def write(self, output: Path, folder: Path) -> None:
        """Write the planned run, replay what was written, and write the ordinary run beside it if it has few ranks.

        Raises
        ------
        ConfigError
            If something else is there.
        ReplayError
            If the written run ends at another time.
        """
        check_output(output, folder)
        with replaced_directory(output) as target:
            again = self.best.run.write(target)
            outcome = replay_run(again, self.result.clock)
            if outcome.end_ns != self.result.time_ns:
                raise ReplayError(f"{output}: DEFECT of astra_tacos, please report it: the written run has another end")
            if self.best.run.lattice.num_ranks <= MOST_EXPANDED:
                (target / EXPANDED).mkdir()
                write_expanded(again, self.traces, target / EXPANDED)
            recording = record_run(again, outcome, None if self.before is None else self.before.outcome)
            save_recording(recording, target / REPLAY_FILE)
            write_json(target / PLAN_FILE, self.result.to_json())


def check_output(output: Path, folder: Path) -> None:
    """Check that the plan of the compact run of a folder may be written.

    Raises
    ------
    ConfigError
        If there is anything but a plan.
    """
    inside = [f"{EXPANDED}/{name}" for name in (GROUPS, SYSTEM, NETWORK, MEMORY, PER_NODE, SCRIPT)]
    check_replaceable(output, "plan of astra_tacos", lambda names: names <= _FILES and (not names or PLAN_FILE in names), inside)
    if output_place(output) == folder.resolve():
        raise ConfigError(f"{output}: is the run itself, expected another directory")


def plan_compact(
    run: Run,
    backend: Backend | str | None = None,
    baseline: str | None = None,
    quick: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> PlannedClasses:
    """Plan a compact run: the best native algorithms, and a symmetric schedule for each case that ends the run earlier.

    Parameters
    ----------
    backend
        The clock: the network model that times all runs, or its name; None takes the one with queues.
    baseline
        Native algorithm of the run before; None takes the run as it is.
    on_progress
        Called with how many runs were replayed, and about how many there are.

    Raises
    ------
    ConfigError
        If an input is not what it should be.
    ReplayError
        If no run can be replayed.
    """
    if why := why_not_compact(run):
        raise ConfigError(f"{run.network.source}: {why}")
    model = choose_backend(backend)
    search = Search(run, model, baseline, on_progress)
    native = search.best_native(quick)
    # Also for the other link model: a run may be refused whose events have no one order.
    link_models = sorted(LINK_MODELS, key=lambda each: each != model.link_model)
    best = search.choose(native, [search.synthesize(each) for each in link_models])
    if search.before is not None and search.before.is_before(best):
        search.notes.append(f"keep the run as it is: it ends at {search.before.end_ns:,} ns, before this plan")
    traces = traces_of(run, search.found, best.schedules)
    return PlannedClasses(_result(search, best, native), best, search.before, traces)


def _result(search: Search, best: Candidate, native: Candidate | None) -> CompactPlan:
    run, found, before = search.run, search.found, search.before
    spent_before, spent_after = None if before is None else search.spent(before), search.spent(best)
    trace = run.workload
    alike = run.lattice.num_ranks // trace.num_ranks
    least = [case.least_ns() for case in found.cases]
    alone_ns = np.array([*(each or 0 for each in least), 0], np.int64)[found.of_row]
    rows = []
    for number, (case, count) in enumerate(zip(found.cases, found.counts, strict=True)):
        schedule = best.schedules.get(number)
        algorithm = "native " + ", ".join(dict.fromkeys(best.run.system.native.get(case.key, ())))
        classes = len(np.unique(trace.rank[found.of_row == number]))
        rows.append(
            {
                "collective": case.collective,
                "size_bytes": case.size_bytes,
                "members": case.members,
                "network": None if case.dimensions is None else describe_dimensions(case.dimensions),
                "groups": classes * alike // case.members,
                "count": count * alike // case.members,
                "algorithm": algorithm if schedule is None else schedule.synthesizer,
                "chunks_per_npu": 0 if schedule is None else schedule.task.chunks_per_npu,
                "reason": "",
                "predicted_ns": None if schedule is None else schedule.collective_time_ns,
                "bound_ns": _less_truncated(search, number, least[number]),
                "exact": True,
                "was_cut_off": False,
                "spent_before_ns": None if spent_before is None else spent_before[number],
                "spent_after_ns": spent_after[number],
                "share": round(spent_after[number] / max(best.end_ns, 1), 6),
            }
        )
    configuration = None if native is None else native.configuration
    return CompactPlan(
        clock=search.backend,
        baseline=search.baseline,
        num_ranks=run.lattice.num_ranks,
        num_classes=run.workload.num_ranks,
        before_ns=None if before is None else before.end_ns,
        best_native_ns=None if native is None else native.end_ns,
        native_name="" if configuration is None else configuration.describe(found.patterns),
        num_tried=search.num_done,
        time_ns=best.end_ns,
        exposed_before_ns=None if before is None else int(before.outcome.exposed_comm_ns.max()),
        exposed_ns=int(best.outcome.exposed_comm_ns.max()),
        bound=compact_bound(run, alone_ns, search.backend),
        cases=tuple(sorted(rows, key=lambda row: -row["spent_after_ns"])),
        prints=_prints(best, native),
        notes=tuple(search.notes),
    )


def _less_truncated(search: Search, number: int, least_ns: int | None) -> int | None:
    """The bound of a case, less what truncated messages may save; None where links carry any number of messages."""
    if least_ns is None or not search.backend.models_congestion:
        return None
    case, dimensions = search.found.cases[number], search.run.network.dimensions
    rate = float(bytes_per_ns(np.array([each.bandwidth_gibps for each in dimensions])).max())
    return int(least_ns * share_kept(case.collective, case.size_bytes, case.members, rate))


def _prints(best: Candidate, native: Candidate | None) -> tuple[Printed, ...]:
    """What the programs of ASTRA-sim that run the network print for the planned run and for the best native one."""
    printed = []
    for binary in binaries_for(best.run.network):
        ends: list[int | None] = []
        for candidate in (best, native):
            try:
                ends.append(None if candidate is None else candidate.on(binary.backend).end_ns)
            except AstraTacosError:
                ends.append(None)  # ranks of a class may differ there
        printed.append(Printed(binary, *ends))
    return tuple(printed)
