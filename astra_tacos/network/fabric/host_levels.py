"""Levels of a network by clustering what was measured between hosts, and the network that they make.

A partition of the hosts is a level if all pairs inside a part are clearly closer than all pairs across parts
(`nested_partitions`). Closer is less latency, or more bandwidth.

The order of hosts keeps the parts of levels together, so that levels can be dimensions. Of such orders it is one in which an
algorithm over all of them ends early:

- A ring in steps of m bytes: each step takes as long as the slowest of its pairs is held, but no less than the mean over the ring
  of latency and holding, as what goes once around waits for every pair (the largest cycle mean of the steps' graph).
- Halving-doubling of S bytes: the slowest pair of each step, S/2 bytes at distance 1, S/4 at distance 2, and so on.

Latency and bandwidth are measured pair by pair, each a CSV matrix with the names of hosts on both sides. The first line names the
columns, the first field of every other line its row; fields are from the row's host to the column's. The hosts of rows and
columns are the same, in any order. The diagonal, which measures a host with itself, is not looked at.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

import numpy as np

from astra_tacos.network.blocks.switch import SWITCH
from astra_tacos.network.network_config import (
    MAX_BANDWIDTH_GIBPS,
    MAX_LATENCY_NS,
    MIN_BANDWIDTH_GIBPS,
    Dimension,
    NetworkConfig,
)
from astra_tacos.network.partitions import nested_partitions
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import parse_decimal
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.formats.values import describe
from astra_tacos.support.units import GIB_PER_GB

MOST_HOSTS = 128
"""Of a measured matrix: exchanges try all pairs."""
LATENCY_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6}
"""Nanoseconds in each."""
BANDWIDTH_UNITS = {"MB/s": 1e-3, "MiB/s": (1 << 20) / 1e9, "GB/s": 1.0, "GiB/s": (1 << 30) / 1e9, "Gb/s": 0.125}
"""Decimal GB/s in each."""
BANDWIDTHS_GBPS = (MIN_BANDWIDTH_GIBPS / GIB_PER_GB, MAX_BANDWIDTH_GIBPS / GIB_PER_GB)
"""The limits of a network."""
_LATENCIES_NS = (1e-6, MAX_LATENCY_NS)
"""What an entry may be: the limits of a network, and no latency that is 0 in all but name."""
_ALL_ORDERS_UP_TO = 8
"""Hosts of which all orders are tried: 40,320 take about a second."""
_MOST_TRIED = 100_000
"""Orders that exchanges try: a few seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class HostMatrix:
    """Measurements between hosts, one pair at a time.

    Parameters
    ----------
    latency_ns, bandwidth_gbps
        float64[hosts, hosts], from row to column, decimal GB/s; on the diagonal 0 and infinite.
    """

    source: str
    hosts: tuple[str, ...]
    latency_ns: Floats
    bandwidth_gbps: Floats

    @property
    def num_hosts(self) -> int:
        """Number of hosts."""
        return len(self.hosts)

    def message_ns(self, size_bytes: float) -> Floats:
        """float64[hosts, hosts], how long a message holds each pair, without its latency."""
        return size_bytes / self.bandwidth_gbps


def read_host_matrix(latency: Path, latency_unit: str, bandwidth: Path, bandwidth_unit: str) -> HostMatrix:
    """Read two matrices of one list of hosts.

    Parameters
    ----------
    latency_unit, bandwidth_unit
        Keys of `LATENCY_UNITS` and `BANDWIDTH_UNITS`: the files do not say them.

    Raises
    ------
    ConfigError
        If a file cannot be read, is no such matrix, lacks an entry or has one out of range, or they differ in hosts.
    """
    hosts, latency_ns = _read(latency, latency_unit, LATENCY_UNITS[latency_unit], _LATENCIES_NS)
    others, rate = _read(bandwidth, bandwidth_unit, BANDWIDTH_UNITS[bandwidth_unit], BANDWIDTHS_GBPS)
    odd = sorted(set(hosts) ^ set(others))
    if odd:
        where = bandwidth if odd[0] in hosts else latency
        raise ConfigError(f"{where}: host {describe(odd[0])} is missing, expected the same hosts in both files")
    place = [others.index(host) for host in hosts]
    rate = rate[np.ix_(place, place)]
    np.fill_diagonal(rate, np.inf)
    return HostMatrix(f"{latency}, {bandwidth}", hosts, latency_ns, rate)


