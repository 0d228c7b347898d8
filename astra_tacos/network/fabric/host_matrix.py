"""What was measured between hosts, pair by pair: latency and bandwidth, each a CSV matrix with the names of hosts on both sides.

The first line names the columns, the first field of every other line its row; fields are from the row's host to the column's. The
hosts of rows and columns are the same, in any order. The diagonal, which measures a host with itself, is not looked at.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import describe, parse_decimal, read_text

MOST_HOSTS = 128
LATENCY_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6}
"""Nanoseconds in each."""
BANDWIDTH_UNITS = {"MB/s": 1e-3, "MiB/s": (1 << 20) / 1e9, "GB/s": 1.0, "GiB/s": (1 << 30) / 1e9, "Gb/s": 0.125}
"""Decimal GB/s in each."""


@dataclass(frozen=True, slots=True, eq=False)
class HostMatrix:
    """Measurements between hosts, one pair at a time.

    Parameters
    ----------
    source
        The files, as errors and results name them.
    hosts
        Names, in the order of the file of latencies.
    latency_ns, bandwidth_gbps
        float64[hosts, hosts], from row to column, decimal GB/s; on the diagonal 0 and infinite.
    """

    source: str
    hosts: tuple[str, ...]
    latency_ns: NDArray[np.float64]
    bandwidth_gbps: NDArray[np.float64]

    @property
    def num_hosts(self) -> int:
        """Number of hosts."""
        return len(self.hosts)

    def message_ns(self, size_bytes: float) -> NDArray[np.float64]:
        """float64[hosts, hosts], how long a message holds each pair, without its latency."""
        return size_bytes / self.bandwidth_gbps


def read_host_matrix(latency: Path, latency_unit: str, bandwidth: Path, bandwidth_unit: str) -> HostMatrix:
    """Read two matrices of one list of hosts.

    Parameters
    ----------
    latency, bandwidth
        The files.
    latency_unit, bandwidth_unit
        Keys of `LATENCY_UNITS` and `BANDWIDTH_UNITS`: the files do not say them.

    Raises
    ------
    ConfigError
        If a file cannot be read, is no such matrix, lacks an entry or has one that is no number above 0, or they differ in hosts.
    """
    hosts, latency_ns = _read(latency, LATENCY_UNITS[latency_unit])
    others, rate = _read(bandwidth, BANDWIDTH_UNITS[bandwidth_unit])
    odd = sorted(set(hosts) ^ set(others))
    if odd:
        where = bandwidth if odd[0] in hosts else latency
        raise ConfigError(f"{where}: host {describe(odd[0])} is missing, expected the same hosts in both files")
    place = [others.index(host) for host in hosts]
    rate = rate[np.ix_(place, place)]
    np.fill_diagonal(rate, np.inf)
    return HostMatrix(f"{latency}, {bandwidth}", hosts, latency_ns, rate)


def _read(path: Path, scale: float) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    reader = csv.reader(read_text(path).splitlines(), skipinitialspace=True)
    columns: list[str] = []
    rows: dict[str, NDArray[np.float64]] = {}
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
                    0.0 if host == name else _entry(field, f"{where}: {name} to {host}") * scale
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


def _entry(field: str, where: str) -> float:
    value = parse_decimal(field)
    if value is None or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{where}: {describe(field)}, expected a number above 0")
    return value
