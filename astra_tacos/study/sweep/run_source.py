"""Inputs of a sweep's points: training runs, by the places of their files and a digest of their content, and networks.

A network is a path, or a template in which numbers may be expressions, with links that fail and a cost. Each network is resolved
once.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.composition import build_topology, check_dimensions, count_links
from astra_tacos.network.fabric.kinds import KINDS, make_fabric
from astra_tacos.network.failures import draw_failures
from astra_tacos.network.network_config import (
    NetworkConfig,
    describe_dimensions,
    make_dimensions,
    read_network,
)
from astra_tacos.network.topology import Topology
from astra_tacos.run.compact_run import count_ranks
from astra_tacos.run.directory import Given, find_files, is_compact
from astra_tacos.run.run import SYSTEM
from astra_tacos.run.system import read_system
from astra_tacos.run.trace.reader import trace_files
from astra_tacos.study.optimizer.libra_files import CostModel
from astra_tacos.study.optimizer.model import Shape, link_gibps, npu_gbps
from astra_tacos.study.sweep.axes import DERIVED, MARK, Field
from astra_tacos.study.sweep.settings import naming, read_number
from astra_tacos.support.documents import Value
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.expression import Names
from astra_tacos.support.formats.numbers import is_number, is_whole
from astra_tacos.support.formats.values import describe, filled_text, mapping_value
from astra_tacos.support.input_file import open_regular
from astra_tacos.support.records import Keyed

_BANDWIDTH, _PER_NPU = "bandwidth", "bandwidth_per_npu"
_TEMPLATE_KEYS = ("name", "topology", "npus_count", _BANDWIDTH, _PER_NPU, "latency")
_FABRIC = "fabric"
_FAILURE_KEYS = ("fraction", "seed")


@dataclass(frozen=True, slots=True)
class NamedNetwork:
    """A network with the name that rows give it.

    `split_gbps` is the bandwidth of an NPU in each dimension, in decimal GB/s, without rounding of what the file says.
    """

    name: str
    config: NetworkConfig
    split_gbps: tuple[float, ...]


def check_network(value: object, where: Value) -> None:
    """Check a network of the sweep file as far as it does not depend on expressions.

    Raises
    ------
    ConfigError
        If the value is neither a path nor a template, or a template lacks a key or has an unknown one.
    """
    if isinstance(value, Mapping) and _FABRIC in value:
        for key, number in value.items():
            if key not in (_FABRIC, "name"):
                _check_numbers(number, where / key)
    elif isinstance(value, Mapping):
        where.check_keys(_TEMPLATE_KEYS)
        if (_BANDWIDTH in value) == (_PER_NPU in value):
            presence = "both" if _BANDWIDTH in value else "neither"
            raise ConfigError(f"{where} has {presence} of {_BANDWIDTH} and {_PER_NPU}, expected one of them")
        if "topology" not in value:
            raise ConfigError(f"{where / 'topology'} is missing, expected a list of one entry per dimension")
        for key in ("npus_count", _BANDWIDTH, _PER_NPU, "latency"):
            _check_numbers(value.get(key), where / key)
    else:
        filled_text(value, where, "the path of a network YAML, or a template")


def _check_numbers(value: object, where: Value) -> None:
    """Check that text in place of a number is not a bare word; all else is checked when the value is used."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            _check_numbers(entry, where / index)
    elif isinstance(value, str) and value.strip()[:1].isalpha():
        text, expected = describe(value), describe(f"{MARK} {value}")
        raise ConfigError(f"{where}: found the text {text}, expected a number or an expression, which begins with =: {expected}")


def _failures(field: Field | None, names: Names) -> tuple[float | None, int | None]:
    """The fraction and the seed of links that fail, for given values of the names; None if none fail."""
    value = None if field is None else field.value(names)
    if field is None or value is None:
        return None, None
    where = field.where
    fraction = read_number(value["fraction"], where / "fraction", "a number of 0 to below 1", lambda number: 0 <= number < 1)
    seed = value.get("seed", 0)
    if not is_whole(seed, 0, (1 << 62) - 1):
        raise ConfigError(f"{where / 'seed'} is {describe(seed)}, expected a whole number from 0 on")
    return fraction, seed


