"""Networks of points, each resolved once, with randomly drawn link failures and the cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from astra_tacos.config.expression import Names
from astra_tacos.config.network import NetworkConfig, describe_dimensions
from astra_tacos.errors import AstraTacosError, ConfigError
from astra_tacos.optimizer.libra_files import CostModel
from astra_tacos.optimizer.shape import Shape
from astra_tacos.sweep.field import naming
from astra_tacos.sweep.network_spec import FailureSpec, NamedNetwork, NetworkSpec
from astra_tacos.topology.composition import build_topology, check_dimensions, count_links
from astra_tacos.topology.failures import draw_failures
from astra_tacos.topology.topology import Topology


@dataclass(frozen=True, slots=True, eq=False)
class PointNetwork:
    """The network of a point.

    Parameters
    ----------
    config
        The network as it is built, with its failed links listed.
    columns
        Columns of the point's row that describe the network.
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

    cost_model: CostModel | None
    _files: dict[Path, NamedNetwork] = field(default_factory=dict)
    _resolved: dict[tuple[Any, ...], PointNetwork] = field(default_factory=dict)
    _errors: dict[tuple[Any, ...], str | None] = field(default_factory=dict)
    _drawn: dict[tuple[Any, ...], tuple[tuple[int, int], ...] | str] = field(default_factory=dict)
    _prices: dict[tuple[Any, ...], tuple[float, ...]] = field(default_factory=dict)
    _last: tuple[tuple[Any, ...], Topology] | None = None

    def resolve(self, spec: NetworkSpec, failures: FailureSpec | None, names: Names) -> PointNetwork:
        """The network of a point.

        Parameters
        ----------
        spec
            The network as the sweep file gives it.
        failures
            Fraction and seed of failed links; None if no links fail beyond those of the network file.
        names
            Values of the axes and definitions at the point.

        Raises
        ------
        ConfigError
            If the sweep file, a network file or the cost model is invalid. A network that merely cannot be built raises
            nothing: its `error` says why.
        """
        key = (spec, failures, *spec.field.depends_on(names), *(failures.field.depends_on(names) if failures else ()))
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = self._resolve(spec, failures, names)
        return found

    def _resolve(self, spec: NetworkSpec, failures: FailureSpec | None, names: Names) -> PointNetwork:
        named = spec.resolve(names, self._files)
        config = named.config
        fraction, seed = failures.resolve(names) if failures else (None, None)
        with naming(f"{spec.source}: cost_model"):
            cost = self._cost(named)
        structure = _structure(config)
        error = self._error(config, structure)
        can_be_counted = error is None  # a network with an error may be far too large to count
        if error is None and fraction:
            failed = self._draw(config, structure, fraction, seed or 0)
            if isinstance(failed, str):
                error = failed
            else:
                config = replace(config, failed_links=(*config.failed_links, *failed))
        num_links = count_links(config) if can_be_counted else None
        columns = _columns(named, config, num_links) | {"cost": cost, "failed_fraction": fraction, "failed_seed": seed}
        derived = {
            "num_npus": config.num_npus,
            "num_links": num_links,
            "bandwidth": columns["bandwidth_per_npu_gbps"],
            "total_bandwidth": columns["total_bandwidth_gbps"],
            "npus_count": [dimension.size for dimension in config.dimensions] or None,
            "cost": cost,
        }
        return PointNetwork(config, columns, {name: value for name, value in derived.items() if value is not None}, error)

    def _error(self, config: NetworkConfig, structure: tuple[Any, ...]) -> str | None:
        """Why a network cannot be built, before failures are drawn; None if it can.

        The answer does not depend on bandwidths, so networks of one structure share it.
        """
        key = (config.source, *structure)  # the text of an error names the file
        if key not in self._errors:
            try:
                if config.links or config.failed_links or config.link_overrides:
                    self._topology(config, structure)
                else:
                    check_dimensions(config)  # no need to build it: a network of dimensions alone is connected
                self._errors[key] = None
            except AstraTacosError as error:
                self._errors[key] = str(error)
        return self._errors[key]

    def _draw(
        self, config: NetworkConfig, structure: tuple[Any, ...], fraction: float, seed: int
    ) -> tuple[tuple[int, int], ...] | str:
        """The links that fail, as (source, destination) pairs, or a text that says why so many cannot fail."""
        key = (structure, fraction, seed)
        if key not in self._drawn:
            try:
                self._drawn[key] = draw_failures(self._topology(config, structure), fraction, seed)
            except ConfigError as error:
                self._drawn[key] = str(error)
        return self._drawn[key]

    def _topology(self, config: NetworkConfig, structure: tuple[Any, ...]) -> Topology:
        """The topology of a structure; its bandwidths and latencies may be those of another network. The last one is kept."""
        if self._last is None or self._last[0] != structure:
            self._last = (structure, build_topology(config, may_forward=True))
        return self._last[1]

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
        key = (shape.blocks, shape.sizes)
        if key not in self._prices:
            self._prices[key] = self.cost_model.prices(shape)
        prices = self._prices[key]
        return math.fsum(price * shape.num_npus * gbps for price, gbps in zip(prices, named.split_gbps, strict=True))


def _structure(config: NetworkConfig) -> tuple[Any, ...]:
    """A key that is equal for networks with the same links, whatever their bandwidths and latencies."""
    if config.links or config.link_overrides:  # such a network comes from a file, which identifies its links
        return (config.source, config.failed_links)
    return (*((d.block, d.size) for d in config.dimensions), config.failed_links, config.reducing)


def _columns(named: NamedNetwork, config: NetworkConfig, num_links: int | None) -> dict[str, Any]:
    """Columns of a row that describe a network, except its cost and the fraction and seed of its failed links."""
    return {
        "network": named.name,
        "topology": describe_dimensions(config.dimensions) or f"graph of {len(config.links) - len(config.failed_links)} links",
        "num_npus": config.num_npus,
        "num_links": num_links,
        "link_bandwidth_gibps": [d.bandwidth_gibps for d in config.dimensions] or None,
        "latency_ns": [d.latency_ns for d in config.dimensions] or None,
        "bandwidth_per_npu_gbps": list(named.split_gbps) or None,
        "total_bandwidth_gbps": math.fsum(named.split_gbps) if named.split_gbps else None,
        "failed_links": len(config.failed_links),
    }
