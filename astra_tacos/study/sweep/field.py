"""Values of a sweep file that may contain expressions: `"= 600 - b0 - b1"`, alone, in a list or in a mapping."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.expression import Expression, Names, parse_expression
from astra_tacos.support.text_files import describe

MARK = "="
"""First character of a string that is an expression."""
_ABSENT = object()


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A value of the sweep file.

    Parameters
    ----------
    where
        File and key, for error messages.
    expressions
        The expressions in the value; none in a constant.
    value
        Computes the value from the values of names; whole numbers are integers, even as the result of a division.
    names
        Names in the expressions, in alphabetical order.
    """

    where: str
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


def read_field(value: object, where: str) -> Field:
    """Make the field of a value of a YAML file.

    Raises
    ------
    ConfigError
        If a string that begins with `MARK` is not an expression.
    """
    if isinstance(value, str) and value.lstrip().startswith(MARK):
        expression = parse_expression(value.lstrip()[len(MARK) :], where)
        return Field(where, (expression,), lambda names: _whole(expression.value(names)))
    if isinstance(value, list):
        entries = [read_field(entry, f"{where}[{index}]") for index, entry in enumerate(value)]
        return Field(where, _expressions(entries), lambda names: [entry.value(names) for entry in entries])
    if isinstance(value, Mapping):
        fields = {key: read_field(entry, f"{where}.{key}") for key, entry in value.items()}
        return Field(
            where, _expressions(fields.values()), lambda names: {key: entry.value(names) for key, entry in fields.items()}
        )
    return Field(where, (), lambda names: value)


def _expressions(fields: Any) -> tuple[Expression, ...]:
    return tuple(expression for entry in fields for expression in entry.expressions)


def _whole(value: Any) -> Any:
    """The value with whole floats such as 4.0, the result of a division, as integers, also within lists."""
    if isinstance(value, (list, tuple)):
        return [_whole(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@contextlib.contextmanager
def naming(where: str) -> Iterator[None]:
    """Prefix errors of a file that the sweep file names with the place of that name."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def check_keys(mapping: Mapping[Any, Any], where: str, keys: tuple[str, ...]) -> None:
    """Check that a mapping has no other keys.

    Raises
    ------
    ConfigError
        If it has other keys.
    """
    for key in mapping:
        if key not in keys:
            raise ConfigError(f"{where} has the key {describe(key)}, expected {', '.join(keys)}")
