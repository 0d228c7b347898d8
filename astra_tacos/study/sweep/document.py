"""The content of a sweep file; every part is read and checked before any point is made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from astra_tacos.study.optimizer.libra_files import CostModel, read_cost_model
from astra_tacos.study.sweep.axes import (
    DERIVED,
    FAILED_LINKS,
    NETWORK,
    POINT_KEYS,
    Axes,
    Field,
    Part,
    check_name,
    is_expression,
    read_axes,
    read_expression,
    read_field,
    read_plain,
    read_variable,
)
from astra_tacos.study.sweep.point import COLLECTIVE, WORKLOAD
from astra_tacos.study.sweep.run_source import check_failures, check_network
from astra_tacos.study.sweep.settings import REQUIRED, SETTINGS, naming
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.expression import Expression
from astra_tacos.support.text_files import check_keys, describe, filled_text, mapping_value, read_yaml_mapping

_KEYS = ("name", "point", "axes", "define", "where", "cost_model")
_COST = "cost"


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """The content of a sweep file.

    Parameters
    ----------
    name, path
        Name of the sweep, and path of its file.
    constants, fields
        Keys of `point`, by name: those with constant values, after reading; the network, failed links and those with expressions.
    axes, definitions, conditions, cost_model
        Values of the keys `axes`, `define`, `where` and `cost_model`. Each definition stands after those that it uses, and
        conditions with values derived from the network after the others.
    """

    name: str
    path: Path
    constants: dict[str, Any]
    fields: dict[str, Field]
    axes: Axes
    definitions: dict[str, Expression]
    conditions: tuple[Expression, ...]
    cost_model: CostModel | None


def read_document(path: Path) -> Document:
    """Read a sweep file. Of the files that it names, only the cost model is read.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    document = read_yaml_mapping(path)
    check_keys(document, str(path), _KEYS)
    name = filled_text(document.get("name", path.stem), f"{path}: name", "one line of text")
    if not name.strip() or len(name) > 200 or "\n" in name:
        raise ConfigError(f"{path}: name is {describe(name)}, expected one line of text")
    if "point" not in document:
        raise ConfigError(f"{path}: point is missing, expected a mapping with a network and what to run on it")
    reader = _PointReader(path)
    reader.read(document["point"])
    axes = Axes({}, ())
    if "axes" in document:
        axes = read_axes(document["axes"], f"{path}: axes", reader.of_axis, reader.missing)
    definitions = _read_definitions(document.get("define", {}), f"{path}: define", axes.places)
    conditions = _read_conditions(document.get("where", []), f"{path}: where")
    cost_model = None
    if "cost_model" in document:
        where = f"{path}: cost_model"
        cost_path = path.parent / filled_text(document["cost_model"], where, "the path of a cost model")
        with naming(where):
            cost_model = read_cost_model(cost_path)
    file = Document(name, path, reader.constants, reader.fields, axes, definitions, conditions, cost_model)
    _check_names(reader.expressions, file)
    return file


def _read_definitions(document: object, where: str, axes: Mapping[str, str]) -> dict[str, Expression]:
    found: dict[str, Expression] = {}
    for name, text in mapping_value(document, where, "a mapping of names to expressions").items():
        check_name(name, where)
        place = f"{where}.{name}"
        if name in POINT_KEYS or name in axes:
            taken = f"{axes[name]} is called so" if name in axes else f"{name} is a key of point"
            raise ConfigError(f"{place}: {taken}, expected another name")
        found[name] = read_expression(read_variable(text, place), place)
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(found, ()))
    for name, expression in found.items():
        sorter.add(name, *sorted(expression.names & found.keys()))
    try:
        return {name: found[name] for name in sorter.static_order()}
    except CycleError as error:
        circle = error.args[1][::-1]
        raise ConfigError(f"{found[circle[0]].where}: {' needs '.join(circle)}, expected no circle") from None


def _read_conditions(document: object, where: str) -> tuple[Expression, ...]:
    texts, expected = {where: document}, "a list of expressions"
    if isinstance(document, list):
        texts, expected = {f"{where}[{at}]": text for at, text in enumerate(document)}, "an expression such as 'b0 >= 20'"
    found = [read_expression(filled_text(text, place, expected), place) for place, text in texts.items()]
    return tuple(sorted(found, key=lambda condition: not condition.names.isdisjoint(DERIVED)))