def _read(path: Path, unit: str, scale: float, limits: tuple[float, float]) -> tuple[tuple[str, ...], Floats]:
    reader = csv.reader(read_text(path).splitlines(), skipinitialspace=True)
    columns: list[str] = []
    rows: dict[str, Floats] = {}
    try:
        for line in reader:
            fields = [field.strip() for field in line]
            if not any(fields) or fields[0].startswith("#"):
                continue
            if not columns:
                columns = fields[1:]
                _check_names(path, columns)
                continue
            name, where = fields[0], f"{path}:{reader.line_num}"
            if name not in columns or name in rows:
                expected = "each host once" if name in rows else "one of the columns' hosts"
                raise ConfigError(f"{where}: row of {describe(name)}, expected {expected}")
            if len(fields) != len(columns) + 1:
                raise ConfigError(f"{where}: {len(fields) - 1} entries, expected {len(columns)}, one for each host")
            rows[name] = np.array(
                [
                    0.0 if host == name else _entry(field, f"{where}: {name} to {host}", unit, scale, limits)
                    for host, field in zip(columns, fields[1:], strict=True)
                ]
            )
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not columns:
        raise ConfigError(f"{path}: file is empty, expected a matrix with names of hosts")
    missing = next((host for host in columns if host not in rows), None)
    if missing is not None:
        raise ConfigError(f"{path}: no row of {describe(missing)}, expected one for each host")
    return tuple(columns), np.stack([rows[host] for host in columns])


def _check_names(path: Path, names: list[str]) -> None:
    if not 2 <= len(names) <= MOST_HOSTS:
        raise ConfigError(f"{path}: {len(names):,} hosts in the first line, expected 2 to {MOST_HOSTS}")
    for number, name in enumerate(names):
        if not name or not name.isprintable() or name in names[:number]:
            raise ConfigError(f"{path}: host {describe(name)} in the first line, expected names, each once")


def _entry(field: str, where: str, unit: str, scale: float, limits: tuple[float, float]) -> float:
    value = parse_decimal(field)
    if value is None or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{where}: {describe(field)}, expected a number above 0")
    if not limits[0] <= value * scale <= limits[1]:
        least, most = (limit / scale for limit in limits)
        raise ConfigError(f"{where}: {describe(field)} {unit}, expected {least:.3g} to {most:.3g}")
    return value * scale


Cost = tuple[float, float]
"""What is minimised, and what decides between equals."""


@dataclass(frozen=True, slots=True, eq=False)
class HostOrder:
    """An order of hosts, int64[hosts], and whether no other one that keeps the parts of levels together is better."""

    order: Ints
    is_best: bool


def ring_ns(matrix: HostMatrix, order: Ints, size_bytes: int) -> float:
    """A ring's All-Reduce of a size in this order, in ns."""
    return _ring(matrix, size_bytes)(order)[0]


def halving_doubling_ns(matrix: HostMatrix, order: Ints, size_bytes: int) -> float | None:
    """All-Reduce by recursive halving and doubling, in ns; None unless the number of hosts is a power of two."""
    if matrix.num_hosts & (matrix.num_hosts - 1):
        return None
    return _halving_doubling(matrix, size_bytes)(order)[0]


def _ring(matrix: HostMatrix, size_bytes: int) -> Callable[[Ints], Cost]:
    held = matrix.message_ns(size_bytes / matrix.num_hosts)
    takes = held + matrix.latency_ns
    steps = 2 * (matrix.num_hosts - 1)

    def cost(order: Ints) -> Cost:
        after = np.roll(order, -1)
        mean = float(takes[order, after].mean())
        return steps * max(mean, float(held[order, after].max())), mean

    return cost


