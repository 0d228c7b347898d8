"""From a run to the same run with synthesized collectives."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.config.system import COMM_KEYS, SystemConfig
from astra_tacos.errors import AstraTacosError, ConfigError
from astra_tacos.files import replaced_directory
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.workload_actions import workload_actions
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import NATIVE, Run, read_run
from astra_tacos.topology.composition import build_topology
from astra_tacos.trace.schema import NodeType
from astra_tacos.units import bytes_per_ns
from astra_tacos.workload.assignment import Assignment, assign
from astra_tacos.workload.case import NO_CASE, Case, find_cases
from astra_tacos.workload.case_cache import CaseCache
from astra_tacos.workload.collective_nodes import IssueOrder, find_collective_nodes, find_issue_order
from astra_tacos.workload.global_order import MergedGraph, has_circle, merge, order_instances
from astra_tacos.workload.instances import Instances, match_instances
from astra_tacos.workload.patterns import carrying_type
from astra_tacos.workload.plan_result import PlanResult, node_rows, plan_result
from astra_tacos.workload.rewrite import Changes, find_changes, write_workload
from astra_tacos.workload.run_files import (
    GROUPS,
    MEMORY,
    NETWORK,
    SYSTEM,
    WORKLOAD,
    RunInputs,
    check_output,
    write_configurations,
    write_plan,
    write_traces,
)
from astra_tacos.workload.synthesis import AWARE, Options, Solution, solve

UNAWARE = "congestion-unaware"
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A run's collectives, found.

    Parameters
    ----------
    run, issue, instances, graph
        The run, how ranks issue its nodes, what belongs together, and what waits for what.
    cases, of_instance
        Distinct cases, and int64[num_instances], which one each is, NO_CASE for none.
    """

    run: Run
    issue: IssueOrder
    instances: Instances
    graph: MergedGraph
    cases: tuple[Case, ...]
    of_instance: NDArray[np.int64]


