"""Networks of a sweep file, given by a path or by a template in which numbers may be expressions; and links that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from astra_tacos.blocks import BUILDING_BLOCKS
from astra_tacos.config.expression import Names
from astra_tacos.config.network import NetworkConfig, check_block_names, describe_dimensions, make_dimensions, read_network
from astra_tacos.config.yaml_text import describe
from astra_tacos.errors import ConfigError
from astra_tacos.fabric.kinds import KINDS, make_fabric
from astra_tacos.optimizer.shape import link_gibps, npu_gbps
from astra_tacos.sweep.field import MARK, Field, check_keys, read_field
from astra_tacos.sweep.settings import read_number

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


@dataclass(frozen=True, slots=True, eq=False)
class NetworkSpec:
    """A network as the sweep file gives it: the path of a file, or a template.

    Parameters
    ----------
    field
        The value in the sweep file.
    source
        Path of the sweep file; paths of networks are relative to its directory.
    name
        Name of the network in rows; None for the name of the network file or the template.
    """

    field: Field
    source: Path
    name: str | None = None

    def resolve(self, names: Names, files: dict[Path, NamedNetwork]) -> NamedNetwork:
        """The network for given values of the names.

        Parameters
        ----------
        names
            Values of the axes and definitions.
        files
            Networks of files that were read before, by path; newly read ones are added.

        Raises
        ------
        ConfigError
            If a file or a value is invalid.
        """
        value = self.field.value(names)
        if isinstance(value, Mapping):
            return self._from_template(value)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self.field.where} is {describe(value)}, expected the path of a network YAML")
        path = self.source.parent / value
        if path not in files:
            try:
                config = read_network(path)
            except ConfigError as error:
                raise ConfigError(f"{self.field.where}: {error}") from None
            files[path] = NamedNetwork(config.name, config, tuple(map(npu_gbps, config.dimensions)))
        return files[path] if self.name is None else replace(files[path], name=self.name)

    def _from_template(self, template: Mapping[str, Any]) -> NamedNetwork:
        where = self.field.where
        if _FABRIC in template:
            return self._from_fabric(template)
        blocks = template["topology"]
        if not isinstance(blocks, list) or not blocks:
            raise ConfigError(f"{where}.topology is {describe(blocks)}, expected a list of one entry per dimension")
        check_block_names(f"{where}.topology", blocks, tuple(BUILDING_BLOCKS))
        key = _PER_NPU if _PER_NPU in template else _BANDWIDTH
        dimensions = make_dimensions(where, template, blocks, bandwidth_key=key)
        if key == _PER_NPU:
            split = tuple(dimension.bandwidth_gibps for dimension in dimensions)
            dimensions = tuple(replace(d, bandwidth_gibps=link_gibps(d.block, d.size, d.bandwidth_gibps)) for d in dimensions)
        else:
            split = tuple(map(npu_gbps, dimensions))
        name = template.get("name", describe_dimensions(dimensions))
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{where}.name is {describe(name)}, expected a name")
        return NamedNetwork(self.name or name, NetworkConfig(str(self.source), dimensions), split)

    def _from_fabric(self, template: Mapping[str, Any]) -> NamedNetwork:
        kind = template[_FABRIC]
        values = {str(key): value for key, value in template.items() if key not in (_FABRIC, "name")}
        for key, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"{self.field.where}.{key} is {describe(value)}, expected a number")
        if not isinstance(kind, str):
            raise ConfigError(f"{self.field.where}.{_FABRIC} is {describe(kind)}, expected {', '.join(KINDS)}")
        try:
            config = make_fabric(kind, **values)
        except ConfigError as error:
            raise ConfigError(f"{self.field.where}: {error}") from None
        told = ", ".join((kind, *(f"{key} {value:g}" for key, value in sorted(values.items()))))
        name = template.get("name", told)
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{self.field.where}.name is {describe(name)}, expected a name")
        return NamedNetwork(self.name or name, replace(config, source=told), ())


def read_network_spec(value: object, where: str, source: Path) -> NetworkSpec:
    """Read the network that a value of the sweep file describes.

    Parameters
    ----------
    value
        The value: a path or a template.
    where
        File and key of the value, for errors.
    source
        Path of the sweep file.

    Raises
    ------
    ConfigError
        If the value is neither a path nor a template, or a template lacks a key or has an unknown one.
    """
    if isinstance(value, Mapping) and _FABRIC in value:
        for key, number in value.items():
            if key not in (_FABRIC, "name"):
                _check_numbers(number, f"{where}.{key}")
    elif isinstance(value, Mapping):
        check_keys(value, where, _TEMPLATE_KEYS)
        if (_BANDWIDTH in value) == (_PER_NPU in value):
            found = "both" if _BANDWIDTH in value else "neither"
            raise ConfigError(f"{where} has {found} of {_BANDWIDTH} and {_PER_NPU}, expected one of them")
        if "topology" not in value:
            raise ConfigError(f"{where}.topology is missing, expected a list of one entry per dimension")
        for key in ("npus_count", _BANDWIDTH, _PER_NPU, "latency"):
            _check_numbers(value.get(key), f"{where}.{key}")
    elif not isinstance(value, str) or not value:
        raise ConfigError(f"{where} is {describe(value)}, expected the path of a network YAML, or a template")
    return NetworkSpec(read_field(value, where), source)


def _check_numbers(value: object, where: str) -> None:
    """Check that text in place of a number is not a bare word; all else is checked when the value is used."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            _check_numbers(entry, f"{where}[{index}]")
    elif isinstance(value, str) and value.strip()[:1].isalpha():
        found, expected = describe(value), describe(f"{MARK} {value}")
        raise ConfigError(f"{where}: found the text {found}, expected a number or an expression, which begins with =: {expected}")


@dataclass(frozen=True, slots=True, eq=False)
class FailureSpec:
    """The links that fail, as the sweep file gives them: a fraction and a seed."""

    field: Field

    def resolve(self, names: Names) -> tuple[float, int]:
        """The fraction and the seed for given values of the names.

        Raises
        ------
        ConfigError
            If one of them is out of range.
        """
        value, where = self.field.value(names), self.field.where
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} is {describe(value)}, expected {{fraction, seed}}")
        fraction = read_number(value["fraction"], f"{where}.fraction", "a number of 0 to below 1", lambda number: 0 <= number < 1)
        seed = value.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 62:
            raise ConfigError(f"{where}.seed is {describe(seed)}, expected a whole number from 0 on")
        return fraction, seed


def read_failure_spec(value: object, where: str) -> FailureSpec | None:
    """Read the links that fail from a value of the sweep file; None if the value is null.

    Raises
    ------
    ConfigError
        If the value is no mapping with a fraction and, optionally, a seed.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is {describe(value)}, expected {{fraction, seed}} or null")
    check_keys(value, where, _FAILURE_KEYS)
    if "fraction" not in value:
        raise ConfigError(f"{where}.fraction is missing, expected a number of 0 to below 1")
    for key, entry in value.items():
        _check_numbers(entry, f"{where}.{key}")
    return FailureSpec(read_field(value, where))
