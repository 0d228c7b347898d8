"""Evaluation of a point; every failure becomes an outcome.

A collective is synthesized and verified. A training run is planned, and replayed before and after the plan. Either gives the
columns of the result.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

from astra_tacos.bounds.certificate import certify, efficiency_of
from astra_tacos.collective import make_collective
from astra_tacos.network.blocks.ring import RING
from astra_tacos.network.blocks.switch import SWITCH
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig, write_network
from astra_tacos.planner.endpoint.endpoint import Divided, divide_endpoint, parse_endpoint
from astra_tacos.planner.place import write_placed
from astra_tacos.planner.plan import plan
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.planned_collectives import plan_collectives
from astra_tacos.planner.request import PLAN_OPTIONS, PlanRequest
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.planner.synthesis_cache import SynthesisCache, Wanted
from astra_tacos.run.backend import choose_backend, is_packet_level
from astra_tacos.run.compact_run import read_compact
from astra_tacos.run.directory import CompactInputs
from astra_tacos.run.placement_matrix import read_placement
from astra_tacos.run.run import RANKS, RunInputs
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.solver.clock import (
    bounds_on,
    check_clock,
    has_equal_delays,
    symmetric_tasks,
    symmetric_time_ns,
    time_on,
    timed_for,
)
from astra_tacos.solver.clock_figures import figures_on
from astra_tacos.solver.many_sends import has_many_sends, is_symmetric
from astra_tacos.solver.solve import check_schedule
from astra_tacos.study.sweep.point import (
    BEST_PLACEMENT,
    ERROR,
    OK,
    OUT_OF_MEMORY,
    REFUSED,
    CollectiveTask,
    Conditions,
    Outcome,
    Point,
    WorkloadTask,
)
from astra_tacos.study.sweep.run_source import RUN_KEYS, read_run_source
from astra_tacos.support.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.support.installation import package_version
from astra_tacos.support.options import without_useless
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.synthesizer.symmetric.chunks import fastest_symmetric, is_near_bound
from astra_tacos.verifier.symmetric_oracle import check_symmetric

_FIGURES = {
    "time_ns": "time_ns",
    "bound_ns": "bound_ns",
    "bound": "bound",
    "chunked_bound_ns": "chunked_bound_ns",
    "efficiency": "efficiency",
    "optimal": "optimal",
    "algorithm_bandwidth_gbps": "algorithm_bandwidth_gbps",
    "bus_bandwidth_gbps": "bus_bandwidth_gbps",
    "num_sends": "num_sends",
    "made_by": "synthesizer",
    "made_chunks_per_npu": "chunks_per_npu",
    "made_seed": "seed",
    "made_link_model": "link_model",
}
"""Columns of a row, and the names of the same figures in a certificate."""
_KEPT = {"synthesis_seconds": "seconds"}
"""What a cache keeps with a schedule."""
_MOST_JUDGED = 1 << 16
"""Symmetric schedules of more sends are not listed and replayed where the clock has their time."""


def evaluate_collective(network: NetworkConfig, task: CollectiveTask, conditions: Conditions) -> dict[str, Any]:
    """Synthesize a collective, and return the values of result columns by name.

    Raises
    ------
    AstraTacosError
        If the collective cannot be synthesized, or a check refuses its schedule.
    """
    cache = SynthesisCache(None if conditions.cache is None else Path(conditions.cache))
    identity = {} if cache.directory is None else _identity(network, task)
    compact = None if cache.holds(identity) else _without_expansion(network, task, conditions)
    if compact is not None:
        return compact
    check = check_schedule if conditions.with_checks else lambda schedule: None
    schedule, seconds = _schedule(network, task, (cache, identity), check)
    clock = choose_backend(task.backend)
    timed = time_on(schedule, network, clock)
    topology, collective = schedule.topology, schedule.collective
    certificate = certify(schedule, ()) | figures_on(
        clock, bounds_on(topology, collective, clock), topology, collective, timed.time_ns
    )
    prints = [printed for printed in timed.prints if printed.time_ns is not None]
    of_last_release = {
        "stock_ns": next((printed.time_ns for printed in prints if printed.binary.branch is None), None),
        "congested_ns": next((printed.time_ns for printed in prints if printed.binary.backend.models_congestion), None),
        "packets_ns": None if timed.level is None else timed.level.time_ns,
    }
    return _columns(certificate) | of_last_release | {"verified": conditions.with_checks, "synthesis_seconds": seconds}


def _columns(certificate: dict[str, Any]) -> dict[str, Any]:
    """The columns of a certificate."""
    columns = {column: certificate[name] for column, name in _FIGURES.items()}
    return columns | {"predicted_ns": columns["time_ns"]}


def _without_expansion(network: NetworkConfig, task: CollectiveTask, conditions: Conditions) -> dict[str, Any] | None:
    """The result of a symmetric schedule whose sends are not listed; None if there is none, or only a search or replay knows it.

    That takes milliseconds for thousands of NPUs. It is taken where a search would look no further, and where there are too many
    sends to list.
    """
    options = task.options
    clock = choose_backend(task.backend)
    if not is_symmetric(network, task.collective, options):
        return None
    is_large = has_many_sends(network, task.collective, options)
    if is_packet_level(clock) and not is_large:
        return None
    begin = time.perf_counter()
    most = None if is_large else options.max_sends
    try:
        tasks, _ = symmetric_tasks(network, task.collective, task.size_bytes, options, clock)
        schedule = fastest_symmetric(tasks, most, options.chooses_chunks)
    except SynthesisError:  # others cut the buffer themselves, or say why they cannot
        if is_large:
            raise
        return None
    seconds = time.perf_counter() - begin
    is_listed = schedule.num_sends <= _MOST_JUDGED or (options.synthesizer == AUTO and not is_large)
    if is_listed and not is_near_bound(schedule):
        return None
    time_ns = symmetric_time_ns(schedule, clock)
    if schedule.num_sends <= _MOST_JUDGED and (time_ns is None or not has_equal_delays(schedule.task)):
        return None
    if time_ns is None:
        if not is_large:
            return None
        raise ConfigError(
            f"backend {clock}: only a replay can time the schedule on this backend, and the schedule has too many sends to replay"
        )
    if conditions.with_checks:
        check_symmetric(schedule)
    certificate = certify(schedule) | {"time_ns": round(time_ns, 3)}
    if not clock.models_congestion:
        certificate |= dict.fromkeys(("bound_ns", "bound", "efficiency")) | {"optimal": False}
    return _columns(certificate) | {"verified": conditions.with_checks, "synthesis_seconds": seconds}


def _identity(network: NetworkConfig, task: CollectiveTask) -> dict[str, Any]:
    """What a schedule depends on, as the cache knows it."""
    task_identity = asdict(task) | {"options": task.options.identity()}
    return {"network": asdict(network) | {"source": ""}, "task": task_identity, "version": package_version()}


def _schedule(
    network: NetworkConfig, task: CollectiveTask, kept: tuple[SynthesisCache, dict[str, Any]], check: Callable[[Schedule], None]
) -> tuple[Schedule, float]:
    """A schedule from the cache or a search, after the check has accepted it, and seconds."""
    cache, identity = kept
    topology = build_topology(network, may_forward=True)
    collective = make_collective(task.collective, topology.num_npus, task.size_bytes, 1, task.root, topology.endpoints)
    cached = cache.find(identity, Wanted((topology,), collective, _KEPT), check)
    if cached is not None:
        return cached[0], float(cached[1]["synthesis_seconds"])
    begin = time.perf_counter()
    clock = choose_backend(task.backend)
    check_clock(topology, network, clock)
    options = timed_for(task.options, topology, clock)[0]
    result = search(topology, collective, options)
    seconds = time.perf_counter() - begin
    check(result.schedule)
    cache.keep(identity, result.schedule, {"synthesis_seconds": seconds})
    return result.schedule, seconds


def evaluate_workload(network: NetworkConfig, task: WorkloadTask, conditions: Conditions) -> dict[str, Any]:
    """Plan a training run, and return the values of result columns by name; the plan's files are removed afterwards.

    Raises
    ------
    AstraTacosError
        If the run cannot be read, planned or replayed.
    """
    _check_files(task)
    if (Path(task.workload) / RANKS).is_file():
        return _evaluate_compact(network, task)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            divided, result = _plan(network, task, conditions, Path(scratch))
        except AstraTacosError as error:
            raise type(error)(str(error).replace(f"{scratch}{os.sep}", "")) from None  # the scratch directory no longer exists
    figures = {
        **_of_plan(result),
        "verified": True,  # `plan` verifies its schedules and replays the run
        "exposed_before_ns": result.exposed_before_ns,
        "num_collectives": result.num_collectives,
    }
    if divided is not None:
        part = divided.partition
        figures |= {"comm_cores": part.cores, "comm_memory_gbps": part.memory_gbps, "driven_gbps": divided.network_gbps}
    return figures


def _evaluate_compact(network: NetworkConfig, task: WorkloadTask) -> dict[str, Any]:
    """The same of a compact run."""
    for key in ("placement", "endpoint"):
        if getattr(task, key) is not None:
            raise ConfigError(f"{key}: found {getattr(task, key)}, expected none for a compact run")
    folder = Path(task.workload)
    options = replace(PLAN_OPTIONS, effort=task.options.effort)
    request = PlanRequest(CompactInputs(folder, Path(network.source)), task.backend, task.baseline, options)
    result = plan_collectives(request, read_compact(folder, network), SynthesisCache(None)).result
    return {**_of_plan(result), "verified": True}  # schedules of classes are proven when they are made


def _of_plan(result: PlanResult) -> dict[str, Any]:
    """Columns of the result of a plan, compact or not: all times are of its clock."""
    return {
        "time_ns": result.time_ns,
        "predicted_ns": result.time_ns,
        "best_native_ns": result.best_native_ns,
        "bound_ns": result.bound_ns,
        "efficiency": efficiency_of(result.time_ns, result.bound_ns),
        "before_ns": result.before_ns,
        "speed_up": result.speed_up,
        "exposed_ns": result.exposed_ns,
        "num_cases": len(result.cases),
    }


def _check_files(task: WorkloadTask) -> None:
    """Check that the files have not changed since the sweep began, because their digest is part of the row's key.

    Raises
    ------
    ConfigError
        If they have changed.
    """
    source = read_run_source({key: key for key in RUN_KEYS}, Path(), *(getattr(task, key) for key in RUN_KEYS))
    if source.digest != task.digest:
        raise ConfigError(
            f"{task.workload}: the run's files are not those with which the sweep began, expected the same on every machine, "
            "unchanged: start the sweep again"
        )


def _plan(network: NetworkConfig, task: WorkloadTask, conditions: Conditions, folder: Path) -> tuple[Divided | None, PlanResult]:
    network_file = folder / "network.yml"
    write_network(network, network_file)
    inputs = RunInputs(
        Path(task.workload),
        Path(task.system),
        network_file,
        _path(task.comm_group),
        _path(task.remote_memory),
        Path(task.directory),
    )

    def request_of(inputs: RunInputs) -> PlanRequest:
        # What a grid asks of all synthesizers counts for some.
        arguments = task.backend, task.baseline, without_useless(task.options)
        return PlanRequest(inputs, *arguments, cache=_path(conditions.cache))

    divided = None
    if task.endpoint is not None:
        chosen = parse_endpoint(task.endpoint)
        division = divide_endpoint(inputs, folder / "divided", chosen.mode, chosen.npu, chosen.partition, backend=task.backend)
        divided, inputs = division.written, planned_inputs(folder / "divided", inputs)
    if task.placement == BEST_PLACEMENT:
        return divided, _planned(replace(request_of(inputs), place=True), folder)
    if task.placement is not None:
        (folder / "placed").mkdir()
        inputs = write_placed(folder / "placed", inputs, read_placement(task.placement))
    return divided, _planned(request_of(inputs), folder)


def _planned(request: PlanRequest, folder: Path) -> PlanResult:
    """The plan of a request that plans collectives."""
    result = plan(request, folder / "plan").result
    assert result is not None
    return result


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def evaluate(point: Point, conditions: Conditions) -> Outcome:
    """Compute a point and return its outcome; exceptions become outcomes, too.

    `limits` enforces those of time and memory; this function ignores them.
    """
    begin = time.perf_counter()
    status, error, results = OK, None, {}
    # What is logged is collected, because the process that computes a point has no terminal.
    log, warnings = logging.getLogger("astra_tacos"), BufferingHandler(sys.maxsize)
    warnings.setLevel(logging.WARNING)
    log.addHandler(warnings)
    try:
        # Points with equal keys share a row even if their networks have different names, so its texts must not contain the name.
        network = replace(point.network, source=_shape(point.network))
        if isinstance(point.task, CollectiveTask):
            results = evaluate_collective(network, point.task, conditions)
        else:
            results = evaluate_workload(network, point.task, conditions)
    except SynthesisError as refusal:
        status, error = REFUSED, _one_line(str(refusal))
    except AstraTacosError as failure:
        status, error = ERROR, _one_line(str(failure))
    except MemoryError as failure:
        status, error = OUT_OF_MEMORY, _one_line(f"memory could not be allocated {failure}")
    except Exception as failure:  # an error in this package must not end the whole sweep
        status, error = ERROR, _one_line(f"{type(failure).__name__}: {failure}")
    finally:
        log.removeHandler(warnings)
    texts = tuple(_one_line(record.getMessage()) for record in warnings.buffer)
    return Outcome(status, error, results | {"seconds": time.perf_counter() - begin}, texts)


def warm_up(names: Iterable[str] = SYNTHESIZERS) -> None:
    """Compile or load the kernels of some synthesizers, so that no point's time includes that."""
    network = NetworkConfig("", (Dimension(RING.name, 3, 50.0, 500.0), Dimension(SWITCH.name, 2, 25.0, 500.0)))
    for name in names:
        for collective in ("all-reduce", "all-to-all", "broadcast"):  # they use every kernel that the others use
            if collective not in SYNTHESIZERS[name].collectives:
                continue
            options = SearchOptions(name, chunks_per_npu=1, trials=1, threads=1)
            evaluate(Point(0, network, CollectiveTask(collective, None, 1 << 10, options), {}), Conditions())


def _shape(network: NetworkConfig) -> str:
    if not network.dimensions:
        return f"graph of {network.num_npus} NPUs"
    return " x ".join(f"{dimension.block} {dimension.size}" for dimension in network.dimensions)


def _one_line(text: str) -> str:
    return " ".join(text.split())