def plan(
    inputs: RunInputs,
    output: Path,
    *,
    backend: str | None = None,
    baseline: str | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
    cache: Path | None = None,
    jobs: int = 1,
    progress: Progress = lambda stage, done, total: None,
) -> PlanResult:
    """Write a run in which every collective is synthesized for its group on the network, and replay it before and after.

    Parameters
    ----------
    inputs
        The run.
    output
        Directory to write; a plan that is there is replaced.
    backend
        A key of `BACKENDS`; by default congestion-aware in one dimension, else congestion-unaware.
    baseline
        Native algorithm of the run before; None takes the run as it is.
    options
        How cases are synthesized.
    cache
        Directory of synthesized cases, None for none.
    jobs
        Cases at a time; the result does not depend on it.
    progress
        Called with a stage, and how much of it is done.

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
    run = workload.run
    model = backend or (AWARE if len(run.network.dimensions) == 1 else UNAWARE)
    with_native = baseline_run(run, baseline)
    solutions = _solve_all(workload, with_native.system, model, options, CaseCache(cache), jobs, progress)
    order = _order(workload, solutions)
    progress("replaying before", 0, 1)
    before = _replay_before(with_native, model)
    with replaced_directory(output) as folder:
        assignment, changes = _write(folder, inputs, workload, solutions, order, model)
        progress("replaying after", 0, 1)
        after_run = read_planned(folder, inputs)
        after = replay_run(after_run, model, progress=lambda done, total: progress("replaying after", done, total))
        result = plan_result(workload, solutions, model, baseline, before, after)
        rows, columns = node_rows(workload, solutions, assignment, changes)
        write_plan(folder, result.to_json(), rows, columns)
    return result


def find_workload(inputs: RunInputs) -> Workload:
    """Read a run and find its collectives.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or ranks disagree on their collectives.
    """
    run = read_run(
        inputs.workload, inputs.system, inputs.network, inputs.groups, inputs.remote_memory, inputs.directory
    )
    if run.system.replay_only:
        raise ConfigError(f"{run.system.source}: replay-only is on: collectives only take their duration, nothing to plan")
    if run.workload.num_ranks != run.network.num_npus:
        raise ConfigError(
            f"{run.workload.prefix}: traces of {run.workload.num_ranks} ranks, expected {run.network.num_npus}, "
            f"as many as {run.network.source} has NPUs"
        )
    issue = find_issue_order(run.workload)
    nodes = find_collective_nodes(run, issue)
    instances = match_instances(run.workload, nodes, by_name=True)
    graph = merge(run.workload, issue, instances)
    if has_circle(graph):
        instances = match_instances(run.workload, nodes, by_name=False)
        graph = merge(run.workload, issue, instances)
    cases, of_instance = find_cases(instances, build_topology(run.network), run.network)
    return Workload(run, issue, instances, graph, cases, of_instance)


def baseline_run(run: Run, baseline: str | None) -> Run:
    """The run before; with a native algorithm of that name for all collectives, if one is given."""
    if baseline is None:
        return run
    native = {key: (baseline,) * max(1, len(run.network.dimensions)) for key in COMM_KEYS}
    system = replace(run.system, native=native, custom={}, per_node={}, per_node_source=None)
    system = replace(system, preferred_dataset_splits=system.preferred_dataset_splits or 1)
    nothing = np.full_like(run.implementation, NATIVE)
    return replace(run, system=system, prefixes=(), collectives=(), implementation=nothing)


def read_planned(folder: Path, inputs: RunInputs) -> Run:
    """The run in a directory that was written for these inputs."""
    groups = folder / GROUPS
    return read_run(
        folder / WORKLOAD / inputs.workload.name,
        folder / SYSTEM,
        folder / NETWORK,
        groups if groups.is_file() else None,
        folder / MEMORY,
        folder,
    )


def _solve_all(
    workload: Workload,
    system: SystemConfig,
    model: str,
    options: Options,
    cache: CaseCache,
    jobs: int,
    progress: Progress,
) -> tuple[Solution, ...]:
    network, cases = workload.run.network, workload.cases
    solutions = []
    with ThreadPoolExecutor(jobs) as pool:
        try:
            futures = [pool.submit(solve, case, network, system, model, options, cache) for case in cases]
            for done, future in enumerate(futures):
                progress("synthesizing", done, len(cases))
                solutions.append(future.result())
        finally:
            pool.shutdown(cancel_futures=True)
    return tuple(solutions)


def _order(workload: Workload, solutions: tuple[Solution, ...]) -> NDArray[np.int64]:
    """Place of each collective in the order in which all ranks issue them."""
    run, instances = workload.run, workload.instances
    trace, columns = run.workload, run.columns
    # Patterns that ASTRA-sim lacks are looked at as what carries them.
    comm_type = columns.comm_type.copy()
    comm_type[instances.nodes.row] = [int(carrying_type(int(pattern))) for pattern in instances.nodes.pattern.tolist()]
    known = replace(run, workload=replace(trace, workload=replace(columns, comm_type=comm_type)))
    duration_ns = workload_actions(known).amount.astype(np.float64)
    rate = float(bytes_per_ns(np.array([_slowest(run)]))[0])
    sends = trace.kind == NodeType.COMM_SEND
    duration_ns[sends] /= rate
    guess = np.array([solution.time_ns for solution in solutions] + [0], np.int64)[workload.of_instance]
    guess = np.where(guess > 0, guess, (instances.size_bytes / rate).astype(np.int64) + 1)
    return order_instances(
        trace, workload.issue, instances, workload.graph, duration_ns.astype(np.int64), guess, columns.is_cpu_op
    )


def _slowest(run: Run) -> float:
    """GiB/s of the slowest link."""
    links = run.network.dimensions or run.network.links
    return min(link.bandwidth_gibps or 1.0 for link in links)


def _replay_before(run: Run, model: str) -> RunOutcome | str:
    """The outcome, or why there is none."""
    try:
        return replay_run(run, model)
    except AstraTacosError as error:
        return str(error)


def _write(
    folder: Path,
    inputs: RunInputs,
    workload: Workload,
    solutions: tuple[Solution, ...],
    order: NDArray[np.int64],
    model: str,
) -> tuple[Assignment, Changes]:
    """Write everything but the plan itself."""
    run, instances = workload.run, workload.instances
    schedules = {case.name: solution.schedule for case, solution in zip(workload.cases, solutions, strict=True) if solution.schedule}
    names = {name: entry for entry, name in enumerate(schedules)}
    of_case = np.array(
        [names[case.name] if solution.schedule else NATIVE for case, solution in zip(workload.cases, solutions, strict=True)]
        + [NATIVE],
        np.int64,
    )
    implementation = np.where(workload.of_instance == NO_CASE, NATIVE, of_case[workload.of_instance])
    kept: dict[str, tuple[Path, int]] = {}
    assignment = assign(run.workload, instances, implementation, run.groups.members, order)
    changes = find_changes(run.workload, run.columns, workload.issue, instances, assignment, order)
    (folder / WORKLOAD).mkdir()
    write_workload(run.workload, run.columns, instances, changes, folder / WORKLOAD / inputs.workload.name)
    prefixes = write_traces(folder, run.workload, schedules, kept)
    by_entry = [*(prefixes[name] for name in schedules), *(prefixes[name] for name in kept)]
    per_node = {node: by_entry[entry] for node, entry in assignment.per_node.items()}
    write_configurations(folder, inputs, assignment.groups, per_node, model)
    return assignment, changes
