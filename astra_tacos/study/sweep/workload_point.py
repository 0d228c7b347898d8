"""Evaluation of a point with a training run: plan, replays before and after it, and the columns of the result."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.network_yaml import write_network
from astra_tacos.planner.endpoint.choice import parse_endpoint
from astra_tacos.planner.endpoint.endpoint import Divided, divide_endpoint
from astra_tacos.planner.place import write_placed
from astra_tacos.planner.placed_plan import plan_placed
from astra_tacos.planner.plan import plan
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.request import PlanRequest
from astra_tacos.planner.run_files import RunInputs, planned_inputs
from astra_tacos.run.placement_matrix import read_placement
from astra_tacos.study.sweep.outcome import Conditions
from astra_tacos.study.sweep.point import BEST_PLACEMENT, WorkloadTask
from astra_tacos.study.sweep.run_source import RUN_KEYS, read_run_source
from astra_tacos.support.errors import AstraTacosError, ConfigError


def evaluate_workload(network: NetworkConfig, task: WorkloadTask, conditions: Conditions) -> dict[str, Any]:
    """Plan a training run, and return the values of result columns by name; the plan's files are removed afterwards.

    Raises
    ------
    AstraTacosError
        If the run cannot be read, planned or replayed.
    """
    _check_files(task)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            divided, result = _plan(network, task, conditions, Path(scratch))
        except AstraTacosError as error:
            raise type(error)(str(error).replace(f"{scratch}{os.sep}", "")) from None  # the scratch directory no longer exists
    figures = {
        "predicted_ns": result.after_ns,
        **{judged.judge.figure: judged.after_ns for judged in result.judged},
        "verified": True,  # `plan` verifies its schedules and replays the run
        "before_ns": result.before_ns,
        "speed_up": result.speed_up,
        "exposed_before_ns": result.exposed_before_ns,
        "exposed_ns": result.exposed_after_ns,
        "num_collectives": result.num_collectives,
        "num_cases": len(result.cases),
    }
    if divided is not None:
        part = divided.partition
        figures |= {"comm_cores": part.cores, "comm_memory_gbps": part.memory_gbps, "driven_gbps": divided.network_gbps}
    return figures


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
        asked = task.backend, task.baseline, task.options
        return PlanRequest(inputs, *asked, cache=_path(conditions.cache), compare_backends=False)

    divided = None
    if task.endpoint is not None:
        chosen = parse_endpoint(task.endpoint)
        found = divide_endpoint(inputs, folder / "divided", chosen.mode, chosen.npu, chosen.partition, backend=task.backend)
        divided, inputs = found.written, planned_inputs(folder / "divided", inputs)
    if task.placement == BEST_PLACEMENT:
        return divided, plan_placed(request_of(inputs), folder / "plan")
    if task.placement is not None:
        (folder / "placed").mkdir()
        inputs = write_placed(folder / "placed", inputs, read_placement(task.placement))
    return divided, plan(request_of(inputs), folder / "plan")


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
