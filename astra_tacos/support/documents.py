"""Documents that users write: values with their places, and one decoder of them into types.

A YAML file is composed into plain values, of which each keeps its line and column. ASTRA-sim reads the same files by yaml-cpp:
what means something else there is refused, or stays text, which is no number. libyaml refuses tabs in an indentation, and
brackets right behind a colon. This module refuses anchors, aliases, tags, merge keys, keys given twice, and line ends other than
a newline. Only plain decimal numbers are numbers.

A type says what a document holds: a `msgspec.Struct`, whose annotations carry the bounds, and in `msgspec.Meta(description=...)`
what a message expects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec
import yaml
from msgspec import inspect

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import WHOLE_NUMBER, finite_number, parse_decimal, parse_whole
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.formats.values import describe

T = TypeVar("T")

_MAX_BYTES = 16 << 20
_MAX_VALUES = 1_000_000
"""A value takes about a kilobyte of memory."""
_MAX_DEPTH = 100
"""Of values in values: no file that a person writes has so many."""
_LONGEST_KEY = 60
"""Longer ones are cut in messages."""
_OTHER_LINE_END = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
"""What ends a line for libyaml, but not for yaml-cpp."""
_NOTHING = re.compile(r"(?:~|null|Null|NULL|)\Z")
_TRUTH = re.compile(r"(?:(yes|Yes|YES|true|True|TRUE|on|On|ON)|no|No|NO|false|False|FALSE|off|Off|OFF)\Z")


@dataclass(slots=True)
class _Mark:
    """Where a value, its key and its parts are: lines and columns, from 1 on."""

    line: int
    column: int
    key: tuple[int, int] | None = None
    parts: dict[str | int, _Mark] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of a document; as text its place: `net.yml:2:18: npus_count[1]`."""

    source: str
    """The file, or what else the document is called."""
    content: Any
    keys: str = ""
    mark: _Mark | None = None
    """None for a document without lines and columns."""

    def __str__(self) -> str:
        return self._place((self.mark.line, self.mark.column) if self.mark else None)

    def _place(self, at: tuple[int, int] | None) -> str:
        place = self.source if at is None else f"{self.source}:{at[0]}:{at[1]}"
        return f"{place}: {self.keys}" if self.keys else place

    def __truediv__(self, step: str | int) -> Value:
        """The part with a key or number. A part that is missing has no content, and stands where the whole does."""
        if isinstance(step, int):
            keys = f"{self.keys}[{step}]"
        else:
            shown = step if step.isprintable() and 0 < len(step) <= _LONGEST_KEY else describe(step)
            keys = f"{self.keys}.{shown}" if self.keys else shown
        parts = self.content
        has_it = step in parts if isinstance(parts, Mapping) else isinstance(parts, list | tuple) and step in range(len(parts))
        mark = self.mark and self.mark.parts.get(step, self.mark)
        return Value(self.source, parts[step] if has_it else msgspec.UNSET, keys, mark)

    def __contains__(self, key: str) -> bool:
        return isinstance(self.content, Mapping) and key in self.content

    def unlike(self, expected: str) -> ConfigError:
        """The error that the value is not what was expected."""
        content_text = "missing" if self.content is msgspec.UNSET else describe(self.content)
        return ConfigError(f"{self} is {content_text}, expected {expected}")

    def unknown(self, key: str, known: str) -> ConfigError:
        """The error that a mapping has a key."""
        mark = (self / key).mark
        place = self._place(mark.key or (mark.line, mark.column) if mark else None)
        return ConfigError(f"{place} has the key {describe(key)}, expected {known}")

    def check_keys(self, keys: Sequence[str]) -> None:
        """Check that a mapping has no other keys.

        Raises
        ------
        ConfigError
            If it has other keys.
        """
        for key in self.content:
            if key not in keys:
                raise self.unknown(key, ", ".join(keys))

    @overload
    def decoded(self, kind: type[T]) -> T: ...

    @overload
    def decoded(self, kind: Any) -> Any: ...

    def decoded(self, kind: Any) -> Any:
        """The value as a type.

        Raises
        ------
        ConfigError
            If the value, or a part of it, is not what the type says.
        """
        try:
            return msgspec.convert(self.content, kind)
        except msgspec.ValidationError as error:
            raise self._unlike(kind, str(error)) from None

    def as_decimal(self) -> Value:
        """The value with the number that a text, or a number of another type than Python's, stands for; as it is without one."""
        number = finite_number(self.content)
        return self if number is None else replace(self, content=number)

    def _unlike(self, kind: Any, said: str) -> ConfigError:
        path = _PATH.search(said)
        part, expected, kinds = self, "", [inspect.type_info(kind)]
        for step in (*_steps(path[1] if path else ""), None):
            kinds, expected = _plain(kinds, expected)
            known = [sub for kind in kinds for sub in _inner(kind, step)]
            if step is None or not known:
                break
            part, kinds = part / step, known
        fields = {member.encode_name: member for kind in kinds if isinstance(kind, inspect.StructType) for member in kind.fields}
        expected = expected or (f"a mapping of {', '.join(fields)}" if fields else said)
        if not isinstance(part.content, Mapping):
            return part.unlike(expected)
        is_closed = any(isinstance(kind, inspect.StructType) and kind.forbid_unknown_fields for kind in kinds)
        for key in part.content:
            if is_closed and key not in fields:
                return part.unknown(key, ", ".join(fields))
        for key, member in fields.items():
            if member.required and key not in part.content:
                return (part / key).unlike(_plain([member.type], expected)[1])
        return part.unlike(expected)


