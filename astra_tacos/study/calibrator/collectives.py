"""A machine calibrated by its collectives: constants fitted to times, written with a network, and checked against other times.

The fit is by robust least squares of logarithms. Its errors are those on times that a fit to all others has not seen.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from astra_tacos.network.blocks.building_block import COMPLETE
from astra_tacos.network.blocks.switch import SWITCH
from astra_tacos.network.network_config import MAX_NPUS, Dimension, error_line, network_yaml, read_network
from astra_tacos.run.system import default_system
from astra_tacos.solver.first_use import Progress, silent
from astra_tacos.study.calibrator.collective_model import PRIORS, CollectiveModel, Work
from astra_tacos.study.calibrator.collective_times import CollectiveTime, Reading, read_collectives
from astra_tacos.study.calibrator.machine import (
    CALIBRATION_FILE,
    Errors,
    FittedConstant,
    FittedNumber,
    constants_of,
    robust,
    spread_of,
    write_calibration,
)
from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.own_files import one_of, read_own
from astra_tacos.support.units import GIB_PER_GB, format_size

_LEAST_TIMES = 12
"""Measured times that a fit takes at least."""
_STARTS = 8
"""Points that the fit starts from, as it may end in a local optimum."""
_ROBUST = 0.05
"""Errors beyond it count by their size, not by its square."""
_KNOT = np.log(4.0)
_CURVE = (np.log(256.0), np.log(float(1 << 20)))
"""Messages between which the curve has knots."""
_CHANGE, _START = 0.5, 0.3
"""How far the curve goes from a knot to the next, and begins away from 1."""
_SIZES_IN_ONE = 16
"""Ratio of sizes that share a row of the table of errors."""
_FROM = 1 << 20
"""Bytes from which times tell the errors of links."""
_UNKNOWN = 0.9
"""A constant that is as uncertain as that share of its typical spread was told by no time."""


@dataclass(frozen=True, slots=True)
class CollectiveFit:
    """A model, by name how uncertain each constant is (as a share), and the cost of the fit."""

    model: CollectiveModel
    uncertainty: dict[str, float]
    cost: float


def fit_collectives(rows: Sequence[CollectiveTime], *, has_nvls: bool | None = None, is_mesh: bool = False) -> CollectiveFit:
    """The constants that fit some times best.

    Parameters
    ----------
    has_nvls
        Whether a switch adds; None to take what fits better, and no such switch where both fit alike.
    is_mesh
        Whether each two GPUs of a node have a link of their own.

    Raises
    ------
    ConfigError
        If there are too few times.
    """
    from scipy.optimize import least_squares

    if len(rows) < _LEAST_TIMES:
        raise ConfigError(f"{len(rows)} times of collectives, expected at least {_LEAST_TIMES}")
    if has_nvls is None:
        without, with_it = (fit_collectives(rows, has_nvls=has, is_mesh=is_mesh) for has in (False, True))
        return with_it if with_it.cost < 0.95 * without.cost else without
    work = Work.of(rows, has_nvls, is_mesh)
    log_time = np.log([row.time_us for row in rows])
    message = np.log(work.message[work.is_there])
    first = max(float(message.min()), _CURVE[0])
    last = max(first, min(float(message.max()), _CURVE[1]))
    knots = np.arange(first, last + _KNOT, _KNOT)
    names = list(PRIORS)
    typical, spread = np.log([PRIORS[name][0] for name in names]), np.array([PRIORS[name][1] for name in names])

    def model_of(x: Floats) -> CollectiveModel:
        constants = dict(zip(names, np.exp(x[: len(names)]).tolist(), strict=True))
        return CollectiveModel(constants, knots, x[len(names) :], has_nvls, is_mesh)

    def residuals(x: Floats) -> Floats:
        error = (np.log(model_of(x).times(work).min(axis=1)) - log_time) / _ROBUST
        curve = x[len(names) :]
        typically = (x[: len(names)] - typical) / spread
        return np.concatenate((robust(error), typically, np.diff(curve) / _CHANGE, [curve[0] / _START]))

    start = np.concatenate((typical, np.zeros(len(knots))))
    for name, moved, counts in (
        ("inside_gbps", work.inside_bytes, work.between_bytes[:, 0] == 0),
        ("between_gbps", work.between_bytes, work.between_bytes[:, 0] > 0),
    ):
        if (chosen := counts & work.is_there[:, 0]).any():
            start[names.index(name)] = np.log(np.percentile(moved[chosen, 0] / np.exp(log_time[chosen]) / 1e3, 90) + 1e-3)
    # Which algorithm is the fastest depends on the constants, so that there are several optima.
    random = np.random.default_rng(0)
    moved_by = np.concatenate((spread / 2, np.full(len(knots), _START)))
    starts = [start, *(start + moved_by * random.standard_normal(len(start)) for _ in range(_STARTS - 1))]
    optimum = min((least_squares(residuals, start, max_nfev=200) for start in starts), key=lambda result: result.cost)
    return CollectiveFit(model_of(optimum.x), dict(zip(names, spread_of(optimum.jac), strict=False)), float(optimum.cost))


def errors_of_rows(model: CollectiveModel, rows: Sequence[CollectiveTime]) -> list[float]:
    """Relative errors of the model's times, with their signs."""
    return (model.predict(rows)[0] / np.array([row.time_us for row in rows]) - 1).tolist()  # type: ignore[no-any-return]


