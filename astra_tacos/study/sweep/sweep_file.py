"""Reading of a sweep file into points that are ready to run; every part is read and checked before any point is made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from astra_tacos.collective import ROOTED
from astra_tacos.collective.collective import check_root
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
from astra_tacos.study.sweep.point import COLLECTIVE, INPUT_COLUMNS, WORKLOAD, CollectiveTask, Point, WorkloadTask
from astra_tacos.study.sweep.run_source import (
    RUN_KEYS,
    Networks,
    PointNetwork,
    RunSource,
    check_failures,
    check_network,
    read_run_source,
)
from astra_tacos.study.sweep.settings import REQUIRED, SETTINGS, naming
from astra_tacos.support.documents import Value, read_yaml
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.expression import Expression
from astra_tacos.support.formats.values import describe, filled_text, mapping_value
from astra_tacos.synthesizer.search.search_options import SearchOptions

_KEYS = ("name", "point", "axes", "define", "where", "cost_model")
_COST = "cost"
_MOST_NAMES = 8
"""Values of a point that an error lists."""


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """The content of a sweep file.

    Parameters
    ----------
    point
        The mapping `point`.
    constants, fields
        Keys of `point`, by name: those with constant values, after reading; the network, failed links and those with expressions.
    axes, definitions, conditions, cost_model
        Values of the keys `axes`, `define`, `where` and `cost_model`. Each definition stands after those that it uses, and
        conditions with values derived from the network after the others.
    """

    name: str
    path: Path
    point: Value
    constants: dict[str, Any]
    fields: dict[str, Field]
    axes: Axes
    definitions: dict[str, Expression]
    conditions: tuple[Expression, ...]
    cost_model: CostModel | None


def _read_document(path: Path) -> Document:
    """Read a sweep file. Of the files that it names, only the cost model is read.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    source = read_yaml(path)
    document = source.content
    source.check_keys(_KEYS)
    name = filled_text(document.get("name", path.stem), source / "name", "one line of text")
    if not name.strip() or len(name) > 200 or "\n" in name:
        raise (source / "name").unlike("one line of text")
    if "point" not in document:
        raise (source / "point").unlike("a mapping with a network and what to run on it")
    reader = _PointReader()
    reader.read(document["point"], source / "point")
    axes = Axes({}, ())
    if "axes" in document:
        axes = read_axes(document["axes"], source / "axes", reader.of_axis, reader.missing)
    definitions = _read_definitions(document.get("define", {}), source / "define", axes.places)
    conditions = _read_conditions(document.get("where", []), source / "where")
    cost_model = None
    if "cost_model" in document:
        where = source / "cost_model"
        cost_path = path.parent / filled_text(document["cost_model"], where, "the path of a cost model")
        with naming(where):
            cost_model = read_cost_model(cost_path)
    file = Document(name, path, source / "point", reader.constants, reader.fields, axes, definitions, conditions, cost_model)
    _check_names(reader.expressions, file)
    return file


def _read_definitions(document: object, where: Value, axes: Mapping[str, str]) -> dict[str, Expression]:
    expressions: dict[str, Expression] = {}
    for name, text in mapping_value(document, where, "a mapping of names to expressions").items():
        check_name(name, where)
        place = where / name
        if name in POINT_KEYS or name in axes:
            clash = f"{axes[name]} is called so" if name in axes else f"{name} is a key of point"
            raise ConfigError(f"{place}: {clash}, expected another name")
        expressions[name] = read_expression(read_variable(text, place), place)
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(expressions, ()))
    for name, expression in expressions.items():
        sorter.add(name, *sorted(expression.names & expressions.keys()))
    try:
        return {name: expressions[name] for name in sorter.static_order()}
    except CycleError as error:
        cycle = error.args[1][::-1]
        raise ConfigError(f"{expressions[cycle[0]].where}: {' needs '.join(cycle)}, expected no cycle") from None


