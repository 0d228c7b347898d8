"""`plan`: from a run to the same run with synthesized collectives."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.system import SystemConfig
from astra_tacos.errors import AstraTacosError, ConfigError, ReplayError
from astra_tacos.files import replaced_directory
from astra_tacos.planner.candidate_runs import CandidateRun, choose_run
from astra_tacos.planner.node_log import COLUMNS, node_rows
from astra_tacos.planner.plan_result import PlanResult, plan_result
from astra_tacos.planner.run_files import RunInputs, check_output, planned_inputs, write_plan
from astra_tacos.planner.solution import PLAN_OPTIONS, Solution
from astra_tacos.planner.synthesis import solve
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.whole_network import Asked, Extras, at_once, with_relays
from astra_tacos.planner.whole_network_schedule import with_own_schedule
from astra_tacos.planner.workload import Workload, baseline_run, find_workload, read_inputs
from astra_tacos.planner.written_run import write_run
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.recorded_run import record_run
from astra_tacos.run.recording import REPLAY_FILE, Recording, save_recording
from astra_tacos.run.run import Run
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.topology.composition import build_topology

_CANDIDATE = "candidate"
"""Begin of the names of the folders that candidate runs are written to."""
Progress = Callable[[int, int], None]


def plan(
    inputs: RunInputs,
    output: Path,
    *,
    backend: Backend | str | None = None,
    baseline: str | None = None,
    options: SearchOptions = PLAN_OPTIONS,
    cache: Path | None = None,
    asked: Asked = Asked(),  # noqa: B008 (frozen)
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
        What is asked of the searches of each case; link models are those of the backend. `threads` are shared by all cases.
    cache
        Directory of synthesized cases, None for none.
    asked
        Figures to add to the result and `plan.json`; nothing else depends on it.
    on_progress
        Called with how many cases are done, and how many there are.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or ranks disagree on their collectives.
    ReplayError
        If neither a planned run nor the run before goes to its end.
    """
    if options.link_model != "auto":
        raise ConfigError(f"link model: found {options.link_model!r}, expected 'auto': a plan takes what its backend does")
    check_output(output, inputs)
    workload = find_workload(inputs)
    model = choose_backend(backend, workload.run.network)
    start = baseline_run(workload.run, baseline)
    solutions, extras = _solve_all(workload, start.system, model, options, SynthesisCache(cache), asked, on_progress)
    before = _replay_before(start, model)
    with replaced_directory(output) as folder:

        def write_and_replay(chosen: tuple[Solution, ...], order: NDArray[np.int64]) -> CandidateRun | AstraTacosError:
            place = folder / f"{_CANDIDATE}{len(list(folder.glob(f'{_CANDIDATE}*')))}"
            place.mkdir()
            written = write_run(place, inputs, workload, chosen, order, model)
            try:
                after = replay_run(read_inputs(planned_inputs(place, inputs)), model, route_loads=True)
            except (ConfigError, ReplayError) as error:
                return type(error)(str(error).replace(f"{place}{os.sep}", ""))  # the place will be gone
            return CandidateRun(place, chosen, written, after)

        best = choose_run(workload, solutions, start, before, write_and_replay)
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
    options: SearchOptions,
    cache: SynthesisCache,
    asked: Asked,
    on_progress: Progress,
) -> tuple[tuple[Solution, ...], tuple[Extras, ...]]:
    """The solution of each case, and the extra figures asked for."""
    network, cases = workload.run.network, workload.cases
    threads = options.threads or os.cpu_count() or 1
    of_case = replace(options, threads=max(1, threads // max(len(cases), 1)))
    topology = build_topology(network)
    with ThreadPoolExecutor(threads) as pool:
        try:
            solutions = [pool.submit(solve, case, network, system, model, of_case, cache) for case in cases]
            relayed = [
                pool.submit(with_relays, case, topology, network, model, of_case, cache)
                for case in (cases if asked.with_relays else ())
            ]
            joint = [
                pool.submit(at_once, case, topology, network, model, of_case, cache) for case in (cases if asked.together else ())
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
        extras.append(with_own_schedule(found, case, solution, topology))
    return solved, tuple(extras)


def _replay_before(run: Run, model: Backend) -> RunOutcome | str:
    """The outcome of the run before, or the reason why there is none."""
    try:
        return replay_run(run, model, route_loads=True)
    except AstraTacosError as error:
        return str(error)


def _recording(workload: Workload, after: RunOutcome, before: RunOutcome | str) -> Recording:
    nodes = workload.instances.nodes
    pattern = workload.run.columns.comm_type.copy()
    pattern[nodes.row] = nodes.pattern
    return record_run(workload.run, after, None if isinstance(before, str) else before, pattern)


def _move_up(chosen: Path, folder: Path) -> None:
    """Make the files of one candidate the result, and delete those of the others."""
    for entry in chosen.iterdir():
        entry.rename(folder / entry.name)
    for rest in folder.glob(f"{_CANDIDATE}*"):
        shutil.rmtree(rest)
