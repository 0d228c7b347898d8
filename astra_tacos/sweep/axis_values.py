"""The values of one axis: a list, or a range of numbers or sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from astra_tacos.config.yaml_text import describe
from astra_tacos.errors import ConfigError
from astra_tacos.sweep.field import check_keys
from astra_tacos.sweep.operations import MAX_INTEGER
from astra_tacos.sweep.settings import SETTINGS, read_number, read_size
from astra_tacos.units import parse_sizes

MAX_VALUES = 1_000_000
_SIZE = "size"
_NUMBERED = ("chunks_per_npu", "max_sends", "trials", "seed", "budget", "reduce_bandwidth", "root", _SIZE)
"""Keys of `point` whose values can be a range."""
_STEPS = ("step", "factor", "count")
_ROUNDING = 1e-9
"""Tolerance at the end of a range, in steps: three times 0.1 is slightly more than 0.3 and still belongs to the range."""


def list_values(name: str, value: object, where: str) -> list[tuple[str, Any]]:
    """The values of an axis as the file has them, each with its place in the file, as (place, value) pairs.

    Parameters
    ----------
    name
        Name of the axis.
    value
        The value of the axis in the file: a list or a range.
    where
        The place of that value, for errors.

    Raises
    ------
    ConfigError
        If the value is neither a list of at least one value nor a range.
    """
    if isinstance(value, Mapping) and (name not in SETTINGS or name in _NUMBERED) and "from" in value:
        return [(where, number) for number in _range(value, where, name == _SIZE)]
    if name == _SIZE and isinstance(value, str):
        return [(where, size) for size in parse_sizes(value, where)]
    if not isinstance(value, list) or not value:
        expected = "a list" if name in SETTINGS and name not in _NUMBERED else "a list, or {from, to, step, factor or count}"
        raise ConfigError(f"{where} is {'an empty list' if value == [] else describe(value)}, expected {expected}")
    values: list[tuple[str, Any]] = []
    for index, entry in enumerate(value):
        place = f"{where}[{index}]"
        if name == _SIZE and isinstance(entry, str):
            values += [(place, size) for size in parse_sizes(entry, place)]
        else:
            values.append((place, entry))
    return values


def read_variable(value: object, where: str) -> bool | int | float | str:
    """Read a value of an axis that is no key of `point`; only expressions use such an axis.

    Raises
    ------
    ConfigError
        If the value is not a number, a string or a truth value, or if it is an expression.
    """
    if isinstance(value, str):
        if value.lstrip().startswith("="):
            raise ConfigError(f"{where} is {describe(value)}, expected a plain value: expressions go under point or define")
        return value
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ConfigError(f"{where} is {describe(value)}, expected a whole number of 64 bits")
        return value
    return read_number(value, where, "a number, a string, true or false", math.isfinite)


def _range(mapping: Mapping[str, Any], where: str, of_sizes: bool) -> list[float]:
    """The numbers of a range {from, to, and one of step, factor and count}; `to` is among them where a step meets it."""
    check_keys(mapping, where, ("from", "to", *_STEPS))
    steps = [key for key in _STEPS if key in mapping]
    if "to" not in mapping or len(steps) != 1:
        raise ConfigError(f"{where} has {', '.join(mapping)}, expected from, to and one of {', '.join(_STEPS)}")
    first, last = (_number(mapping[key], f"{where}.{key}", of_sizes) for key in ("from", "to"))
    if last < first:
        raise ConfigError(f"{where}.to is {describe(mapping['to'])}, expected at least {first!r}, where the range begins")
    (key,) = steps
    place = f"{where}.{key}"
    if key == "factor":
        return _powers(first, last, read_number(mapping[key], place, "a number above 1", lambda number: number > 1), where)
    if key == "count":
        count = int(read_number(mapping[key], place, "a whole number from 2 on", lambda n: n >= 2 and n.is_integer()))
        _check_count(count, where)
        return [_exact(first + (last - first) * index / (count - 1)) for index in range(count - 1)] + [last]
    step = _number(mapping[key], place, of_sizes)
    if step <= 0:
        raise ConfigError(f"{place} is {describe(mapping[key])}, expected a number above 0")
    length = (last - first) / step + 1 + _ROUNDING
    _check_count(length, where)
    return [_exact(first + index * step) for index in range(int(length))]


def _powers(first: float, last: float, factor: float, where: str) -> list[float]:
    if first <= 0:
        raise ConfigError(f"{where}.from is {first!r}, expected a number above 0, as there is a factor")
    numbers: list[float] = []
    number = float(first)
    while number <= last * (1 + _ROUNDING):
        numbers.append(_exact(number))
        number = first * factor ** len(numbers)
        _check_count(len(numbers), where)
    return numbers


def _number(value: object, where: str, of_sizes: bool) -> float:
    if of_sizes:
        return read_size(value, where)
    number = read_number(value, where, "a number", math.isfinite)
    return value if isinstance(value, int) else number


def _exact(number: float) -> float:
    """A whole number as an integer, any other number rounded to 12 digits: three times 0.05 is 0.15, not 0.15000000000000002."""
    if isinstance(number, int) or number.is_integer():
        return int(number)
    return float(f"{number:.12g}")


def _check_count(count: float, where: str) -> None:
    if count > MAX_VALUES:
        raise ConfigError(f"{where} gives {count:,.0f} values, expected at most {MAX_VALUES:,}")
