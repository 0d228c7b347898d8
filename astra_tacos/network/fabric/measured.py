"""A network of what was measured between hosts, in the best order for a native algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tacos.network.fabric.host_levels import (
    HostLevel,
    HostMatrix,
    as_dimensions,
    find_levels,
    find_order,
    halving_doubling_ns,
    ring_ns,
)
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.rows import Row
from astra_tacos.support.units import format_size

_MOST_HOSTS = 16
"""Names of hosts in a table."""


@dataclass(frozen=True, slots=True)
class MeasuredHosts:
    """Hosts in an order, their levels and network; times of All-Reduces by a model, in the order of the file and in this one."""

    source: str
    algorithm: str
    levels: tuple[HostLevel, ...]
    hosts: tuple[str, ...]
    is_best: bool
    network: NetworkConfig
    size_bytes: int
    ring_before_ns: float
    ring_ns: float
    halving_doubling_before_ns: float | None
    halving_doubling_ns: float | None

    @classmethod
    def of(cls, matrix: HostMatrix, algorithm: str, size_bytes: int) -> MeasuredHosts:
        """Find the levels of hosts, and their order for an All-Reduce of a size by an algorithm.

        Parameters
        ----------
        algorithm
            One of `ALGORITHMS`.
        """
        if algorithm == "halving-doubling" and matrix.num_hosts & (matrix.num_hosts - 1):
            raise ConfigError(f"--algorithm: halving-doubling of {matrix.num_hosts} hosts, expected a power of two")
        levels, given_order = find_levels(matrix), np.arange(matrix.num_hosts)
        host_order = find_order(matrix, algorithm, size_bytes, levels)
        return cls(
            matrix.source,
            algorithm,
            levels,
            tuple(matrix.hosts[host] for host in host_order.order.tolist()),
            host_order.is_best,
            as_dimensions(matrix, levels),
            size_bytes,
            *(ring_ns(matrix, order, size_bytes) for order in (given_order, host_order.order)),
            *(halving_doubling_ns(matrix, order, size_bytes) for order in (given_order, host_order.order)),
        )

    def to_json(self) -> dict[str, Any]:
        """What `network measured --json` prints of it."""
        names = ("ring_before_ns", "ring_ns", "halving_doubling_before_ns", "halving_doubling_ns")
        return {
            "measured": self.source,
            "levels": [
                {
                    "parts": level.num_parts,
                    "hosts_of_parts": list(level.part_sizes),
                    "latency_ns": level.latency_ns,
                    "bandwidth_gbps": level.bandwidth_gbps,
                    "spread_of_bandwidth": level.spread[0],
                    "spread_of_latency": level.spread[1],
                }
                for level in self.levels
            ],
            "order": list(self.hosts),
            "order_is_best": self.is_best,
            "size_bytes": self.size_bytes,
            **{name: getattr(self, name) for name in names},
        }

    def rows(self) -> list[Row]:
        """The same as rows."""
        rows = [Row("measured", note=self.source)]
        for number, level in enumerate(self.levels, 1):
            spread = f"latency differs up to {level.spread[1]:.2f} times, bandwidth {level.spread[0]:.2f}"
            parts = f"{level.num_parts} parts" if level.num_parts > 1 else "all hosts"
            if len(level.part_sizes) > 1:
                parts += f" of {', '.join(map(str, level.part_sizes))} hosts, so no dimension"
            rows.append(
                Row(f"level {number}", note=f"{parts}, {level.latency_ns:,.0f} ns, {level.bandwidth_gbps:.2f} GB/s ({spread})")
            )
        more = ", ... (hosts.csv has all)" if len(self.hosts) > _MOST_HOSTS else ""
        rows.append(Row(f"order for {self.algorithm}", note=", ".join(self.hosts[:_MOST_HOSTS]) + more))
        how_good = "the best order that keeps parts together" if self.is_best else "the best that exchanges found"
        rows.append(
            Row(
                f"ring, {format_size(self.size_bytes)}",
                note=f"{self.ring_before_ns:,.0f} ns as in the file -> {self.ring_ns:,.0f} ns (model; {how_good})",
            )
        )
        before, after = self.halving_doubling_before_ns, self.halving_doubling_ns
        if before is not None and after is not None:
            rows.append(Row("halving-doubling", note=f"{before:,.0f} ns as in the file -> {after:,.0f} ns (model)"))
        shared = "unknown: pairs were measured one at a time, so links between parts count as fast as all their pairs"
        rows.append(Row("shared links", note=shared))
        if len(self.network.dimensions) > 1:
            ports = f"an NPU has one for each of {len(self.network.dimensions)} dimensions"
            rows.append(Row("ports", note=f"{ports}: what uses several at once is too fast if hosts have one NIC"))
        return rows
