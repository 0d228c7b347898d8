"""Which algorithm of MPI is the fastest on a torus: constants from times of named algorithms, and shares of right choices."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from astra_tacos.network.blocks.ring import RING
from astra_tacos.network.network_config import Dimension, network_yaml
from astra_tacos.solver.first_use import Progress, silent
from astra_tacos.study.calibrator.machine import (
    CALIBRATION_FILE,
    Errors,
    FittedConstant,
    constants_of,
    robust,
    spread_of,
    write_calibration,
)
from astra_tacos.study.calibrator.nccl_tests import check_time, whole_of
from astra_tacos.study.calibrator.torus_work import TorusWork, work_of
from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.own_files import read_own
from astra_tacos.support.text_files import parse_decimal, parse_whole, read_text
from astra_tacos.support.units import GIB_PER_GB

FORMAT = "astra_tacos calibration of algorithms on tori 1"
_COLUMNS = ("shape", "collective", "algorithm", "size_bytes", "time_us")
_OF_LIBRARY = {
    "launch": (4, "launch of a call, us"),
    "step": (2, "step, us"),
    "port": (0.5, "further message of a step, us"),
    "added": (5e-5, "added byte, us"),
    "copied": (7e-5, "copied byte, us"),
}
_OF_MACHINE = {
    "hop": (0.1, "hop, us"),
    "wire": (1.6e-4, "byte over the busiest link, us"),
    "block": (0.02, "block put into place, us"),
    "setup": (0.4, "setup of ports, us a rank"),
    "ring_added": (5e-5, "added byte of rings, us"),
}
"""Counts of `TorusWork`: typical constants, and what they are."""
_LIBRARIES = ("mpi", "utofu")
"""Messages by MPI, or by code that talks to the hardware."""
CONSTANTS = {f"{library} {name}": entry for library in _LIBRARIES for name, entry in _OF_LIBRARY.items()} | _OF_MACHINE
_SPREAD, _ROBUST, _UNKNOWN = 3.0, 0.2, 0.9
_FOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
_MOST_LINKS = 6
_CLOSE = 1.1
"""A choice is right if it takes at most so many times the time of the fastest."""
_LEAST_TIMES = 12

Point = tuple[str, str, int]
"""Shape, collective and size: where algorithms compete."""


@dataclass(frozen=True, slots=True)
class NamedTime:
    """A measured time of an algorithm with a name, and the line it stands on."""

    dims: tuple[int, ...]
    collective: str
    algorithm: str
    size_bytes: int
    segment_bytes: int
    ports: int
    time_us: float
    source: str

    @property
    def point(self) -> Point:
        """Where it competes."""
        return "x".join(map(str, self.dims)), self.collective, self.size_bytes


@cache
def _counts(row: NamedTime, fold: float) -> list[float] | None:
    """Counts of an algorithm's constants; None without a description."""
    work = work_of(row.collective, row.algorithm, TorusWork(row.dims, row.ports, fold), row.segment_bytes, row.size_bytes)
    if work is None:
        return None
    own = "utofu" if row.algorithm.lower().endswith("-utofu") else "mpi"
    of_libraries = [work[name] * (library == own) for library in _LIBRARIES for name in _OF_LIBRARY]
    return [*of_libraries, *(work[name] for name in _OF_MACHINE)]


@dataclass(frozen=True, slots=True)
class TorusModel:
    """Constants by name, how uncertain they are (as shares), the fold, and the cost of the fit."""

    constants: dict[str, float]
    uncertainty: dict[str, float]
    fold: float
    cost: float = 0.0

    def times(self, rows: Sequence[NamedTime]) -> list[float]:
        """Times in us of algorithms that have a description."""
        return (np.array([_counts(row, self.fold) for row in rows]) @ np.array(list(self.constants.values()))).tolist()  # type: ignore[no-any-return]


def is_of_tori(path: Path) -> bool:
    """Whether a file is CSV with shapes of tori."""
    return path.suffix == ".csv" and path.is_file() and "shape" in read_text(path).split("\n", 1)[0].strip().split(",")


