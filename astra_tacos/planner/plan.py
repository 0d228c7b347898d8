"""From a run to the same run with synthesized collectives."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from astra_tacos.config.system import SystemConfig
from astra_tacos.errors import AstraTacosError
from astra_tacos.files import replaced_directory
from astra_tacos.planner.candidate_runs import CandidateRun, choices
from astra_tacos.planner.node_log import COLUMNS, node_rows
from astra_tacos.planner.plan_result import PlanResult, plan_result
from astra_tacos.planner.run_files import RunInputs, check_output, planned_inputs, write_plan
from astra_tacos.planner.solution import Options, Solution
from astra_tacos.planner.synthesis import solve
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.whole_network import Asked, Extras, at_once, with_relays
from astra_tacos.planner.whole_network_schedule import improve
from astra_tacos.planner.workload import Workload, baseline_run, find_workload, read_inputs
from astra_tacos.planner.written_run import write_run
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.recorded_run import record_run
from astra_tacos.run.recording import REPLAY_FILE, Recording, save_recording
from astra_tacos.run.run import Run
from astra_tacos.topology.composition import build_topology

Progress = Callable[[int, int], None]


def plan(
    inputs: RunInputs,
    output: Path,
    *,
    backend: Backend | str | None = None,
    baseline: str | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
    cache: Path | None = None,
    jobs: int = 1,
    asked: Asked = Asked(),  # noqa: B008
    on_progress: Progress = lambda done, total: None,
) -> PlanResult:
    """Write a run in which every collective is synthesized for its group on the network, and replay it before and after.

    Parameters
    ----------
    inputs
        The run.
    output
        Directory to write; a plan that is there is replaced.
    backend
        The network model, or its name; None takes the network's default (`run.backend`).
    baseline
        Native algorithm of the run before; None takes the run as it is.
    options
        How cases are synthesized.
    cache
        Directory of synthesized cases, None for none.
    jobs
        Cases at a time; the result does not depend on it.
    asked
        Figures to add to the result and `plan.json`; nothing else depends on it.
    on_progress
        Called with how many cases are done, and how many there are.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or ranks disagree on their collectives.
    SynthesisError
        If no schedule can be made.
    ReplayError
        If the planned run does not go to its end, which would be a fault of this package.
    """
    check_output(output, inputs)
    workload = find_workload(inputs)
    model = choose_backend(backend, workload.run.network)
    start = baseline_run(workload.run, baseline)
    solutions, extras = _solve_all(workload, start.system, model, options, SynthesisCache(cache), jobs, asked, on_progress)
    before = _replay_before(start, model)
    with replaced_directory(output) as folder:
        attempts: list[CandidateRun] = []
        for chosen, order in choices(workload, solutions, start, before, attempts):
            place = folder / f"attempt{len(attempts)}"
            place.mkdir()
            written = write_run(place, inputs, workload, chosen, order, model)
            after = replay_run(read_inputs(planned_inputs(place, inputs)), model, route_loads=True)
            attempts.append(CandidateRun(place, chosen, written, after))
        best = min(attempts, key=lambda attempt: attempt.after.end_ns)
        _move_up(best.folder, folder)
        result = plan_result(workload, best.solutions, model, baseline, before, best.after, extras)
        rows = node_rows(workload, best.solutions, best.written.assignment, best.written.changes, best.written.traces)
        write_plan(folder, result.to_json(), rows, COLUMNS)
        save_recording(_recording(workload, best.after, before), folder / REPLAY_FILE)
    return result


def _solve_all(
    workload: Workload,
    system: SystemConfig,
    model: Backend,
    options: Options,
    cache: SynthesisCache,
    jobs: int,
    asked: Asked,
    on_progress: Progress,
) -> tuple[tuple[Solution, ...], tuple[Extras, ...]]:
    """What becomes of each case, and what else was asked for."""
    network, cases = workload.run.network, workload.cases
    threads = max(1, jobs // max(len(cases), 1))
    topology = build_topology(network)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            solutions = [pool.submit(solve, case, network, system, model, options, cache, threads) for case in cases]
            relayed = [
                pool.submit(with_relays, case, topology, network, model, options, cache, threads)
                for case in (cases if asked.with_relays else ())
            ]
            joint = [
                pool.submit(at_once, case, topology, network, model, options, cache) for case in (cases if asked.together else ())
            ]
            futures: list[Future[Any]] = [*solutions, *relayed, *joint]
            for done, future in enumerate(futures, 1):
                future.result()
                on_progress(done, len(futures))
        finally:
            pool.shutdown(cancel_futures=True)
    solved = tuple(future.result() for future in solutions)
    extras = []
    for number, (case, solution) in enumerate(zip(cases, solved, strict=True)):
        found = Extras(relayed[number].result() if relayed else None, joint[number].result() if joint else None)
        extras.append(improve(found, case, solution, topology))
    return solved, tuple(extras)


def _replay_before(run: Run, model: Backend) -> RunOutcome | str:
    """The outcome, or why there is none."""
    try:
        return replay_run(run, model, route_loads=True)
    except AstraTacosError as error:
        return str(error)


def _recording(workload: Workload, after: RunOutcome, before: RunOutcome | str) -> Recording:
    nodes = workload.instances.nodes
    pattern = workload.run.columns.comm_type.copy()
    pattern[nodes.row] = nodes.pattern
    return record_run(workload.run, after, None if isinstance(before, str) else before, pattern)


def _move_up(attempt: Path, folder: Path) -> None:
    """What an attempt wrote is the result; the others go."""
    for entry in attempt.iterdir():
        entry.rename(folder / entry.name)
    for rest in folder.glob("attempt*"):
        shutil.rmtree(rest)
