"""A machine calibrated by its collectives, as files: written with a network, and checked against other times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.network.blocks.building_block import COMPLETE
from astra_tacos.network.blocks.switch import SWITCH
from astra_tacos.network.network_config import Dimension, error_line, network_yaml, read_network
from astra_tacos.solver.first_use import Progress, silent
from astra_tacos.study.calibrator.collective_fit import CollectiveFit, errors_of_rows, fit_collectives, left_out
from astra_tacos.study.calibrator.collective_model import PRIORS, CollectiveModel
from astra_tacos.study.calibrator.collective_times import CollectiveTime, read_collectives
from astra_tacos.study.calibrator.machine import Errors
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_directory, write_json
from astra_tacos.support.text_files import read_text
from astra_tacos.support.units import format_size
from astra_tacos.workload.repairer.reading import default_system

_FILE = "calibration.json"
_FORMAT = "astra_tacos calibration of collectives 1"
_SIZES_IN_ONE = 16
_FROM = 1 << 20
_UNKNOWN = 0.9
"""A constant that is as uncertain as that share of its typical spread was told by no time."""


def calibrate_collectives(
    paths: Sequence[Path], network: Path | None, where: Mapping[str, str], output: Path | None, progress: Progress = silent
) -> dict[str, Any]:
    """Fit the constants of a machine to times of its collectives, and write them with a network.

    Parameters
    ----------
    paths
        Logs and CSV files.
    network
        Says the shape where the files do not, that GPUs of a node are a mesh (FullyConnected), and that a switch adds.
    where
        Values of columns that rows of CSV files must have.
    output
        The directory to write; None for none.
    progress
        Told what is being done.
    """
    is_mesh, has_nvls, shape = False, None, None
    if network is not None:
        config = read_network(network)
        first = config.dimensions[0].size if config.dimensions else config.num_npus
        shape = (config.num_npus // first, first)
        is_mesh = bool(config.dimensions) and config.dimensions[0].block == COMPLETE
        has_nvls = True if config.reducing else None
    with progress("reading"):
        rows = [row for path in paths for row in read_collectives(path, shape, where)]
    with progress("fitting"):
        fitted = fit_collectives(rows, has_nvls=has_nvls, is_mesh=is_mesh)
        others, differs = left_out(rows, fitted.model)
    result = _result(rows, fitted, others, differs) | {"output": None if output is None else str(output)}
    if output is not None:
        with replaced_directory(output) as folder:
            write_json(folder / _FILE, result)
            write_json(folder / "system.json", default_system(sum(result[name] > 1 for name in ("nodes", "gpus_per_node"))))
            (folder / "network.yml").write_text(_network(result, _carried(rows, fitted, others)), encoding="utf-8")
    return result


def check_collectives(folder: Path, paths: Sequence[Path], where: Mapping[str, str], least_bytes: int) -> dict[str, Any]:
    """Errors of a calibration on other times: `median`, `p90`, `worst`, by collective, size and nodes, and each row.

    Raises
    ------
    ConfigError
        If the directory has no calibration of collectives, or a file no times.
    """
    model, shape = _read(folder / _FILE)
    rows = [row for path in paths for row in read_collectives(path, shape, where) if row.size_bytes >= least_bytes]
    if not rows:
        raise ConfigError(f"no times of {format_size(least_bytes)} or more, expected some to check")
    times, algorithms = model.predict(rows)
    errors = errors_of_rows(model, rows)
    groups: dict[str, dict[str, list[float]]] = {"collective": {}, "size": {}, "nodes": {}}
    for row, error in zip(rows, errors, strict=True):
        size = _SIZES_IN_ONE ** int(np.log(row.size_bytes) / np.log(_SIZES_IN_ONE) + 1e-9)
        names = (row.collective, f"from {format_size(size)}", f"{row.nodes} x {row.gpus} GPUs")
        for kind, name in zip(groups.values(), names, strict=True):
            kind.setdefault(name, []).append(abs(error))
    return {
        **asdict(Errors.of([abs(error) for error in errors])),
        **{f"by_{kind}": {name: asdict(Errors.of(own)) for name, own in found.items()} for kind, found in groups.items()},
        "rows": [
            asdict(row) | {"predicted_us": time, "by": algorithm, "error": error}
            for row, time, algorithm, error in zip(rows, times.tolist(), algorithms, errors, strict=True)
        ],
    }


def _result(
    rows: Sequence[CollectiveTime], fitted: CollectiveFit, others: dict[str, Errors], differs: dict[str, float]
) -> dict[str, Any]:
    model = fitted.model
    return {
        "format": _FORMAT,
        "nodes": max(row.nodes for row in rows),
        "gpus_per_node": max(row.gpus for row in rows),
        "times": len(rows),
        "constants": {
            name: {
                "value": value,
                "uncertainty": float(np.hypot(fitted.uncertainty[name], differs[name])),
                "is_measured": fitted.uncertainty[name] < _UNKNOWN * PRIORS[name][1],
                "meaning": PRIORS[name][2],
            }
            for name, value in model.constants.items()
        },
        "step_curve": {"message_bytes": np.exp(model.knots).tolist(), "factor": np.exp(model.curve).tolist()},
        "has_nvls": model.has_nvls,
        "is_mesh": model.is_mesh,
        "algorithms": dict(Counter(model.predict(rows)[1])),
        "errors": asdict(Errors.of([abs(error) for error in errors_of_rows(model, rows)])),
        "left_out": {name: asdict(errors) for name, errors in others.items()},
    }


def _read(path: Path) -> tuple[CollectiveModel, tuple[int, int]]:
    """The model of a calibration, and its shape."""
    try:
        found = json.loads(read_text(path))
        if found["format"] != _FORMAT:
            raise ValueError
        curve = found["step_curve"]
        knots, factors = (np.log(np.array(curve[name], np.float64)) for name in ("message_bytes", "factor"))
        constants = {name: float(found["constants"][name]["value"]) for name in PRIORS}
        model = CollectiveModel(constants, knots, factors, bool(found["has_nvls"]), bool(found["is_mesh"]))
        return model, (int(found["nodes"]), int(found["gpus_per_node"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: no calibration of collectives, expected what calibrate --output writes") from error


def _carried(rows: Sequence[CollectiveTime], fitted: CollectiveFit, others: dict[str, Errors]) -> float:
    """The error that the network file carries: of its links alone, without launch and curve, from 1 MiB up.

    It is at least the median of all that was left out.
    """
    model = fitted.model
    shortest = np.full_like(model.curve, model.curve.min())
    links = replace(model, constants=model.constants | {"launch_us": 0.0, "growth": 0.0}, curve=shortest)
    large = [row for row in rows if row.size_bytes >= _FROM] or list(rows)
    own = Errors.of([abs(error) for error in errors_of_rows(links, large)]).median
    return max(own, others["all"].median if others else 0.0)


def _network(result: dict[str, Any], error: float) -> str:
    """A network of the fitted bandwidths; the shortest step is the latency of a way (a switch counts twice)."""
    c = {name: entry["value"] for name, entry in result["constants"].items()}
    c["inside_step_us"] *= min(result["step_curve"]["factor"])
    dimensions = []
    for size, gbps, step, is_mesh in (
        (result["gpus_per_node"], c["inside_gbps"], c["inside_step_us"], result["is_mesh"]),
        (result["nodes"], c["between_gbps"], c["inside_step_us"] * c["between_ratio"], False),
    ):
        if size > 1:
            block, links = (COMPLETE, 1) if is_mesh else (SWITCH.name, 2)
            dimensions.append(Dimension(block, size, round(gbps * 1e9 / (1 << 30), 6), round(step * 1e3 / links, 3)))
    promised = result["left_out"].get("all")
    about = f"# Fitted by astra-tacos calibrate to {result['times']} times of collectives.\n"
    if promised is not None:
        about += f"# Off what was left out by {promised['median']:.1%} (median), {promised['p90']:.1%} (90th percentile).\n"
    return about + network_yaml(dimensions, [error_line(error)])