def read_named(path: Path, where: Mapping[str, str]) -> list[NamedTime]:
    """Times of a CSV, with columns `_COLUMNS`, and perhaps `segment_bytes` and `ports`.

    Raises
    ------
    ConfigError
        With the number of the line, if a line is no measurement.
    """
    table = csv.DictReader(read_text(path).splitlines())
    head = table.fieldnames or []
    if missing := [name for name in (*_COLUMNS, *where) if name not in head]:
        raise ConfigError(f"{path}:1: has no column {', '.join(missing)}, only {', '.join(head)}")
    found = []
    for fields in table:
        line = f"{path}:{table.line_num}"
        if None in fields or None in fields.values():
            raise ConfigError(f"{line}: has other columns than the first line")
        if any(fields[name] != value for name, value in where.items()):
            continue
        dims = tuple(parse_whole(text) or 0 for text in fields["shape"].split("x"))
        if not all(size > 1 and size & (size - 1) == 0 for size in dims):
            raise ConfigError(f"{line}: shape is {fields['shape']!r}, expected powers of two like 4x4x4")
        size, segment, ports = (
            whole_of(line, name, fields.get(name) or default)
            for name, default in (("size_bytes", ""), ("segment_bytes", "0"), ("ports", "1"))
        )
        if not size or not ports:
            raise ConfigError(f"{line}: size_bytes is {size} and ports is {ports}, expected 1 or more of both")
        time = check_time(line, "time_us", parse_decimal(fields["time_us"]), fields["time_us"])
        found.append(NamedTime(dims, fields["collective"], fields["algorithm"], size, segment, ports, time, line))
    return found


def described(rows: Sequence[NamedTime], wire_us: float = 0.0) -> tuple[list[NamedTime], dict[str, str]]:
    """Times whose algorithm has a description, and why others are left out, by collective and name.

    A name that is faster anywhere than its bytes take over `_MOST_LINKS` links at once (`wire_us` a byte) stands for another one.
    """
    wire = list(CONSTANTS).index("wire")
    why = {}
    for row in rows:
        counts = _counts(row, min(_FOLDS))
        if counts is None:
            why[f"{row.collective} {row.algorithm}"] = "no description"
        elif row.time_us < counts[wire] * wire_us / _MOST_LINKS:
            why[f"{row.collective} {row.algorithm}"] = "faster than its bytes allow"
    return [row for row in rows if f"{row.collective} {row.algorithm}" not in why], why


def fit_tori(rows: Sequence[NamedTime]) -> TorusModel:
    """The constants that fit some times of described algorithms best.

    Raises
    ------
    ConfigError
        If there are too few times.
    """
    from scipy.optimize import least_squares

    if len(rows) < _LEAST_TIMES:
        raise ConfigError(f"{len(rows)} times of algorithms with a description, expected at least {_LEAST_TIMES}")
    measured = np.log([row.time_us for row in rows])
    typical = np.log([value for value, _ in CONSTANTS.values()])
    models = []
    for fold in _FOLDS:
        counts = np.array([_counts(row, fold) for row in rows])

        def residuals(x: Floats, counts: Floats = counts) -> Floats:
            error = (np.log(counts @ np.exp(x)) - measured) / _ROBUST
            return np.concatenate((robust(error), (x - typical) / _SPREAD))

        found = least_squares(residuals, typical)
        values = np.exp(found.x).tolist()
        constants, uncertainty = (dict(zip(CONSTANTS, each, strict=True)) for each in (values, spread_of(found.jac)))
        models.append(TorusModel(constants, uncertainty, fold, float(found.cost)))
    return min(models, key=lambda model: model.cost)


