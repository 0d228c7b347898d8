"""The `axes` of a sweep file: blocks of axes that vary together (`grid`, `zip`, `list`); all blocks are combined.

Values may contain expressions: `"= 600 - b0 - b1"`, alone, in a list or in a mapping.
"""

from __future__ import annotations

import itertools
import keyword
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from astra_tacos.study.sweep.point import INPUT_COLUMNS, RESULT_COLUMNS
from astra_tacos.study.sweep.settings import SETTINGS, read_number, read_size
from astra_tacos.support.documents import Value
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.expression import FUNCTIONS, MAX_INTEGER, SCALARS, Expression, Names, parse_expression
from astra_tacos.support.formats.values import describe, list_value, mapping_value
from astra_tacos.support.units import parse_sizes

MARK = "="
"""First character of a string that is an expression."""
_ABSENT = object()
MAX_POINTS = 1_000_000
"""Of a sweep, and values of an axis: all are kept in memory."""
_ROUNDING = 1e-9
"""Tolerance at the end of a range, in steps: three times 0.1 is slightly more than 0.3 and still belongs to the range."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A value of the sweep file.

    Parameters
    ----------
    value
        Computes the value from the values of names; whole numbers are integers, even as the result of a division.
    """

    where: Value
    expressions: tuple[Expression, ...]
    value: Callable[[Names], Any]
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = sorted({name for expression in self.expressions for name in expression.names})
        object.__setattr__(self, "names", tuple(names))

    @property
    def is_constant(self) -> bool:
        """Whether the value contains no expression."""
        return not self.expressions

    def depends_on(self, names: Names) -> tuple[Any, ...]:
        """Key for caches of this value: the values and types of its names (types, because 1 equals True)."""
        values = [names.get(name, _ABSENT) for name in self.names]
        return (*values, *map(type, values))


def read_field(value: object, where: Value) -> Field:
    """Make the field of a value of a YAML file.

    Raises
    ------
    ConfigError
        If a string that begins with `MARK` is not an expression.
    """
    if isinstance(value, list):
        entries = [read_field(entry, where / index) for index, entry in enumerate(value)]
        return Field(where, _expressions(entries), lambda names: [entry.value(names) for entry in entries])
    if isinstance(value, Mapping):
        fields = {key: read_field(entry, where / key) for key, entry in value.items()}
        return Field(
            where, _expressions(fields.values()), lambda names: {key: entry.value(names) for key, entry in fields.items()}
        )
    if is_expression(value):
        expression = read_expression(value, where)
        return Field(where, (expression,), lambda names: _whole(expression.value(names)))
    return Field(where, (), lambda names: value)


def is_expression(scalar: object) -> bool:
    """Whether a scalar of the file is an expression: its text begins with `MARK`."""
    return str(scalar).lstrip().startswith(MARK)


def read_expression(scalar: object, where: Value) -> Expression:
    """The expression that a scalar of the file is, with or without `MARK`.

    Raises
    ------
    ConfigError
        If it is none.
    """
    return parse_expression(str(scalar).strip().removeprefix(MARK), str(where))


def read_plain(value: object, where: Value) -> Any:
    """A value without expressions.

    Raises
    ------
    ConfigError
        If there is one.
    """
    if not read_field(value, where).is_constant:
        raise ConfigError(f"{where} is {describe(value)}, expected a plain value: expressions go under point or define")
    return value


def _expressions(fields: Iterable[Field]) -> tuple[Expression, ...]:
    return tuple(expression for entry in fields for expression in entry.expressions)


