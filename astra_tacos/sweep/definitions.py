"""Named expressions of a sweep file, and the conditions that its points have to meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from astra_tacos.config.yaml_text import describe
from astra_tacos.errors import ConfigError
from astra_tacos.sweep.axes import DERIVED, POINT_KEYS, check_name
from astra_tacos.sweep.axis_values import read_variable
from astra_tacos.sweep.expression import Expression, Names, parse_expression


@dataclass(frozen=True, slots=True, eq=False)
class Definitions:
    """Named expressions, ordered so that each stands after those that it uses."""

    expressions: Mapping[str, Expression]

    def add_to(self, names: dict[str, Any]) -> None:
        """Compute all expressions and add their values to `names`, which holds the values of the axes.

        Raises
        ------
        ConfigError
            If an expression cannot be computed or is a list.
        """
        for name, expression in self.expressions.items():
            value = expression.value(names)
            if isinstance(value, (list, tuple)):
                raise ConfigError(f"{expression.where} {describe(expression.text)} is a list, expected a single value")
            names[name] = value


def read_definitions(document: object, where: str, axes: Mapping[str, str]) -> Definitions:
    """Read the named expressions that a sweep file defines.

    Parameters
    ----------
    document
        The value of `define` in the sweep file.
    where
        The place of that value in the file, for errors.
    axes
        Place of each axis in the file, by name.

    Raises
    ------
    ConfigError
        If a name is taken, a text is no expression, or expressions use one another in a circle.
    """
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where} is {describe(document)}, expected a mapping of names to expressions")
    expressions: dict[str, Expression] = {}
    for name, text in document.items():
        check_name(name, where)
        if name in POINT_KEYS:
            raise ConfigError(f"{where}.{name}: {name} is a key of point, expected another name")
        if name in axes:
            raise ConfigError(f"{where}.{name}: {axes[name]} is called so, expected another name")
        place = f"{where}.{name}"
        expressions[name] = _expression(text if isinstance(text, str) else repr(read_variable(text, place)), place)
    return Definitions(_ordered(expressions))


def _expression(text: str, where: str) -> Expression:
    """Parse an expression; the mark `=`, which other keys of the file require, is optional here."""
    stripped = text.strip()
    return parse_expression(stripped[1:] if stripped.startswith("=") else stripped, where)


def _ordered(expressions: dict[str, Expression]) -> dict[str, Expression]:
    """The expressions in an order in which each stands after those that it uses (Kahn's topological sort)."""
    ordered: dict[str, Expression] = {}
    while len(ordered) < len(expressions):
        waiting = {
            name: (expressions[name].names & expressions.keys()) - ordered.keys() for name in expressions.keys() - ordered.keys()
        }
        ready = [name for name in expressions if name in waiting and not waiting[name]]
        if not ready:
            first = name = min(waiting)
            circle: list[str] = []
            while name not in circle:
                circle.append(name)
                name = min(waiting[name])
            circle = circle[circle.index(name) :]
            first = circle[0]
            raise ConfigError(f"{expressions[first].where}: {' needs '.join((*circle, first))}, expected no circle")
        ordered |= {name: expressions[name] for name in ready}
    return ordered


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """Conditions that points have to meet; only those of `late` use values derived from the network."""

    early: tuple[Expression, ...] = ()
    late: tuple[Expression, ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All conditions; those that can be evaluated before the network is resolved come first."""
        return (*self.early, *self.late)


def read_conditions(document: object, where: str) -> Conditions:
    """Read the conditions of a sweep file: a list of expressions, or a single one.

    Raises
    ------
    ConfigError
        If an entry is no expression.
    """
    texts = [document] if isinstance(document, str) else document
    if not isinstance(texts, list):
        raise ConfigError(f"{where} is {describe(document)}, expected a list of expressions")
    expressions = []
    for index, text in enumerate(texts):
        place = where if isinstance(document, str) else f"{where}[{index}]"
        if not isinstance(text, str):
            raise ConfigError(f"{place} is {describe(text)}, expected an expression such as 'b0 >= 20'")
        expressions.append(_expression(text, place))
    early = tuple(expression for expression in expressions if not expression.names & set(DERIVED))
    return Conditions(early, tuple(expression for expression in expressions if expression not in early))


def holds(condition: Expression, names: Names) -> bool:
    """Whether a point meets a condition.

    Raises
    ------
    ConfigError
        If the condition is neither true nor false.
    """
    value = condition.value(names)
    if not isinstance(value, bool):
        raise ConfigError(f"{condition.where} {describe(condition.text)} is {describe(value)}, expected true or false")
    return value