@dataclass(slots=True)
class _PointReader:
    """Reads keys of `point`, under `point` and as axes."""

    path: Path
    constants: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Field] = field(default_factory=dict)
    expressions: list[Expression] = field(default_factory=list)
    labels: dict[str, object] = field(default_factory=dict)
    """The network (path or template) that each label of an axis stands for."""

    def read(self, document: object) -> None:
        where = f"{self.path}: point"
        point = mapping_value(document, where, "a mapping with a network and what to run on it")
        check_keys(point, where, POINT_KEYS)
        for key, value in point.items():
            place = f"{where}.{key}"
            found = self.field(key, value, place)
            if found.is_constant and key in SETTINGS:
                self.constants[key] = SETTINGS[key].read(value, place)
            else:
                self.fields[key] = found

    def field(self, key: str, value: Any, where: str) -> Field:
        """The value of a key of `point`, whose expressions are noted."""
        if key == NETWORK:
            check_network(value, where)
        elif key == FAILED_LINKS:
            check_failures(value, where)
        found = read_field(value, where)
        self.expressions += found.expressions
        return found

    def of_axis(self, key: str, value: Any, where: str) -> Part:
        """The part that a value of an axis sets; of a network its field, and its name in rows."""
        if key not in SETTINGS:
            found = self.field(key, value, where)
            if key == FAILED_LINKS:
                return Part({}, {key: found})
            label = self.label(value, where)
            return Part({key: label}, {key: (found, label)})
        setting = SETTINGS[key].read(read_plain(value, where), where)
        return Part({key: value if setting is None else setting}, {key: setting})

    def label(self, value: Any, where: str) -> str:
        """The name that rows give a network of an axis."""
        if isinstance(value, Mapping):
            expected = "a plain name: rows identify the networks of an axis by it"
            if "name" not in value:
                raise ConfigError(f"{where}.name is missing, expected {expected}")
            label = filled_text(read_plain(value["name"], f"{where}.name"), f"{where}.name", expected)
            if self.labels.setdefault(label, value) != value:
                raise ConfigError(f"{where}.name is {describe(label)}, as that of another network, expected another name")
            return label
        if is_expression(value):
            raise ConfigError(f"{where} is {describe(value)}, expected the path of a network YAML, or a template with a name")
        stem = Path(value).stem
        label = stem if self.labels.setdefault(stem, value) == value else value
        if self.labels.setdefault(label, value) != value:
            raise ConfigError(f"{where} is {describe(value)}, the name of another network, expected another path")
        return label

    def missing(self, key: str) -> Part:
        """The part of an axis for an entry of a list that has no value for it: the value of `point`, if that is a constant."""
        if key in (NETWORK, FAILED_LINKS) or key in self.fields:
            return Part()
        kind = WORKLOAD if "workload" in self.constants or "workload" in self.fields else COLLECTIVE
        value = self.constants.get(key, SETTINGS[key].defaults.get(kind))
        return Part() if value is REQUIRED else Part({key: value})


def _check_names(expressions: Iterable[Expression], file: Document) -> None:
    """Check that every name in an expression is known, and that every axis is used."""
    known = [*file.axes.places, *file.definitions]
    used: set[str] = set()
    for expression in (*expressions, *file.definitions.values(), *file.conditions):
        if expression in file.conditions:
            if _COST in expression.names and file.cost_model is None:
                raise expression.refuse("found cost, expected a cost_model that says it")
            listed = [*known, *(name for name in DERIVED if name != _COST or file.cost_model is not None)]
        else:
            listed = known
        for name in sorted(expression.names.difference(listed)):
            raise expression.refuse(f"found the name {name}, expected {', '.join(listed) or 'no names: there are no axes'}")
        used |= expression.names
    for name, place in file.axes.places.items():
        if name not in used and name not in POINT_KEYS:
            raise ConfigError(f"{place}: nothing uses {name}, expected a key of point, or an expression with it")