def check_failures(value: object, where: Value) -> None:
    """Check the links that fail: a mapping with a fraction and, optionally, a seed; or null.

    Raises
    ------
    ConfigError
        If the value is anything else.
    """
    if value is None:
        return
    failures = mapping_value(value, where, "{fraction, seed} or null")
    where.check_keys(_FAILURE_KEYS)
    if "fraction" not in failures:
        raise ConfigError(f"{where / 'fraction'} is missing, expected a number of 0 to below 1")
    for key, entry in failures.items():
        _check_numbers(entry, where / key)


@dataclass(frozen=True, slots=True, eq=False)
class PointNetwork:
    """The network of a point.

    Parameters
    ----------
    derived
        Values that conditions may use, by name; values that the network does not have are left out.
    error
        Why the network cannot be built; None if it can.
    """

    config: NetworkConfig
    columns: dict[str, Any]
    derived: dict[str, Any]
    error: str | None


@dataclass(slots=True, eq=False)
class Networks:
    """Resolves the networks of points. Points that differ in nothing that their network depends on share one."""

    source: Path
    cost_model: CostModel | None
    _files: dict[Path, NamedNetwork] = field(default_factory=dict)
    _resolved: dict[tuple[Any, ...], PointNetwork] = field(default_factory=dict)
    _tries: dict[tuple[Any, ...], tuple[Any, str | None]] = field(default_factory=dict)

    def resolve(self, network: Field, label: str | None, failures: Field | None, names: Names) -> PointNetwork:
        """The network of a point.

        Parameters
        ----------
        network
            The network as the sweep file gives it: the path of a file, or a template.
        label
            Name of the network in rows; None for the name of the network file or the template.
        failures
            Fraction and seed of failed links; None if no links fail beyond those of the network file.

        Raises
        ------
        ConfigError
            If the sweep file, a network file or the cost model is invalid. A network that merely cannot be built raises
            nothing: its `error` says why.
        """
        key = (network, label, failures, *network.depends_on(names), *(failures.depends_on(names) if failures else ()))
        resolved = self._resolved.get(key)
        if resolved is None:
            named = self._named(network, names)
            named = named if label is None else replace(named, name=label)
            resolved = self._resolved[key] = self._resolve(named, *_failures(failures, names))
        return resolved

    def _named(self, network: Field, names: Names) -> NamedNetwork:
        value = network.value(names)
        if isinstance(value, Mapping):
            named = (self._of_fabric if _FABRIC in value else self._of_dimensions)(network.where, value)
            return replace(named, name=filled_text(value.get("name", named.name), network.where / "name", "a name"))
        path = self.source.parent / filled_text(value, network.where, "the path of a network YAML")
        if path not in self._files:
            with naming(network.where):
                config = read_network(path)
            self._files[path] = NamedNetwork(config.name, config, tuple(map(npu_gbps, config.dimensions)))
        return self._files[path]

    def _of_dimensions(self, where: Value, template: Mapping[str, Any]) -> NamedNetwork:
        key = _PER_NPU if _PER_NPU in template else _BANDWIDTH
        document = replace(where, content=template)
        dimensions = make_dimensions(document, document / "topology", tuple(BUILDING_BLOCKS), bandwidth_key=key)
        split = tuple(d.bandwidth_gibps if key == _PER_NPU else npu_gbps(d) for d in dimensions)
        if key == _PER_NPU:
            dimensions = tuple(replace(d, bandwidth_gibps=link_gibps(d.block, d.size, d.bandwidth_gibps)) for d in dimensions)
        return NamedNetwork(describe_dimensions(dimensions), NetworkConfig(str(self.source), dimensions), split)

    def _of_fabric(self, where: Value, template: Mapping[str, Any]) -> NamedNetwork:
        values = {str(key): value for key, value in template.items() if key not in (_FABRIC, "name")}
        for key, value in values.items():
            if not is_number(value, -math.inf, math.inf):
                raise ConfigError(f"{where / key} is {describe(value)}, expected a number")
        kind = filled_text(template[_FABRIC], where / _FABRIC, ", ".join(KINDS))
        with naming(where):
            config = make_fabric(kind, **values)
        description = ", ".join((kind, *(f"{key} {value:g}" for key, value in sorted(values.items()))))
        return NamedNetwork(description, replace(config, source=description), ())

    def _resolve(self, named: NamedNetwork, fraction: float | None, seed: int | None) -> PointNetwork:
        config = named.config
        with naming(f"{self.source}: cost_model"):
            cost = self._cost(named)
        structure = _structure(config)
        # Bandwidths do not matter, so networks of one structure share the answer; the text of an error names the file.
        _, error = self._tried((config.source, *structure), lambda: self._check(config, structure))
        can_be_counted = error is None  # a network with an error may be far too large to count
        if error is None and fraction:
            key = (structure, fraction, seed)
            failed, error = self._tried(key, lambda: draw_failures(_topology_of(Keyed(structure, config)), fraction, seed or 0))
            if error is None:
                config = replace(config, failed_links=(*config.failed_links, *failed))
        num_links = count_links(config) if can_be_counted else None
        split = named.split_gbps
        columns = {
            "network": named.name,
            "topology": describe_dimensions(config.dimensions)
            or f"graph of {len(config.links) - len(config.failed_links)} links",
            "num_npus": config.num_npus,
            "num_links": num_links,
            "link_bandwidth_gibps": [d.bandwidth_gibps for d in config.dimensions] or None,
            "latency_ns": [d.latency_ns for d in config.dimensions] or None,
            "bandwidth_per_npu_gbps": list(split) or None,
            "total_bandwidth_gbps": math.fsum(split) if split else None,
            "failed_links": len(config.failed_links),
            "cost": cost,
            "failed_fraction": fraction,
            "failed_seed": seed,
        }
        derived = {name: columns[column] for name, column in DERIVED.items()}
        derived["npus_count"] = [dimension.size for dimension in config.dimensions] or None
        return PointNetwork(config, columns, {name: value for name, value in derived.items() if value is not None}, error)

    def _check(self, config: NetworkConfig, structure: tuple[Any, ...]) -> None:
        """Check that a network can be built, before failures are drawn."""
        if config.links or config.failed_links or config.link_overrides:
            _topology_of(Keyed(structure, config))
        else:
            check_dimensions(config)  # no need to build it: a network of dimensions alone is connected

    def _tried(self, key: tuple[Any, ...], make: Callable[[], Any]) -> tuple[Any, str | None]:
        """What `make` returns, or the text of its error; it is called once for each key."""
        if key not in self._tries:
            try:
                self._tries[key] = make(), None
            except AstraTacosError as error:
                self._tries[key] = None, str(error)
        return self._tries[key]

    def _cost(self, named: NamedNetwork) -> float | None:
        """Cost of the whole network in dollars by LIBRA's model, which prices each NPU's GB/s in each dimension.

        None without a cost model.
        """
        if self.cost_model is None:
            return None
        config = named.config
        if not config.dimensions:
            raise ConfigError(
                f"{config.source}: astra_tacos.links lists links one by one, expected dimensions: "
                f"{self.cost_model.source} has the prices of dimensions"
            )
        columns = zip(*((d.block, d.size, d.latency_ns) for d in config.dimensions), strict=True)
        shape = Shape(config.source, *columns)
        prices = self.cost_model.prices(shape)
        return math.fsum(price * shape.num_npus * gbps for price, gbps in zip(prices, named.split_gbps, strict=True))