def _halving_doubling(matrix: HostMatrix, size_bytes: int) -> Callable[[Ints], Cost]:
    places = np.arange(matrix.num_hosts)
    steps = [
        (places ^ distance, matrix.latency_ns + matrix.message_ns(size_bytes / (2 * distance)))
        for distance in (1 << at for at in range(matrix.num_hosts.bit_length() - 1))
    ]

    def cost(order: Ints) -> Cost:
        of_steps = [takes[order, order[other]] for other, takes in steps]
        return 2 * sum(float(times.max()) for times in of_steps), sum(float(times.sum()) for times in of_steps)

    return cost


ALGORITHMS = {"ring": _ring, "halving-doubling": _halving_doubling}


@dataclass(frozen=True, slots=True, eq=False)
class HostLevel:
    """A level: hosts of one part meet there at the latest.

    Parameters
    ----------
    part
        int64[hosts], the part of each host, numbered by their first hosts.
    latency_ns, bandwidth_gbps
        Medians over the pairs that meet at this level and at no lower one.
    """

    part: Ints
    latency_ns: float
    bandwidth_gbps: float
    spread: tuple[float, float]

    @property
    def num_parts(self) -> int:
        """Number of parts."""
        return int(self.part.max()) + 1

    @property
    def part_sizes(self) -> tuple[int, ...]:
        """The different numbers of hosts that parts have, ascending."""
        return tuple(sorted(set(np.bincount(self.part).tolist())))


def find_levels(matrix: HostMatrix) -> tuple[HostLevel, ...]:
    """The levels of the hosts, innermost first; the last one has all hosts in one part."""
    met = np.eye(matrix.num_hosts, dtype=np.bool_)
    levels = []
    for part in nested_partitions((matrix.latency_ns, 1 / matrix.bandwidth_gbps)):
        together = part[:, None] == part[None, :]
        pairs = together & ~met
        met |= together
        delays, rates = matrix.latency_ns[pairs], matrix.bandwidth_gbps[pairs]
        spread = float(rates.max() / rates.min()), float(delays.max() / delays.min())
        levels.append(HostLevel(part, float(np.median(delays)), float(np.median(rates)), spread))
    return tuple(levels)


def is_contiguous(levels: Sequence[HostLevel], order: Ints) -> bool:
    """Whether the hosts of every part follow one another."""
    return all(np.count_nonzero(np.diff(level.part[order])) == level.num_parts - 1 for level in levels)


def in_parts(levels: Sequence[HostLevel], num_hosts: int) -> Ints:
    """The order of the file, changed so that the hosts of every part follow one another."""
    return np.lexsort((np.arange(num_hosts), *(level.part for level in levels)))


def find_order(matrix: HostMatrix, algorithm: str, size_bytes: int, levels: Sequence[HostLevel]) -> HostOrder:
    """The best order of up to 8 hosts that keeps the parts of levels together; of more, the best that exchanges lead to.

    Parameters
    ----------
    algorithm
        Key of `ALGORITHMS`.
    """
    cost = ALGORITHMS[algorithm](matrix, size_bytes)
    if matrix.num_hosts <= _ALL_ORDERS_UP_TO:
        orders = (np.array(order) for order in permutations(range(matrix.num_hosts)))
        return HostOrder(min((order for order in orders if is_contiguous(levels, order)), key=cost), True)
    order = in_parts(levels, matrix.num_hosts)
    best, tried, improves = cost(order), 0, True
    while improves and tried < _MOST_TRIED:
        improves = False
        for pair in combinations(range(matrix.num_hosts), 2):
            changed = order.copy()
            changed[list(pair)] = order[list(reversed(pair))]
            tried += 1
            if (cost_ns := cost(changed)) < best and is_contiguous(levels, changed):
                order, best, improves = changed, cost_ns, True
                break
    return HostOrder(order, False)


def as_dimensions(matrix: HostMatrix, levels: Sequence[HostLevel]) -> NetworkConfig:
    """A network with a dimension of kind Switch for each level whose parts have one size; every host has a port in each."""
    inside = 1
    dimensions = []
    for level in levels:
        if len(level.part_sizes) == 1:
            size = level.part_sizes[0]
            dimensions.append(Dimension(SWITCH.name, size // inside, level.bandwidth_gbps * GIB_PER_GB, level.latency_ns / 2))
            inside = size
    return NetworkConfig(matrix.source, tuple(dimensions))
