"""Networks of points, each resolved once: built as far as needed, with random link failures and its price."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from astra_tacos.config.network import NetworkConfig, describe_dimensions
from astra_tacos.errors import AstraTacosError, ConfigError
from astra_tacos.optimizer.libra_files import CostModel
from astra_tacos.optimizer.shape import Shape
from astra_tacos.sweep.expression import Names
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
        As it is built, without the links that failed.
    columns
        Those of its row that tell about the network.
    derived
        What conditions may ask of it.
    error
        Why it cannot be built.
    """

    config: NetworkConfig
    columns: dict[str, Any]
    derived: dict[str, Any]
    error: str | None


@dataclass(slots=True, eq=False)
class Networks:
    """Networks resolved so far; points that differ in other things share them."""

    cost_model: CostModel | None
    _files: dict[Path, NamedNetwork] = field(default_factory=dict)
    _resolved: dict[tuple[Any, ...], PointNetwork] = field(default_factory=dict)
    _errors: dict[tuple[Any, ...], str | None] = field(default_factory=dict)
    _drawn: dict[tuple[Any, ...], tuple[tuple[int, int], ...] | str] = field(default_factory=dict)
    _prices: dict[tuple[Any, ...], tuple[float, ...]] = field(default_factory=dict)
    _last: tuple[tuple[Any, ...], Topology] | None = None

    def resolve(self, spec: NetworkSpec, failures: FailureSpec | None, names: Names) -> PointNetwork:
        """The network of a point.

        Raises
        ------
        ConfigError
            If the sweep file, a network file or the cost model is not what it should be. What makes a network impossible to
            build for one point is in its `error`.
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
        can_be_counted = error is None  # else it may be far too large
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
        """Why a network without drawn failures cannot be built. Bandwidths do not matter, so it is asked once for many."""
        key = (config.source, *structure)  # errors name the file
        if key not in self._errors:
            try:
                if config.links or config.failed_links or config.link_overrides:
                    self._topology(config, structure)
                else:
                    check_dimensions(config)  # such networks are connected
                self._errors[key] = None
            except AstraTacosError as error:
                self._errors[key] = str(error)
        return self._errors[key]

    def _draw(
        self, config: NetworkConfig, structure: tuple[Any, ...], fraction: float, seed: int
    ) -> tuple[tuple[int, int], ...] | str:
        """Links that fail, or why so many cannot."""
        key = (structure, fraction, seed)
        if key not in self._drawn:
            try:
                self._drawn[key] = draw_failures(self._topology(config, structure), fraction, seed)
            except ConfigError as error:
                self._drawn[key] = str(error)
        return self._drawn[key]

    def _topology(self, config: NetworkConfig, structure: tuple[Any, ...]) -> Topology:
        """The topology, or one that differs in bandwidth and latency only; the last one is kept."""
        if self._last is None or self._last[0] != structure:
            self._last = (structure, build_topology(config))
        return self._last[1]

    def _cost(self, named: NamedNetwork) -> float | None:
        """Dollars of the whole network, by LIBRA's model: of every NPU's GB/s in each dimension."""
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
    """What a network's links depend on, but for bandwidths and latencies."""
    if config.links or config.link_overrides:  # from a file: overrides have to name links
        return (config.source, config.failed_links)
    return (*((d.block, d.size) for d in config.dimensions), config.failed_links)


def _columns(named: NamedNetwork, config: NetworkConfig, num_links: int | None) -> dict[str, Any]:
    """What a row says about a network, but for its cost and how links were drawn that fail."""
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