def filled(expected: str) -> msgspec.Meta:
    """Beside `str` in an annotation: a text that is neither empty nor has zero bytes, and what a message expects."""
    return msgspec.Meta(pattern=r"\A[^\x00]+\Z", description=expected)


_PATH = re.compile(r" - at `\$([^`]*)`\Z")
"""Where msgspec ends a message with the path of the value."""


def _steps(path: str) -> Iterator[str | int]:
    for key, index in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", path):
        yield key or int(index)


def _plain(kinds: list[inspect.Type], expected: str) -> tuple[list[inspect.Type], str]:
    """The alternatives among types, and what the innermost description of them, or an outer one, expects."""
    plain_kinds: list[inspect.Type] = []
    left = list(kinds)
    while left:
        kind = left.pop()
        if isinstance(kind, inspect.Metadata):
            expected = (kind.extra_json_schema or {}).get("description", expected)
            left.append(kind.type)
        elif isinstance(kind, inspect.UnionType):
            left += kind.types
        else:
            plain_kinds.append(kind)
    return plain_kinds, expected


def _inner(kind: inspect.Type, step: str | int | None) -> list[inspect.Type]:
    """The types of a part."""
    if isinstance(kind, inspect.StructType):
        return [member.type for member in kind.fields if member.encode_name == step]
    if isinstance(step, int) and isinstance(kind, inspect.TupleType):
        return [kind.item_types[step]]
    if isinstance(step, int) and isinstance(kind, inspect.CollectionType):
        return [kind.item_type]
    return []


def read_yaml(path: Path, *, as_texts: bool = False) -> Value:
    """The mapping at the top of a YAML file. Keys of mappings are text as it is written.

    Parameters
    ----------
    as_texts
        Whether every scalar is as it is written, too: `010` and `true` are text.

    Raises
    ------
    ConfigError
        If the file is unreadable, empty, not YAML, nested too deeply, something else than a mapping, or has what means something
        else to yaml-cpp.
    """
    text = read_text(path, _MAX_BYTES)
    if other := _OTHER_LINE_END.search(text):
        line, column = text.count("\n", 0, other.start()) + 1, other.start() - text.rfind("\n", 0, other.start())
        raise _invalid(path, line, column, f"found {other[0]!r}, expected lines that end in a newline")
    try:
        composed = _Composer(path, as_texts).composed(text)
    except yaml.MarkedYAMLError as error:
        raise _invalid(path, *_start(error.problem_mark), " ".join(str(error.problem).split())) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if composed is None or composed[0] is None:
        raise ConfigError(f"{path}: file is empty, expected a YAML mapping")
    content, place = composed
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: found {describe(content)} at the top, expected a YAML mapping")
    return Value(str(path), content, "", place)


