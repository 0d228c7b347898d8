"""Keys of a sweep file's `point` that describe the task: the options of `astra-tacos synthesize` and `astra-tacos plan`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from astra_tacos.collective import COLLECTIVES
from astra_tacos.planner.endpoint.endpoint import EXPECTED, parse_endpoint
from astra_tacos.run.backend import CONGESTION_AWARE, MODELS
from astra_tacos.run.placement_matrix import read_placement
from astra_tacos.run.system import NATIVE_ALGORITHMS
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.study.sweep.point import BEST_PLACEMENT, COLLECTIVE, WORKLOAD
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import finite_number, is_whole
from astra_tacos.support.formats.values import describe, filled_text
from astra_tacos.support.units import parse_size
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS
from astra_tacos.synthesizer.chunk_counts import MAX_SENDS
from astra_tacos.synthesizer.search.search_options import DEFAULT, EFFORTS
from astra_tacos.synthesizer.work import parse_budget

REQUIRED = object()
_BASELINES = tuple(name for name in NATIVE_ALGORITHMS if not name.startswith("one"))
_MOST = (1 << 62) - 1
"""Whole numbers that a setting may have: sums of two fit int64."""
_Read = Callable[[object, object], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of `point`.

    Parameters
    ----------
    read
        Checks a value of the file, given with its place, and returns the value that is used; raises `ConfigError`.
    defaults
        Default value by kind of points that have the key; `REQUIRED` if the file must give a value.
    """

    read: _Read
    column: str
    defaults: Mapping[str, Any]


@contextlib.contextmanager
def naming(where: object) -> Iterator[None]:
    """Prefix errors of a file or text that the sweep file names with the place of that name."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _refuse(value: object, where: object, expected: str) -> ConfigError:
    return ConfigError(f"{where} is {describe(value)}, expected {expected}")


def _or_null(read: _Read, null: str = "null") -> _Read:
    """A reader that also takes null, and the text `null`, for None."""

    def read_one(value: object, where: object) -> Any:
        if value is None or value == null:
            return None
        try:
            return read(value, where)
        except ConfigError as error:
            raise ConfigError(f"{error}, or {null}") from None

    return read_one


def _choice(choices: Iterable[str]) -> _Read:
    names = tuple(choices)

    def read(value: object, where: object) -> Any:
        if value not in names:
            raise _refuse(value, where, ", ".join(names))
        return value

    return read


def _synthesizer(value: object, where: object) -> Any:
    """Read the name of a synthesizer; users may register some at any time."""
    return _choice((AUTO, *SYNTHESIZERS))(value, where)


def _whole(least: int) -> _Read:
    """Make a reader of whole numbers from `least` on."""

    def read(value: object, where: object) -> Any:
        if not is_whole(value, least, _MOST):
            raise _refuse(value, where, f"a whole number from {least} on")
        return value

    return read


def read_number(value: object, where: object, expected: str, is_fit: Callable[[float], bool] = math.isfinite) -> float:
    """Read a finite number; a number in quotes is accepted, too.

    Raises
    ------
    ConfigError
        If the value is no number or not allowed.
    """
    number = finite_number(value)
    if number is None or not is_fit(number):
        raise _refuse(value, where, expected)
    return number


def _budget(value: object, where: object) -> int:
    try:
        return parse_budget(str(value), str(where))
    except ConfigError:
        raise _refuse(value, where, "sends examined such as 20M, seconds such as 10s (or 10)") from None


def _speed(value: object, where: object) -> float:
    return read_number(value, where, "a number of GB/s, 0 or more", lambda number: number >= 0)


def read_size(value: object, where: object) -> int:
    """Read a size, a number of bytes or a text such as 64MiB, and return it in bytes.

    Raises
    ------
    ConfigError
        If the value is no size, or out of range.
    """
    return parse_size(str(value), str(where))


def _path(value: object, where: object) -> str:
    return filled_text(value, where, "a path")


def _placement(value: object, where: object) -> str:
    expected = f"axes and their parts in each level like tp:1x8,dp:4x2, {BEST_PLACEMENT}"
    text = filled_text(value, where, expected)
    if text != BEST_PLACEMENT:
        try:
            read_placement(text)
        except ConfigError:
            raise _refuse(value, where, expected) from None
    return text


def _endpoint(value: object, where: object) -> str:
    text = filled_text(value, where, EXPECTED)
    with naming(where):
        parse_endpoint(text)
    return text


def _of(read: _Read, column: str, collective: Any = None, workload: Any = None) -> Setting:
    """A setting of both kinds of points."""
    return Setting(read, column, {COLLECTIVE: collective, WORKLOAD: workload})


_NONE = {WORKLOAD: None}
SETTINGS: dict[str, Setting] = {
    "collective": Setting(_choice(COLLECTIVES), "collective", {COLLECTIVE: "all-reduce"}),
    "root": Setting(_or_null(_whole(0)), "root", {COLLECTIVE: None}),
    "size": Setting(read_size, "size_bytes", {COLLECTIVE: REQUIRED}),
    "max_sends": Setting(_whole(1), "max_sends", {COLLECTIVE: MAX_SENDS}),
    "link_model": Setting(_choice((*LINK_MODELS, "fastest", "auto")), "link_model", {COLLECTIVE: "auto"}),
    "synthesizer": _of(_synthesizer, "synthesizer", AUTO, AUTO),
    "chunks_per_npu": _of(_or_null(_whole(1), "auto"), "chunks_per_npu"),
    "trials": _of(_or_null(_whole(1)), "trials", None, 4),
    "seed": _of(_whole(0), "seed", 0, 0),
    "effort": _of(_choice(EFFORTS), "effort", DEFAULT, DEFAULT),
    "budget": _of(_or_null(_budget), "budget_sends"),
    "reduce_bandwidth": _of(_speed, "reduce_bandwidth_gbps", 0.0, 0.0),
    "workload": Setting(_path, "workload", {WORKLOAD: REQUIRED}),
    **{name: Setting(_or_null(_path), name, _NONE) for name in ("system", "comm_group", "remote_memory", "directory")},
    "baseline": Setting(_or_null(_choice(_BASELINES)), "baseline", _NONE),
    "placement": Setting(_or_null(_placement), "placement", _NONE),
    "endpoint": Setting(_or_null(_endpoint), "endpoint", _NONE),
    "backend": _of(_or_null(_choice(MODELS)), "backend", CONGESTION_AWARE.name, CONGESTION_AWARE.name),
}
"""Keys of `point` other than `network` and `failed_links`; they are named as the options of the command line."""