def _left_out(rows: Sequence[CollectiveTime], fitted: CollectiveModel) -> tuple[dict[str, Errors], dict[str, float]]:
    """Errors on whole collectives, node counts and thirds of the sizes that a fit to all others has not seen.

    Returns
    -------
    tuple
        Errors by what was left out; `all` has all of them together: the error to expect of what was not measured. And by how much
        each constant differs between these fits, as a share: rows of one test are no independent times, so that it is more than
        a fit to all of them says.
    """
    sizes = sorted({row.size_bytes for row in rows})
    bounds = sorted({sizes[len(sizes) * part // 3] for part in range(3)})

    def third(row: CollectiveTime) -> str:
        return f"sizes from {format_size(max(bound for bound in bounds if bound <= row.size_bytes))}"

    kinds: tuple[Callable[[CollectiveTime], str], ...] = (lambda row: row.collective, lambda row: f"{row.nodes} nodes", third)
    errors_of_group: dict[str, Errors] = {}
    every: list[float] = []
    differs = dict.fromkeys(PRIORS, 0.0)
    for kind in kinds:
        groups = list(dict.fromkeys(map(kind, rows)))
        models = []
        for group in groups if len(groups) > 1 else ():
            inside, others = ([row for row in rows if (kind(row) == group) is is_in] for is_in in (True, False))
            if len(others) < _LEAST_TIMES:
                continue
            models.append(fit_collectives(others, has_nvls=fitted.has_nvls, is_mesh=fitted.is_mesh).model)
            errors = [abs(error) for error in errors_of_rows(models[-1], inside)]
            errors_of_group[group] = Errors.of(errors)
            every += errors
        for name in PRIORS if len(models) > 1 else ():
            values = np.log([model.constants[name] for model in models])
            differs[name] = max(differs[name], float(np.sqrt(len(models) - 1) * values.std()))
    return errors_of_group | ({"all": Errors.of(every)} if every else {}), differs


_FORMAT = "astra_tacos calibration of collectives 1"


def calibrate_collectives(
    paths: Sequence[Path], network: Path | None, reading: Reading, output: Path | None, progress: Progress = silent
) -> dict[str, Any]:
    """Fit the constants of a machine to times of its collectives, and write them with a network.

    Parameters
    ----------
    network
        Says the shape where the files do not, that GPUs of a node are a mesh (FullyConnected), and that a switch adds.
    output
        The directory to write; None for none.
    """
    is_mesh, has_nvls, shape = False, None, None
    if network is not None:
        config = read_network(network)
        first = config.dimensions[0].size if config.dimensions else config.num_npus
        shape = (config.num_npus // first, first)
        is_mesh = bool(config.dimensions) and config.dimensions[0].block == COMPLETE
        has_nvls = True if config.reducing else None
    with progress("reading"):
        measured = read_collectives(paths, replace(reading, shape=shape))
        rows = measured.rows
    with progress("fitting"):
        fitted = fit_collectives(rows, has_nvls=has_nvls, is_mesh=is_mesh)
        others, differs = _left_out(rows, fitted.model)
    result = _result(rows, fitted, others, differs) | {"notes": measured.notes}
    system = default_system(sum(result[name] > 1 for name in ("nodes", "gpus_per_node")))
    files = {
        "system.json": json.dumps(system, indent=2) + "\n",
        "network.yml": _network(result, _carried(rows, fitted, others)),
    }
    return write_calibration(output, result, files)


def check_collectives(folder: Path, paths: Sequence[Path], reading: Reading, least_bytes: int) -> dict[str, Any]:
    """Errors of a calibration on other times: `median`, `p90`, `worst`, by collective, size and nodes, and each row.

    Raises
    ------
    ConfigError
        If the directory has no calibration of collectives, or a file no times.
    """
    model, shape = _read(folder / CALIBRATION_FILE)
    measured = read_collectives(paths, replace(reading, shape=shape))
    rows = [row for row in measured.rows if row.size_bytes >= least_bytes]
    if not rows:
        raise ConfigError(f"no times of {format_size(least_bytes)} or more, expected some to check")
    with np.errstate(over="ignore"):
        times, algorithms = model.predict(rows)
        errors = errors_of_rows(model, rows)
    if not np.isfinite(errors).all():
        path = folder / CALIBRATION_FILE
        raise ConfigError(f"{path}: the constants give infinite times, expected fitted constants: calibrate again")
    groups: dict[str, dict[str, list[float]]] = {"collective": {}, "size": {}, "nodes": {}}
    for row, error in zip(rows, errors, strict=True):
        size = _SIZES_IN_ONE ** int(np.log(row.size_bytes) / np.log(_SIZES_IN_ONE) + 1e-9)
        names = (row.collective, f"from {format_size(size)}", f"{row.nodes} x {row.gpus} GPUs")
        for kind, name in zip(groups.values(), names, strict=True):
            kind.setdefault(name, []).append(abs(error))
    return {
        **asdict(Errors.of([abs(error) for error in errors])),
        **{
            f"by_{kind}": {name: asdict(Errors.of(group_errors)) for name, group_errors in errors_of.items()}
            for kind, errors_of in groups.items()
        },
        "rows": [
            asdict(row) | {"predicted_us": time, "by": algorithm, "error": error}
            for row, time, algorithm, error in zip(rows, times.tolist(), algorithms, errors, strict=True)
        ],
        "notes": measured.notes,
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


class _Curve(msgspec.Struct):
    message_bytes: Annotated[list[FittedNumber], msgspec.Meta(min_length=1)]
    factor: list[FittedNumber]


class _Calibration(msgspec.Struct):
    """`calibration.json`."""

    format: Annotated[str, one_of([_FORMAT])]
    nodes: Annotated[int, msgspec.Meta(ge=1, le=MAX_NPUS)]
    gpus_per_node: Annotated[int, msgspec.Meta(ge=1, le=MAX_NPUS)]
    constants: dict[str, FittedConstant]
    step_curve: _Curve
    has_nvls: bool
    is_mesh: bool


def _read(path: Path) -> tuple[CollectiveModel, tuple[int, int]]:
    """The model of a calibration, and its shape."""
    calibration = read_own(path, _Calibration, "calibrate --output for times of collectives")
    knots, factors = calibration.step_curve.message_bytes, calibration.step_curve.factor
    if len(knots) != len(factors):
        text = f"{len(knots)} message_bytes and {len(factors)} factor"
        raise ConfigError(f"{path}: step_curve has {text}, expected as many of each: calibrate again")
    if any(knot >= other for knot, other in pairwise(knots)):
        raise ConfigError(f"{path}: step_curve has message_bytes that do not ascend, expected ascending sizes: calibrate again")
    constants = constants_of(path, calibration.constants, PRIORS)
    model = CollectiveModel(constants, np.log(knots), np.log(factors), calibration.has_nvls, calibration.is_mesh)
    return model, (calibration.nodes, calibration.gpus_per_node)


def _carried(rows: Sequence[CollectiveTime], fitted: CollectiveFit, others: dict[str, Errors]) -> float:
    """The error that the network file carries: of its links alone, without launch and curve, from 1 MiB up.

    It is at least the median of all that was left out.
    """
    model = fitted.model
    shortest = np.full_like(model.curve, model.curve.min())
    links = replace(model, constants=model.constants | {"launch_us": 0.0, "growth": 0.0}, curve=shortest)
    large = [row for row in rows if row.size_bytes >= _FROM] or list(rows)
    own_error = Errors.of([abs(error) for error in errors_of_rows(links, large)]).median
    return max(own_error, others["all"].median if others else 0.0)


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
            dimensions.append(Dimension(block, size, round(gbps * GIB_PER_GB, 6), round(step * 1e3 / links, 3)))
    promised = result["left_out"].get("all")
    comment = f"# Fitted by astra-tacos calibrate to {result['times']} times of collectives.\n"
    if promised is not None:
        comment += f"# Off what was left out by {promised['median']:.1%} (median), {promised['p90']:.1%} (90th percentile).\n"
    return comment + network_yaml(dimensions, [error_line(error)])
