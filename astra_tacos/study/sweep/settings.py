"""Keys of a sweep file's `point` that describe the task: the options of `astra-tacos synthesize` and `astra-tacos plan`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from astra_tacos.collective import COLLECTIVES
from astra_tacos.planner.endpoint.endpoint import EXPECTED, parse_endpoint
from astra_tacos.run.backend import MODELS
from astra_tacos.run.placement_matrix import read_placement
from astra_tacos.run.system import NATIVE_ALGORITHMS
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.study.sweep.point import BEST_PLACEMENT, COLLECTIVE, WORKLOAD
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import describe, filled_text, parse_decimal
from astra_tacos.support.units import MAX_SIZE_BYTES, format_size, parse_size
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS
from astra_tacos.synthesizer.chunk_counts import MAX_SENDS
from astra_tacos.synthesizer.search.search_options import DEFAULT, EFFORTS
from astra_tacos.synthesizer.work import parse_budget

REQUIRED = object()
_BASELINES = tuple(name for name in NATIVE_ALGORITHMS if not name.startswith("one"))
_MOST = (1 << 62) - 1
_Read = Callable[[object, str], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of `point`.

    Parameters
    ----------
    read
        Checks a value of the file, given with its place, and returns the value that is used; raises `ConfigError`.
    column
        Column of the row that holds the value.
    defaults
        Default value by kind of points that have the key; `REQUIRED` if the file must give a value.
    """

    read: _Read
    column: str
    defaults: Mapping[str, Any]


def _refuse(value: object, where: str, expected: str) -> ConfigError:
    return ConfigError(f"{where} is {describe(value)}, expected {expected}")


def _choice(choices: Iterable[str], may_be_null: bool = False) -> _Read:
    names = tuple(choices)

    def read(value: object, where: str) -> Any:
        if value is None and may_be_null:
            return None
        if value not in names:
            raise _refuse(value, where, ", ".join(names) + (" or null" if may_be_null else ""))
        return value

    return read


def _whole(least: int, null: str = "") -> _Read:
    """Make a reader of whole numbers from `least` on; if `null` is given, it reads that text, and null, as None."""

    def read(value: object, where: str) -> Any:
        if null and (value is None or value == null):
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
            raise _refuse(value, where, f"a whole number from {least} on" + (f", or {null}" if null else ""))
        return value

    return read


def read_number(value: object, where: str, expected: str, is_fit: Callable[[float], bool]) -> float:
    """Read a finite number; a number in quotes is accepted, too.

    Parameters
    ----------
    value
        The value in the file.
    where
        The place of the value, for errors.
    expected
        What an error says was expected.
    is_fit
        Whether a finite number is allowed here.

    Raises
    ------
    ConfigError
        If the value is no number or not allowed.
    """
    number: float | None = None
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            number = parse_decimal(value) if isinstance(value, str) else float(value)
    if number is None or not math.isfinite(number) or not is_fit(number):
        raise _refuse(value, where, expected)
    return number


def _budget(value: object, where: str) -> int | None:
    if value is None:
        return None
    is_text = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    try:
        return parse_budget(str(value) if is_text else "", where)
    except ConfigError:
        raise _refuse(value, where, "sends examined such as 20M, seconds such as 10s (or 10), or null") from None


def _speed(value: object, where: str) -> float:
    return read_number(value, where, "a number of GB/s, 0 or more", lambda number: number >= 0)


def read_size(value: object, where: str) -> int:
    """Read a size, a number of bytes or a text such as 64MiB, and return it in bytes.

    Raises
    ------
    ConfigError
        If the value is no size, or out of range.
    """
    if isinstance(value, str):
        return parse_size(value, where)
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 < value <= MAX_SIZE_BYTES:
            return value
        raise _refuse(value, where, f"a size above 0 and at most {format_size(MAX_SIZE_BYTES)}")
    raise _refuse(value, where, "a size such as 4096, 64MiB or 1GB")


def _path(may_be_null: bool = True) -> _Read:
    def read(value: object, where: str) -> Any:
        if value is None and may_be_null:
            return None
        return filled_text(value, where, "a path" + (" or null" if may_be_null else ""))

    return read


def _placement(value: object, where: str) -> str | None:
    if value is None or value == BEST_PLACEMENT:
        return value
    try:
        read_placement(value if isinstance(value, str) else "")
    except ConfigError:
        expected = f"axes and their parts in each level like tp:1x8,dp:4x2, {BEST_PLACEMENT}, or null"
        raise _refuse(value, where, expected) from None
    return str(value)


def _endpoint(value: object, where: str) -> str | None:
    if value is None:
        return None
    try:
        parse_endpoint(value if isinstance(value, str) else "")
    except ConfigError as error:
        if isinstance(value, str) and value:
            raise ConfigError(f"{where}: {error}") from None
        raise _refuse(value, where, f"{EXPECTED}, or null") from None
    return str(value)


def _of(read: _Read, column: str, collective: Any = None, workload: Any = None) -> Setting:
    """A setting of both kinds of points."""
    return Setting(read, column, {COLLECTIVE: collective, WORKLOAD: workload})


_NONE = {WORKLOAD: None}
SETTINGS: dict[str, Setting] = {
    "collective": Setting(_choice(COLLECTIVES), "collective", {COLLECTIVE: "all-reduce"}),
    "root": Setting(_whole(0, "null"), "root", {COLLECTIVE: None}),
    "size": Setting(read_size, "size_bytes", {COLLECTIVE: REQUIRED}),
    "max_sends": Setting(_whole(1), "max_sends", {COLLECTIVE: MAX_SENDS}),
    "link_model": Setting(_choice((*LINK_MODELS, "fastest", "auto")), "link_model", {COLLECTIVE: "auto"}),
    "synthesizer": _of(_choice((AUTO, *SYNTHESIZERS)), "synthesizer", AUTO, AUTO),
    "chunks_per_npu": _of(_whole(1, "auto"), "chunks_per_npu"),
    "trials": _of(_whole(1, "null"), "trials", None, 4),
    "seed": _of(_whole(0), "seed", 0, 0),
    "effort": _of(_choice(EFFORTS), "effort", DEFAULT, DEFAULT),
    "budget": _of(_budget, "budget_sends"),
    "reduce_bandwidth": _of(_speed, "reduce_bandwidth_gbps", 0.0, 0.0),
    "workload": Setting(_path(may_be_null=False), "workload", {WORKLOAD: REQUIRED}),
    "system": Setting(_path(), "system", _NONE),
    "comm_group": Setting(_path(), "comm_group", _NONE),
    "remote_memory": Setting(_path(), "remote_memory", _NONE),
    "directory": Setting(_path(), "directory", _NONE),
    "baseline": Setting(_choice(_BASELINES, may_be_null=True), "baseline", _NONE),
    "placement": Setting(_placement, "placement", _NONE),
    "endpoint": Setting(_endpoint, "endpoint", _NONE),
    "backend": _of(_choice(tuple(MODELS), may_be_null=True), "backend"),
}
"""Keys of `point` other than `network` and `failed_links`; they are named as the options of the command line."""
