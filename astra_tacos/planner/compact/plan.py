"""Plans of compact runs, their figures and files: one collective for each kind of group, one replay for each kind of rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.network.network_config import describe_dimensions
from astra_tacos.planner.best_native import BestNative
from astra_tacos.planner.compact.bound import compact_bound
from astra_tacos.planner.compact.cases import CompactCase, group_at, traces_of
from astra_tacos.planner.compact.expanded import write_expanded
from astra_tacos.planner.compact.search import Candidate, Search
from astra_tacos.planner.plan_result import CaseFigures, PlanResult, find_prints
from astra_tacos.planner.run_bound import less_truncated
from astra_tacos.planner.run_files import ORDINARY, PLAN_FILE
from astra_tacos.planner.workload import MessageCounts
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.compact_run import why_not_compact
from astra_tacos.run.critical_path import summarize_path
from astra_tacos.run.recording import REPLAY_FILE, record_run, save_recording
from astra_tacos.run.run import Run
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import write_json

MOST_EXPANDED = 1024
"""Most ranks of an ordinary run beside a compact one."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedClasses:
    """A planned compact run: its figures, the run, that before, and the traces of schedules by the prefixes of their files."""

    result: PlanResult
    best: Candidate
    before: Candidate | None
    traces: dict[str, SymmetricTraces]

    def write(self, folder: Path) -> PlanResult:
        """Write the planned run into an empty directory, and the ordinary run beside it if it has few ranks.

        Returns the result with the critical paths.

        Raises
        ------
        VerificationError
            If the run that is read is another one: a defect of this package.
        """
        written = self.best.run.write(folder)
        if self.best.run.lattice.num_ranks <= MOST_EXPANDED:
            (folder / ORDINARY).mkdir()
            write_expanded(written, self.traces, folder / ORDINARY)
        recording = record_run(written, self.best.after, None if self.before is None else self.before.after)
        save_recording(recording, folder / REPLAY_FILE)
        path_before = None if recording.before is None else summarize_path(recording, recording.before)
        result = replace(self.result, path_before=path_before, path_after=summarize_path(recording, recording.after))
        write_json(folder / PLAN_FILE, result.to_json())
        return result


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
    native, natives = search.best_native(quick)
    # Also for the other link model: a run may be refused whose events have no one order.
    link_models = sorted(LINK_MODELS, key=lambda each: each != model.link_model)
    best = search.choose(native, natives, [search.synthesize(each) for each in link_models])
    if search.before is not None and search.before.is_before(best):
        search.notes.append(f"keep the run as it is: it ends at {search.before.end_ns:,} ns, before this plan")
    traces = traces_of(run, search.found, best.schedules)
    return PlannedClasses(_result(search, best, native, natives), best, search.before, traces)


def _result(search: Search, best: Candidate, native: Candidate | None, natives: BestNative) -> PlanResult:
    run, found, before = search.run, search.found, search.before
    cases = _case_figures(search, best)
    least = [case.least_ns() for case in found.cases]
    native_run = None if native is None or natives.best is None else (native.run, native.end_ns)
    alone_ns = np.array([*(each or 0 for each in least), 0], np.int64)[found.of_row]
    return PlanResult(
        clock=search.backend,
        baseline=search.baseline,
        num_ranks=run.lattice.num_ranks,
        num_nodes=sum(case.count * case.members for case in cases),
        num_collectives=sum(case.count for case in cases),
        before_ns=None if before is None else before.end_ns,
        before_reason=search.before_reason,
        time_ns=best.end_ns,
        exposed_before_ns=None if before is None else int(before.after.exposed_comm_ns.max()),
        exposed_ns=int(best.after.exposed_comm_ns.max()),
        cases=cases,
        notes=tuple(search.notes),
        native=natives,
        bound=compact_bound(run, alone_ns, search.backend),
        messages=MessageCounts(None, None if before is None else before.after.num_messages, best.after.num_messages),
        joint=(),
        path_before=None,
        path_after=None,
        prints=find_prints(search.backend, run.network, (best.run, best.end_ns), native_run),
        num_classes=run.workload.num_ranks,
    )


def _case_figures(search: Search, best: Candidate) -> tuple[CaseFigures, ...]:
    """Figures of all cases, those in which a rank spends most of the run after first."""
    run, found, before = search.run, search.found, search.before
    spent_before, spent_after = None if before is None else search.spent(before), search.spent(best)
    trace = run.workload
    alike = run.lattice.num_ranks // trace.num_ranks
    place = {number: place for place, number in enumerate(best.schedules)}
    bandwidth_gibps = np.array([each.bandwidth_gibps for each in run.network.dimensions])
    figures = []
    for number, (case, count) in enumerate(zip(found.cases, found.counts, strict=True)):
        schedule = best.schedules.get(number)
        rows = np.flatnonzero(found.of_row == number)
        first = int(rows[0])
        least = case.least_ns() if search.backend.models_congestion else None
        if least is not None:
            least = less_truncated(least, case.collective, case.size_bytes, case.members, bandwidth_gibps)
        figures.append(
            CaseFigures(
                name=case.name if schedule is None else f"{case.name}_{place[number]}",
                collective=case.collective,
                size_bytes=case.size_bytes,
                members=case.members,
                groups=len(np.unique(trace.rank[rows])) * alike // case.members,
                first_group=group_at(run, first),
                first_node=(int(run.lattice.representatives[trace.rank[first]]), int(trace.node_id[first])),
                count=count * alike // case.members,
                algorithm=_natives(best, case) if schedule is None else schedule.synthesizer,
                chunks_per_npu=0 if schedule is None else schedule.task.chunks_per_npu,
                link_model="" if schedule is None else schedule.task.link_model,
                reason="",
                predicted_ns=None if schedule is None else schedule.collective_time_ns,
                bound_ns=least,
                together_ns=None,
                native_ns=None,
                exact=True,
                was_cut_off=False,
                ran_out_of_time=False,
                from_cache=False,
                spent_before_ns=None if spent_before is None else spent_before[number],
                spent_after_ns=spent_after[number],
                share=round(spent_after[number] / max(best.end_ns, 1), 6),
                network=None if case.dimensions is None else describe_dimensions(case.dimensions),
            )
        )
    return tuple(sorted(figures, key=lambda figures: -figures.spent_after_ns))


def _natives(best: Candidate, case: CompactCase) -> str:
    return "native " + ", ".join(dict.fromkeys(best.run.system.native.get(case.key, ())))