def _whole(value: Any) -> Any:
    """The value with whole floats such as 4.0, the result of a division, as integers, also within lists."""
    if isinstance(value, (list, tuple)):
        return [_whole(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


FAILED_LINKS, NETWORK = "failed_links", "network"
POINT_KEYS = (NETWORK, FAILED_LINKS, *SETTINGS)
DERIVED = {
    "total_bandwidth": "total_bandwidth_gbps",
    "cost": "cost",
    "num_npus": "num_npus",
    "num_links": "num_links",
    "bandwidth": "bandwidth_per_npu_gbps",
    "npus_count": "topology",
}
"""Names that conditions may use beside axes and definitions, and the column of the point's network that has the value (of
`npus_count`, the sizes of the dimensions)."""
_BLOCKS = ("grid", "zip", "list")
_SIZE = "size"
_NUMBERED = ("chunks_per_npu", "max_sends", "trials", "seed", "budget", "reduce_bandwidth", "root", _SIZE)
"""Keys of `point` whose values can be a range."""
_STEPS = ("step", "factor", "count")
# Columns of rows that are neither inputs nor axes.
_RESULTS = frozenset({"point", "key", "status", "error", *RESULT_COLUMNS})


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one value of an axis, or one entry of a list, sets.

    Parameters
    ----------
    given
        Keys of `point` that the part sets, with their values after reading.
    """

    names: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Iterable[Part]) -> Part:
        """Some parts as one; where several set a name, the last one counts."""
        names: dict[str, Any] = {}
        given: dict[str, Any] = {}
        for part in parts:
            names.update(part.names)
            given.update(part.given)
        return cls(names, given)


Read = Callable[[str, Any, Value], Part]
"""A function from the name of an axis, a value, and its place in the file to the part that the value sets."""


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """All axes of a sweep file.

    Parameters
    ----------
    places
        Place of each axis in the file, by name, in the order of the file.
    blocks
        Blocks of axes that vary together; a point has one part of each block.
    """

    places: dict[str, str]
    blocks: tuple[tuple[Part, ...], ...]

    @property
    def num_combinations(self) -> int:
        """Number of combinations of all blocks."""
        return math.prod(len(block) for block in self.blocks)

    def combinations(self) -> Iterator[Part]:
        """Yield every combination of one part of each block, joined; the last block changes fastest."""
        yield from map(Part.joined, itertools.product(*self.blocks))


def read_axes(document: object, where: Value, read_key: Read, missing: Callable[[str], Part]) -> Axes:
    """Read the axes of a sweep file.

    Parameters
    ----------
    document
        The value of `axes` in the sweep file.
    read_key
        Reads the value of an axis that is a key of `point`.
    missing
        Returns the part of such an axis, by name, for entries of a list that have no value for it.

    Raises
    ------
    ConfigError
        One line with the key, the value, and what was expected.
    """
    reader = _AxesReader(read_key, missing)
    if isinstance(document, Mapping):
        for key in document:
            if key in _BLOCKS:
                raise ConfigError(f"{where} has the key {key!r}, expected names of axes, or a list with `- {key}: ...` in it")
        blocks = [reader.grid(document, where)]
    elif isinstance(document, list):
        blocks = [reader.block(entry, where / index) for index, entry in enumerate(document)]
    else:
        raise ConfigError(f"{where} is {describe(document)}, expected a mapping of axes, or a list of grid, zip and list")
    axes = Axes(reader.places, tuple(tuple(block) for block in blocks))
    if axes.num_combinations > MAX_POINTS:
        raise ConfigError(f"{where} makes {axes.num_combinations:,} points, expected at most {MAX_POINTS:,}")
    return axes


@dataclass(slots=True)
class _AxesReader:
    read_key: Read
    missing: Callable[[str], Part]
    places: dict[str, str] = field(default_factory=dict)

    def block(self, entry: object, where: Value) -> list[Part]:
        if not isinstance(entry, Mapping) or len(entry) != 1 or next(iter(entry)) not in _BLOCKS:
            raise ConfigError(f"{where} is {describe(entry)}, expected one of {', '.join(_BLOCKS)}")
        ((kind, content),) = entry.items()
        if kind == "list":
            return self.listed(content, where / "list")
        return self.grid(content, where / kind) if kind == "grid" else self.zipped(content, where / "zip")

    def grid(self, content: object, where: Value) -> list[Part]:
        axes = self.axes(content, where)
        size = math.prod(len(parts) for parts in axes.values())
        if size > MAX_POINTS:
            raise ConfigError(f"{where} makes {size:,} points, expected at most {MAX_POINTS:,}")
        return list(map(Part.joined, itertools.product(*axes.values())))

    def zipped(self, content: object, where: Value) -> list[Part]:
        axes = self.axes(content, where)
        (first, length), *others = ((name, len(parts)) for name, parts in axes.items())
        for name, other in others:
            if other != length:
                raise ConfigError(f"{where / name} has {other} values, expected {length}, as many as {first}")
        return list(map(Part.joined, zip(*axes.values(), strict=True)))

    def axes(self, content: object, where: Value) -> dict[str, list[Part]]:
        axes = {}
        for name, values in mapping_value(content, where, "axes with their values", 1).items():
            place = where / name
            self.enter(name, where)
            axes[name] = [self.part(name, value, key) for key, value in list_values(name, values, place)]
        return axes

    def listed(self, content: object, where: Value) -> list[Part]:
        entries = {
            where / index: mapping_value(entry, where / index, "axes with a value each", 1)
            for index, entry in enumerate(list_value(content, where, "a list of mappings", 1))
        }
        names = dict.fromkeys(name for entry in entries.values() for name in entry)
        for name in names:
            self.enter(name, where)
        parts = []
        for place, entry in entries.items():
            for name in names:
                if name not in entry and name not in POINT_KEYS:
                    raise ConfigError(f"{place} lacks {name}, expected a value, as other entries have one")
            of_axes = (self.part(name, entry[name], place / name) if name in entry else self.missing(name) for name in names)
            parts.append(Part.joined(of_axes))
        return parts

    def enter(self, name: str, where: Value) -> None:
        """Check the name of an axis and remember the axis's place in the file."""
        place = where / name
        if name not in POINT_KEYS:
            check_name(name, where)
        if name in self.places:
            raise ConfigError(f"{place}: the axis stands at {self.places[name]} already, expected each name once")
        self.places[name] = str(place)

    def part(self, name: str, value: object, where: Value) -> Part:
        if name in POINT_KEYS:
            return self.read_key(name, value, where)
        return Part({name: read_variable(read_plain(value, where), where)})


def check_name(name: str, where: Value) -> None:
    """Check that a name is allowed in expressions and as a column of a sweep's rows.

    Raises
    ------
    ConfigError
        If the name is not an identifier or has another meaning already.
    """
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or len(name) > 60:
        raise ConfigError(f"{where} has the key {describe(name)}, expected a name of letters, digits and _, or a key of point")
    if name in FUNCTIONS or name in DERIVED:
        clash = "a function of expressions" if name in FUNCTIONS else "derived from the network"
        raise ConfigError(f"{where / name}: {name} is {clash}, expected another name")
    if name in INPUT_COLUMNS or name in _RESULTS:
        hint = next((f", or {key}" for key, setting in SETTINGS.items() if setting.column == name), "")
        raise ConfigError(f"{where / name}: every row has a column {name}, expected another name{hint}")


def list_values(name: str, value: object, where: Value) -> list[tuple[Value, Any]]:
    """The values of an axis as the file has them, each with its place in the file, as (place, value) pairs.

    Parameters
    ----------
    value
        The value of the axis in the file: a list or a range.

    Raises
    ------
    ConfigError
        If the value is neither a list of at least one value nor a range.
    """
    if isinstance(value, Mapping) and (name not in SETTINGS or name in _NUMBERED) and "from" in value:
        return [(where, number) for number in _range(value, where, name == _SIZE)]
    entries = [(where / index, entry) for index, entry in enumerate(value)] if isinstance(value, list) else []
    if name == _SIZE and isinstance(value, SCALARS):
        entries = [(where, value)]
    if not entries:
        expected = "a list" if name in SETTINGS and name not in _NUMBERED else "a list, or {from, to, step, factor or count}"
        raise ConfigError(f"{where} is {describe(value)}, expected {expected}")
    if name == _SIZE:
        return [(place, size) for place, entry in entries for size in parse_sizes(str(entry), str(place))]
    return entries


def read_variable(value: object, where: Value) -> bool | int | float | str:
    """Read a scalar that only expressions use: a value of an axis that is no key of `point`, or a definition.

    Raises
    ------
    ConfigError
        If the value is not a number, a string or a truth value.
    """
    if not isinstance(value, SCALARS) or value in (math.inf, -math.inf) or value != value:
        raise ConfigError(f"{where} is {describe(value)}, expected a number, a string, true or false")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ConfigError(f"{where} is {describe(value)}, expected a whole number of 64 bits")
    return value


def _range(mapping: Mapping[str, Any], where: Value, of_sizes: bool) -> list[float]:
    """The numbers of a range {from, to, and one of step, factor and count}; `to` is among them where a step meets it."""
    where.check_keys(("from", "to", *_STEPS))
    steps = [key for key in _STEPS if key in mapping]
    if "to" not in mapping or len(steps) != 1:
        raise ConfigError(f"{where} has {', '.join(mapping)}, expected from, to and one of {', '.join(_STEPS)}")
    first, last = (_number(mapping[key], where / key, of_sizes) for key in ("from", "to"))
    if last < first:
        raise ConfigError(f"{where / 'to'} is {describe(mapping['to'])}, expected at least {first!r}, where the range begins")
    (key,) = steps
    place = where / key
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
    return [_exact(first + index * step) for index in range(math.floor(length))]


def _powers(first: float, last: float, factor: float, where: Value) -> list[float]:
    if first <= 0:
        raise ConfigError(f"{where / 'from'} is {first!r}, expected a number above 0, as there is a factor")
    numbers: list[float] = []
    number = float(first)
    while number <= last * (1 + _ROUNDING):
        numbers.append(_exact(number))
        number = first * factor ** len(numbers)
        _check_count(len(numbers), where)
    return numbers


def _number(value: object, where: Value, of_sizes: bool) -> float:
    if of_sizes:
        return read_size(value, where)
    number = read_number(value, where, "a number")
    return value if isinstance(value, int) else number


def _exact(number: float) -> float:
    """A whole number as an integer, any other number rounded to 12 digits: three times 0.05 is 0.15, not 0.15000000000000002."""
    if isinstance(number, int) or number.is_integer():
        return int(number)
    return float(f"{number:.12g}")


def _check_count(count: float, where: Value) -> None:
    if count >= MAX_POINTS + 1:
        raise ConfigError(f"{where} gives {np.floor(count):,.10g} values, expected at most {MAX_POINTS:,}")