@lru_cache(maxsize=1)
def _topology_of(network: Keyed[NetworkConfig]) -> Topology:
    """The topology of a structure; its bandwidths and latencies may be those of another network. The last one is kept."""
    return build_topology(network.value, may_forward=True)


def _structure(config: NetworkConfig) -> tuple[Any, ...]:
    """A key that is equal for networks with the same links, whatever their bandwidths and latencies."""
    if config.links or config.link_overrides:  # such a network comes from a file, which identifies its links
        return (config.source, config.failed_links)
    return (*((d.block, d.size) for d in config.dimensions), config.failed_links, config.reducing)


RUN_KEYS = ("workload", "system", "comm_group", "remote_memory", "directory")


@dataclass(frozen=True, slots=True)
class RunSource:
    """The files of a training run.

    Parameters
    ----------
    paths
        Absolute paths in the order of `RUN_KEYS`: prefix of the trace files, system file, communicator group file, remote memory
        file, and the directory in which ASTRA-sim is started.
    digest
        SHA-256 over the content of all these files and of the traces that the system file names, in hexadecimal.
    """

    paths: tuple[str, str, str | None, str | None, str]
    digest: str
    num_ranks: int


def read_run_source(
    places: Mapping[str, str],
    folder: Path,
    workload: str,
    system: str | None,
    comm_group: str | None,
    remote_memory: str | None,
    directory: str | None,
) -> RunSource:
    """Find the files of a run and compute the digest of their content.

    Parameters
    ----------
    places
        Place of each of `RUN_KEYS` in the sweep file, for errors.
    workload
        Prefix of the trace files, or the directory of a run, ordinary or compact, which has its files.
    system
        System file; None for that of the directory.
    comm_group
        Communicator group file, if any; None for that of the directory.
    remote_memory
        Remote memory file, if any; None for that of the directory.
    directory
        Directory in which ASTRA-sim is started, to which paths in the system file refer; by default that of the run, or of the
        system file.

    Raises
    ------
    ConfigError
        If a file is missing or cannot be read.
    """
    folder = folder.resolve()
    if is_compact(folder / workload):
        return _compact_source(places, Path(os.path.normpath(folder / workload)), system, comm_group, remote_memory, directory)
    is_prefix = (folder / f"{workload}.0.et").is_file()
    if (folder / workload).is_dir() and not is_prefix:
        names = {"system": system, "groups": comm_group, "remote_memory": remote_memory, "directory": directory}
        given = Given(**{name: folder / value for name, value in names.items() if value is not None})
        with naming(places["workload"]):
            files_found = find_files(Path(os.path.normpath(folder / workload)), None, given)
        workload, directory = str(files_found.workload), str(files_found.directory)
        files = (files_found.system, files_found.groups, files_found.remote_memory)
        system, comm_group, remote_memory = (None if file is None else str(file) for file in files)
    if system is None:
        raise ConfigError(
            f"{places['system']} is missing, expected a value there, an axis, or a file in the directory of the run"
        )
    system_path = Path(os.path.normpath(folder / system))
    start = system_path.parent if directory is None else Path(os.path.normpath(folder / directory))
    if not start.is_dir():
        raise ConfigError(
            f"{places['directory']}: {start}: no such directory, expected the directory in which ASTRA-sim is started"
        )
    with naming(places["system"]):
        config = read_system(system_path, start)
    with naming(places["workload"]):
        ranks = trace_files(folder / workload)
    digest = hashlib.sha256()
    _add(digest, "system", system_path)
    for rank, path in enumerate(ranks):
        _add(digest, f"workload {rank}", path)
    optional = {
        "groups": ("comm_group", comm_group),
        "remote memory": ("remote_memory", remote_memory),
        "per node": ("system", config.per_node_source),
    }
    for role, (key, name) in optional.items():
        if name is None:
            continue
        with naming(places[key]):
            _add(digest, role, (start if role == "per node" else folder) / name)
    for prefix in sorted({*config.custom.values(), *config.per_node.values()}):
        if not Path(f"{start / prefix}.0.et").is_file():
            continue  # if the run uses it, reading the run reports the missing file
        for rank, path in enumerate(trace_files(start / prefix)):
            _add(digest, f"collective {prefix} {rank}", path)
    groups, memory = (None if name is None else os.path.normpath(folder / name) for name in (comm_group, remote_memory))
    prefix = os.path.normpath(folder / workload)
    return RunSource((prefix, str(system_path), groups, memory, str(start)), digest.hexdigest(), len(ranks))


def _compact_source(places: Mapping[str, str], folder: Path, *others: str | None) -> RunSource:
    """The files of a compact run."""
    for key, name in zip(RUN_KEYS[1:], others, strict=True):
        if name not in (None, str(folder / SYSTEM), str(folder)):
            raise ConfigError(f"{places[key]}: found {name}, expected none: {folder} is a compact run, which has all files")
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        _add(digest, path.relative_to(folder).as_posix(), path)
    with naming(places["workload"]):
        num_ranks = count_ranks(folder)
    return RunSource((str(folder), str(folder / SYSTEM), None, None, str(folder)), digest.hexdigest(), num_ranks)


def _add(digest: hashlib._Hash, role: str, path: Path) -> None:
    """Add the role of a file and the digest of its content, so that files in different roles cannot be exchanged unnoticed."""
    with open_regular(path, "a file of a run") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    digest.update(f"{role} {content}\n".encode())