def _invalid(path: Path, line: int, column: int, problem: str) -> ConfigError:
    return ConfigError(f"{path}:{line}:{column}: not valid YAML: {problem}")


def _start(mark: Any) -> tuple[int, int]:
    """Line and column, from 1 on."""
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


_Composed = tuple[Any, _Mark]


@dataclass(slots=True)
class _Composer:
    path: Path
    as_texts: bool
    open: list[_Composed] = field(default_factory=list)
    """Mappings and lists that have begun, from the top down."""
    keys: list[tuple[str, tuple[int, int]] | None] = field(default_factory=list)
    """Of each of these, the key whose value comes next."""

    def composed(self, text: str) -> _Composed | None:
        """What the document holds, and where; None if there is nothing."""
        top: _Composed | None = None
        num_values = 0
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.DocumentStartEvent) and top is not None:
                raise self.refused(event, "found a second document, expected one")
            if isinstance(event, yaml.CollectionEndEvent):
                self.open.pop()
                self.keys.pop()
            if not isinstance(event, yaml.NodeEvent):
                continue
            num_values += 1
            self.check(event, num_values)
            if self.open and isinstance(self.open[-1][0], dict) and self.keys[-1] is None:
                self.keys[-1] = self.key(event)
                continue
            value: Any = self.scalar(event) if isinstance(event, yaml.ScalarEvent) else None
            if isinstance(event, yaml.CollectionStartEvent):
                value = {} if isinstance(event, yaml.MappingStartEvent) else []
            composed = value, _Mark(*_start(event.start_mark))
            top = top or composed
            self.place(*composed)
            if isinstance(event, yaml.CollectionStartEvent):
                self.open.append(composed)
                self.keys.append(None)
        return top

    def refused(self, event: yaml.Event, problem: str) -> ConfigError:
        return _invalid(self.path, *_start(event.start_mark), problem)

    def check(self, event: yaml.NodeEvent, num_values: int) -> None:
        """Without aliases a short file cannot expand without bound, and has no cycles."""
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self.refused(event, "anchors (&name) and aliases (*name) are not accepted, expected the values written out")
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            raise self.refused(event, f"tags ({describe(event.tag)}) are not accepted, expected the value alone")
        if num_values > _MAX_VALUES:
            raise self.refused(event, f"more than {_MAX_VALUES:,} values")
        if len(self.open) > _MAX_DEPTH:
            raise self.refused(event, "nested too deeply")

    def key(self, event: yaml.NodeEvent) -> tuple[str, tuple[int, int]]:
        if not isinstance(event, yaml.ScalarEvent):
            raise self.refused(event, "found a mapping or a list as a key, expected text")
        if event.value == "<<":
            raise self.refused(event, "merge keys (<<) are not accepted, expected the keys written out")
        if event.value in self.open[-1][0]:
            raise self.refused(event, f"key {describe(event.value)} is given twice")
        return event.value, _start(event.start_mark)

    def place(self, value: Any, mark: _Mark) -> None:
        """Add a value to the innermost mapping or list."""
        if not self.open:
            return
        content, around = self.open[-1]
        step: str | int
        if isinstance(content, list):
            step = len(content)
            content.append(value)
        else:
            assert self.keys[-1] is not None
            step, mark.key = self.keys[-1]
            content[step], self.keys[-1] = value, None
        around.parts[step] = mark

    def scalar(self, event: yaml.ScalarEvent) -> Any:
        """What a text means where it stands without quotes, else the text."""
        text = event.value
        if not event.implicit[0]:
            return text
        if _NOTHING.match(text):
            return None
        if self.as_texts:
            return text
        if truth := _TRUTH.match(text):
            return truth[1] is not None
        if WHOLE_NUMBER.match(text):
            whole = parse_whole(text)
            if whole is None:
                raise self.refused(event, f"found {describe(text)}, expected a decimal whole number of at most 400 digits")
            return whole
        number = parse_decimal(text)
        return text if number is None else number
