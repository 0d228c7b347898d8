"""The `axes` of a sweep file: blocks of axes that vary together (`grid`, `zip`, `list`); all blocks are combined."""

from __future__ import annotations

import itertools
import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from astra_tacos.config.yaml_text import describe, describe_keys
from astra_tacos.errors import ConfigError
from astra_tacos.sweep.axis_values import list_values, read_variable
from astra_tacos.sweep.operations import FUNCTIONS
from astra_tacos.sweep.outcome import RESULT_COLUMNS
from astra_tacos.sweep.point import INPUT_COLUMNS
from astra_tacos.sweep.settings import SETTINGS

FAILED_LINKS, NETWORK = "failed_links", "network"
POINT_KEYS = (NETWORK, FAILED_LINKS, *SETTINGS)
DERIVED = ("total_bandwidth", "cost", "num_npus", "num_links", "bandwidth", "npus_count")
"""Names that conditions may use beside axes and definitions; their values come from the network of the point."""
MAX_POINTS = 1_000_000
_BLOCKS = ("grid", "zip", "list")
# Columns of rows that are neither inputs nor axes.
_RESULTS = frozenset({"point", "key", "status", "error", *RESULT_COLUMNS})


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one value of an axis, or one entry of a list, sets.

    Parameters
    ----------
    names
        Values of the axes in expressions, by name.
    given
        Keys of `point` that the part sets, with their values after reading.
    """

    names: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)

    def joined(self, other: Part) -> Part:
        """Both parts as one; where both set a name, the value of `other` counts."""
        return Part(self.names | other.names, self.given | other.given)


Read = Callable[[str, Any, str], Part]
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
        for parts in itertools.product(*self.blocks):
            names: dict[str, Any] = {}
            given: dict[str, Any] = {}
            for part in parts:
                names.update(part.names)
                given.update(part.given)
            yield Part(names, given)


def read_axes(document: object, where: str, read_key: Read, missing: Callable[[str], Part]) -> Axes:
    """Read the axes of a sweep file.

    Parameters
    ----------
    document
        The value of `axes` in the sweep file.
    where
        The place of that value in the file, for errors.
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
        blocks = [reader.block(entry, f"{where}[{index}]") for index, entry in enumerate(document)]
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

    def block(self, entry: object, where: str) -> list[Part]:
        if not isinstance(entry, Mapping) or len(entry) != 1 or next(iter(entry)) not in _BLOCKS:
            found = describe_keys(entry) if isinstance(entry, Mapping) else describe(entry)
            raise ConfigError(f"{where} is {found}, expected one of {', '.join(_BLOCKS)}")
        ((kind, content),) = entry.items()
        if kind == "list":
            return self.listed(content, f"{where}.list")
        return self.grid(content, f"{where}.{kind}") if kind == "grid" else self.zipped(content, f"{where}.zip")

    def grid(self, content: object, where: str) -> list[Part]:
        axes = self.axes(content, where)
        size = math.prod(len(parts) for parts in axes.values())
        if size > MAX_POINTS:
            raise ConfigError(f"{where} makes {size:,} points, expected at most {MAX_POINTS:,}")
        return [_joined(parts) for parts in itertools.product(*axes.values())]

    def zipped(self, content: object, where: str) -> list[Part]:
        axes = self.axes(content, where)
        (first, length), *others = ((name, len(parts)) for name, parts in axes.items())
        for name, other in others:
            if other != length:
                raise ConfigError(f"{where}.{name} has {other} values, expected {length}, as many as {first}")
        return [_joined(parts) for parts in zip(*axes.values(), strict=True)]

    def axes(self, content: object, where: str) -> dict[str, list[Part]]:
        if not isinstance(content, Mapping) or not content:
            found = "an empty mapping" if content == {} else describe(content)
            raise ConfigError(f"{where} is {found}, expected axes with their values")
        axes = {}
        for name, values in content.items():
            place = f"{where}.{name}"
            self.enter(name, where)
            axes[name] = [self.part(name, value, key) for key, value in list_values(name, values, place)]
        return axes

    def listed(self, content: object, where: str) -> list[Part]:
        if not isinstance(content, list) or not content:
            found = "an empty list" if content == [] else describe(content)
            raise ConfigError(f"{where} is {found}, expected a list of mappings")
        for index, entry in enumerate(content):
            if not isinstance(entry, Mapping) or not entry:
                found = "an empty mapping" if entry == {} else describe(entry)
                raise ConfigError(f"{where}[{index}] is {found}, expected axes with a value each")
        names = dict.fromkeys(name for entry in content for name in entry)
        for name in names:
            self.enter(name, where)
        parts = []
        for index, entry in enumerate(content):
            place = f"{where}[{index}]"
            for name in names:
                if name not in entry and name not in POINT_KEYS:
                    raise ConfigError(f"{place} lacks {name}, expected a value, as other entries have one")
            of_axes = (self.part(name, entry[name], f"{place}.{name}") if name in entry else self.missing(name) for name in names)
            parts.append(_joined(of_axes))
        return parts

    def enter(self, name: object, where: str) -> None:
        """Check the name of an axis and remember the axis's place in the file."""
        place = f"{where}.{name}"
        if not isinstance(name, str) or name not in POINT_KEYS:
            check_name(name, where)
        if name in self.places:
            raise ConfigError(f"{place}: the axis stands at {self.places[str(name)]} already, expected each name once")
        self.places[str(name)] = place

    def part(self, name: str, value: object, where: str) -> Part:
        if name in POINT_KEYS:
            return self.read_key(name, value, where)
        return Part({name: read_variable(value, where)})


def _joined(parts: Sequence[Part] | Iterator[Part]) -> Part:
    result = Part()
    for part in parts:
        result = result.joined(part)
    return result


def check_name(name: object, where: str) -> None:
    """Check that a name is allowed in expressions and as a column of a sweep's rows.

    Raises
    ------
    ConfigError
        If the name is not an identifier or has another meaning already.
    """
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or len(name) > 60:
        raise ConfigError(f"{where} has the key {describe(name)}, expected a name of letters, digits and _, or a key of point")
    if name in FUNCTIONS or name in DERIVED:
        what = "a function of expressions" if name in FUNCTIONS else "derived from the network"
        raise ConfigError(f"{where}.{name}: {name} is {what}, expected another name")
    if name in INPUT_COLUMNS or name in _RESULTS:
        hint = next((f", or {key}" for key, setting in SETTINGS.items() if setting.column == name), "")
        raise ConfigError(f"{where}.{name}: every row has a column {name}, expected another name{hint}")