def _read_conditions(document: object, where: Value) -> tuple[Expression, ...]:
    places, expected = [where], "a list of expressions"
    if isinstance(document, list):
        places, expected = [where / at for at in range(len(document))], "an expression such as 'b0 >= 20'"
    conditions = [read_expression(filled_text(place.content, place, expected), place) for place in places]
    return tuple(sorted(conditions, key=lambda condition: not condition.names.isdisjoint(DERIVED)))


@dataclass(slots=True)
class _PointReader:
    """Reads keys of `point`, under `point` and as axes."""

    constants: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Field] = field(default_factory=dict)
    expressions: list[Expression] = field(default_factory=list)
    labels: dict[str, object] = field(default_factory=dict)
    """The network (path or template) that each label of an axis stands for."""

    def read(self, document: object, where: Value) -> None:
        point = mapping_value(document, where, "a mapping with a network and what to run on it")
        where.check_keys(POINT_KEYS)
        for key, value in point.items():
            place = where / key
            field = self.field(key, value, place)
            if field.is_constant and key in SETTINGS:
                self.constants[key] = SETTINGS[key].read(value, place)
            else:
                self.fields[key] = field

    def field(self, key: str, value: Any, where: Value) -> Field:
        """The value of a key of `point`, whose expressions are noted."""
        if key == NETWORK:
            check_network(value, where)
        elif key == FAILED_LINKS:
            check_failures(value, where)
        field = read_field(value, where)
        self.expressions += field.expressions
        return field

    def of_axis(self, key: str, value: Any, where: Value) -> Part:
        """The part that a value of an axis sets; of a network its field, and its name in rows."""
        if key not in SETTINGS:
            field = self.field(key, value, where)
            if key == FAILED_LINKS:
                return Part({}, {key: field})
            label = self.label(value, where)
            return Part({key: label}, {key: (field, label)})
        setting = SETTINGS[key].read(read_plain(value, where), where)
        return Part({key: value if setting is None else setting}, {key: setting})

    def label(self, value: Any, where: Value) -> str:
        """The name that rows give a network of an axis."""
        if isinstance(value, Mapping):
            expected = "a plain name: rows identify the networks of an axis by it"
            if "name" not in value:
                raise ConfigError(f"{where / 'name'} is missing, expected {expected}")
            label = filled_text(read_plain(value["name"], where / "name"), where / "name", expected)
            if self.labels.setdefault(label, value) != value:
                raise ConfigError(f"{where / 'name'} is {describe(label)}, as that of another network, expected another name")
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
                raise expression.refuse("found cost, expected a cost_model with cost")
            sizes = [_SIZE_COLUMN] if _SIZE in file.axes.places else []
            listed = [*known, *sizes, *(name for name in DERIVED if name != _COST or file.cost_model is not None)]
        else:
            listed = known
        for name in sorted(expression.names.difference(listed)):
            raise expression.refuse(f"found the name {name}, expected {', '.join(listed) or 'no names: there are no axes'}")
        used |= expression.names
    for name, place in file.axes.places.items():
        if name not in used and name not in POINT_KEYS:
            raise ConfigError(f"{place}: nothing uses {name}, expected a key of point, or an expression with it")


_NOTHING = dict.fromkeys(INPUT_COLUMNS)
_SIZE, _SIZE_COLUMN = "size", SETTINGS["size"].column
"""Names of sizes in conditions: that of the key, and that of the column, which `report --where` has."""


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """All points of a sweep file.

    Parameters
    ----------
    axes
        Columns of the rows that hold the values of the axes, in the order of the file.
    left_out
        Number of points that each condition leaves out, by its text; the first condition that a point does not meet counts.
    """

    name: str
    path: Path
    axes: tuple[str, ...]
    points: tuple[Point, ...]
    num_combinations: int
    left_out: dict[str, int]


