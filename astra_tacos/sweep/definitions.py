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
    """Named expressions, each after those that it needs."""

    expressions: Mapping[str, Expression]

    def add_to(self, names: dict[str, Any]) -> None:
        """Add their values to those of axes.

        Raises
        ------
        ConfigError
            If one has no value, or a list for one.
        """
        for name, expression in self.expressions.items():
            value = expression.value(names)
            if isinstance(value, (list, tuple)):
                raise ConfigError(f"{expression.where} {describe(expression.text)} is a list, expected a single value")
            names[name] = value


def read_definitions(document: object, where: str, axes: Mapping[str, str]) -> Definitions:
    """The named expressions that a sweep file defines.

    Parameters
    ----------
    document
        The definitions in the sweep file.
    where
        Their place in the file, for errors.
    axes
        By name, where each axis stands.

    Raises
    ------
    ConfigError
        If a name is taken, a text is no expression, or expressions need one another.
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
    """With or without the mark that expressions have elsewhere in the file."""
    stripped = text.strip()
    return parse_expression(stripped[1:] if stripped.startswith("=") else stripped, where)


def _ordered(expressions: dict[str, Expression]) -> dict[str, Expression]:
    """Each after those that it needs."""
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
    """What points have to meet: `early` without, and `late` with what is derived from the network."""

    early: tuple[Expression, ...] = ()
    late: tuple[Expression, ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All conditions, first those that can be evaluated before the point runs."""
        return (*self.early, *self.late)


def read_conditions(document: object, where: str) -> Conditions:
    """The conditions that a sweep file states.

    Raises
    ------
    ConfigError
        If they are no expressions.
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