def choices(model: TorusModel, rows: Sequence[NamedTime]) -> list[dict[str, Any]]:
    """What the model takes for the fastest, and what is, wherever two described algorithms compete (each with its best ports)."""
    points: dict[Point, dict[str, tuple[float, float]]] = {}
    for row, time in zip(rows, model.times(rows), strict=True):
        own = points.setdefault(row.point, {})
        measured, modelled = own.get(row.algorithm, (float("inf"), float("inf")))
        own[row.algorithm] = min(measured, row.time_us), min(modelled, time)
    found = []
    for (shape, collective, size), times in points.items():
        if len(times) > 1:
            chosen, fastest = (min(times, key=lambda name: times[name][at]) for at in (1, 0))
            slower = times[chosen][0] / times[fastest][0] - 1
            found.append({"shape": shape, "collective": collective, "size_bytes": size, "algorithms": len(times),
                          "chosen": chosen, "fastest": fastest, "chosen_us": times[chosen][0], "fastest_us": times[fastest][0],
                          "slower": slower, "is_right": slower <= _CLOSE - 1})  # fmt: skip
    return found


def calibrate_tori(
    paths: Sequence[Path], where: Mapping[str, str], output: Path | None, progress: Progress = silent
) -> dict[str, Any]:
    """Fit constants to times of named algorithms; each shape is also predicted from the others. Each shape gets a network."""
    with progress("reading"):
        every = [row for path in paths for row in read_named(path, where)]
    with progress("fitting"):
        rows, why = described(every, fit_tori(described(every)[0]).constants["wire"])
        model = fit_tori(rows)
        shapes = list(dict.fromkeys(row.dims for row in rows))
        others = [
            choice
            for dims in (shapes if len(shapes) > 1 else ())
            for choice in choices(fit_tori([row for row in rows if row.dims != dims]), [row for row in rows if row.dims == dims])
        ]
    result = {
        "format": FORMAT,
        "times": len(rows),
        "constants": {
            name: {
                "value": value,
                "uncertainty": model.uncertainty[name],
                "is_measured": model.uncertainty[name] < _UNKNOWN * _SPREAD,
                "meaning": CONSTANTS[name][1],
            }
            for name, value in model.constants.items()
        },
        "fold": model.fold,
        "not_described": dict(Counter(why.values())),
        "names": why,
        "fitted": _shares(choices(model, rows)),
        "left_out": _shares(others),
    }
    gibps, hop = (1e-3 / model.constants["wire"]) * GIB_PER_GB, model.constants["hop"] * 1e3
    about = f"# Fitted by astra-tacos calibrate to {len(rows)} times of algorithms on tori.\n"
    networks = {dims: [Dimension(RING.name, size, round(gibps, 6), round(hop, 3)) for size in dims] for dims in shapes}
    files = {f"network_{'x'.join(map(str, dims))}.yml": about + network_yaml(sizes) for dims, sizes in networks.items()}
    return write_calibration(output, result, files)


class _Calibration(msgspec.Struct):
    """`calibration.json`."""

    constants: dict[str, FittedConstant]
    fold: Annotated[float, msgspec.Meta(gt=0, le=1)]


def check_tori(folder: Path, paths: Sequence[Path], where: Mapping[str, str], least_bytes: int) -> dict[str, Any]:
    """Right choices of a calibration on other times: the share of them, by collective and shape, and each."""
    path = folder / CALIBRATION_FILE
    found = read_own(path, _Calibration, "calibrate --output for algorithms on tori")
    constants = constants_of(path, found.constants, CONSTANTS)
    model = TorusModel(constants, {}, found.fold)
    every = [row for path in paths for row in read_named(path, where) if row.size_bytes >= least_bytes]
    rows, why = described(every, constants["wire"])
    made = choices(model, rows) if rows else []
    if not made:
        raise ConfigError("no size at which two algorithms with a description compete, expected some to check")
    slower = asdict(Errors.of([choice["slower"] for choice in made]))
    return {**slower, **_share(made), "by": _shares(made), "names": why, "rows": made}


def _share(made: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    right = sum(choice["is_right"] for choice in made)
    return {"right": right, "count": len(made), "share": right / len(made)}


def _shares(made: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The share of right choices, in all and by shape and collective."""
    found: dict[str, list[Mapping[str, Any]]] = {"all": list(made)}
    for kind in ("shape", "collective"):
        for choice in made:
            found.setdefault(choice[kind], []).append(choice)
    return {key: _share(own) for key, own in found.items() if own}