def read_sweep_file(path: str | Path, backend: str | None = None) -> Sweep:
    """Read a sweep file and the files that it names, and resolve all points.

    Parameters
    ----------
    backend
        Name of the backend of all points; with None the file decides, or else it is `congestion-aware`.

    Raises
    ------
    ConfigError
        If `backend` is given and the file has backends of its own, or the file is invalid: one line that names the file, the
        key, what was found and what was expected, for the first error. A network that cannot be built is no such error; its
        points have an `error` instead.
    """
    file = _read_document(Path(path))
    left_out = dict.fromkeys((condition.text for condition in file.conditions), 0)
    if backend is not None and "backend" in {*file.constants, *file.fields, *file.axes.places}:
        raise ConfigError(f"{path}: has a backend, and so has the command, expected one of them")
    points = tuple(_Resolver(file, left_out, backend).points())
    if not points:
        refused = "; ".join(f"{text} refuses {count:,}" for text, count in left_out.items() if count)
        raise ConfigError(f"{path}: where leaves none of {file.axes.num_combinations:,} points ({refused}), expected some")
    return Sweep(file.name, file.path, tuple(_columns(file.axes.places)), points, file.axes.num_combinations, left_out)


def _columns(axes: Iterable[str]) -> list[str]:
    columns: list[str] = []
    for name in axes:
        if name == FAILED_LINKS:
            columns += ["failed_fraction", "failed_seed"]
        else:
            columns.append(SETTINGS[name].column if name in SETTINGS else name)
    return columns


_Recipe = tuple[str, dict[str, Any], tuple[str, ...]]
"""How to make the points whose axes set the same keys of `point`: `COLLECTIVE` or `WORKLOAD`; constant settings and defaults, by
key; and the keys of the settings that differ between points, because axes set them or because they are expressions."""


@dataclass(slots=True)
class _Resolver:
    file: Document
    left_out: dict[str, int]
    backend: str | None
    networks: Networks = field(init=False)
    recipes: dict[frozenset[str], _Recipe] = field(default_factory=dict)
    read: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    runs: dict[tuple[Any, ...], RunSource] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.networks = Networks(self.file.path, self.file.cost_model)

    def points(self) -> Iterable[Point]:
        index = 0
        for part in self.file.axes.combinations():
            try:
                point = self.point(index, part)
            except ConfigError as error:
                raise ConfigError(f"{error}{_at(part.names)}") from None
            if point is not None:
                yield point
                index += 1

    def point(self, index: int, part: Part) -> Point | None:
        """The point with this number and these values of the axes; None if it does not meet a condition."""
        names, file = part.names, self.file
        given = frozenset(part.given)
        if given not in self.recipes:
            self.recipes[given] = self.new_recipe(given)
        kind, constants, varying = self.recipes[given]
        for name, expression in file.definitions.items():
            names[name] = expression.value(names)
            if isinstance(names[name], (list, tuple)):
                raise ConfigError(f"{expression.where} {describe(expression.text)} is a list, expected a single value")
        network = None
        known = names | {_SIZE_COLUMN: names[_SIZE]} if _SIZE in names else names
        for condition in file.conditions:
            if network is None and not condition.names.isdisjoint(DERIVED):
                network = self.network(part)
                known = known | network.derived
            if not condition.holds(known):
                self.left_out[condition.text] += 1
                return None
        network = network or self.network(part)
        settings = constants.copy()
        for name in varying:
            value = part.given[name] if name in part.given else self.computed(name, names)
            if value is not None:
                settings[name] = value
        task, error = self.collective(settings, network) if kind == COLLECTIVE else self.workload(settings, network)
        inputs = _NOTHING | network.columns
        inputs["kind"] = kind
        for name, value in settings.items():
            column = SETTINGS[name].column
            if column in inputs or name in part.given:
                inputs[column] = value
        for name, value in names.items():
            if name not in POINT_KEYS:
                inputs[name] = value
        return Point(index, network.config, task, inputs, network.error or error)

    def new_recipe(self, given: frozenset[str]) -> _Recipe:
        """The recipe of points whose axes set these keys.

        Raises
        ------
        ConfigError
            If a key is missing, or is for another kind of points.
        """
        file = self.file
        there = {*file.constants, *file.fields, *given}
        kind = WORKLOAD if "workload" in there else COLLECTIVE
        if NETWORK not in there:
            raise ConfigError(f"{file.point / NETWORK} is missing, expected the path of a network YAML, a template, or an axis")
        of_kind = {name: setting for name, setting in SETTINGS.items() if kind in setting.defaults}
        for name in SETTINGS:
            if name in there and name not in of_kind:
                where = file.axes.places[name] if name in given else file.point / name
                subject = "collectives, but there is a workload" if kind == WORKLOAD else "a workload, but there is none"
                raise ConfigError(f"{where}: {name} is for {subject}, expected some of {', '.join(of_kind)}")
        constants = {name: setting.defaults[kind] for name, setting in of_kind.items()}
        constants |= {name: value for name, value in file.constants.items() if value is not None}
        constants["backend"] = self.backend or constants["backend"]
        for name, value in constants.items():
            if value is REQUIRED and name not in there:
                raise ConfigError(f"{file.point / name} is missing, expected a value there or an axis")
        return kind, constants, tuple(name for name in SETTINGS if name in given or name in file.fields)

    def network(self, part: Part) -> PointNetwork:
        fields = self.file.fields
        network, label = part.given[NETWORK] if NETWORK in part.given else (fields[NETWORK], None)
        return self.networks.resolve(network, label, part.given.get(FAILED_LINKS, fields.get(FAILED_LINKS)), part.names)

    def computed(self, name: str, names: dict[str, Any]) -> Any:
        """The value of a key of `point` that contains expressions, for given values of the names."""
        field = self.file.fields[name]
        key = (name, *field.depends_on(names))
        if key not in self.read:
            self.read[key] = SETTINGS[name].read(field.value(names), field.where)
        return self.read[key]

    def collective(self, settings: dict[str, Any], network: PointNetwork) -> tuple[CollectiveTask, str | None]:
        name, root = settings["collective"], settings["root"]
        error = None
        if name in ROOTED:
            root = settings["root"] = root or 0
            if root >= network.config.num_npus:
                try:
                    check_root(name, network.config.num_npus, root)
                except ConfigError as reason:
                    error = str(reason)
        elif root is not None:
            rooted = ", ".join(sorted(ROOTED))
            raise ConfigError(
                f"{self.file.path}: root is {root} and collective {name}, expected {rooted}, as only these have a root"
            )
        return CollectiveTask(name, root, settings["size"], _search_options(settings), settings["backend"]), error

    def workload(self, settings: dict[str, Any], network: PointNetwork) -> tuple[WorkloadTask, str | None]:
        key = tuple(settings[name] for name in RUN_KEYS)
        if key not in self.runs:
            places = {name: self.file.axes.places.get(name, str(self.file.point / name)) for name in RUN_KEYS}
            self.runs[key] = read_run_source(places, self.file.path.parent, *key)
        run = self.runs[key]
        error = None
        if run.num_ranks != network.config.num_npus:
            error = (
                f"{settings['workload']}: traces of {run.num_ranks} ranks, expected {network.config.num_npus}, as many as NPUs"
            )
        arguments = settings["backend"], settings["baseline"], _search_options(settings)
        return WorkloadTask(*run.paths, *arguments, run.digest, settings["placement"], settings["endpoint"]), error


def _search_options(settings: dict[str, Any]) -> SearchOptions:
    """The search options of some settings, with one thread, because points run in parallel."""
    options: dict[str, Any] = {"chunks_per_npu": "auto", "threads": 1}
    for option in SearchOptions.__slots__:
        name = option.removesuffix("_gbps")
        if settings.get(name) is not None:
            options[option] = settings[name]
    return SearchOptions(**options)


def _at(names: dict[str, Any]) -> str:
    """The values of the axes at a point, as text that is appended to an error; empty without axes."""
    if not names:
        return ""
    listed = [f"{name} = {describe(value)}" for name, value in list(names.items())[:_MOST_NAMES]]
    return f" (at {', '.join(listed)}{', ...' if len(names) > _MOST_NAMES else ''})"
