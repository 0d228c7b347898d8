"""Files of other tools that describe a fabric, told apart by their content; and the directory that a network is written to.

The directory has network.yml and its tables, and is replaced only where nobody has edited them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.between_hosts import BetweenHosts
from astra_tacos.network.fabric.infragraph import is_infragraph, read_infragraph
from astra_tacos.network.fabric.kinds import LIMIT
from astra_tacos.network.fabric.nccl_topology import read_nccl_topology
from astra_tacos.network.fabric.ns3_topology import read_ns3_topology
from astra_tacos.network.network_config import NetworkConfig, read_network, write_network
from astra_tacos.support.documents import read_yaml
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_replaceable, replaced_directory
from astra_tacos.support.input_file import BEGIN, read_begin, refuse_foreign

_YAML = (".yml", ".yaml")
_XML = ".xml"


def read_fabric(
    path: Path,
    latency_ns: float,
    cpu_gbps: float | None = None,
    others: Sequence[Path] = (),
    gbps: float | None = None,
    between: BetweenHosts | None = None,
) -> tuple[str, NetworkConfig]:
    """What kind of file this is, and its network.

    Parameters
    ----------
    path
        A network YAML, an InfraGraph YAML, NCCL's XML, ns-3's physical topology (.txt), or a directory of InfraGraph files.
    cpu_gbps
        Decimal GB/s between CPUs, which NCCL's file does not give; None: what NCCL counts on.
    others
        More files which belong to the first: InfraGraph files, directories of them, or NCCL's files of other hosts.
    gbps
        Decimal GB/s of an InfraGraph's links that have none.

    Raises
    ------
    ConfigError
        If it is none of them, or a number is out of range.
    """
    if not 0 <= latency_ns < LIMIT:
        raise ConfigError(f"--latency: found {latency_ns}, expected a number of 0 or more and below {LIMIT:g}")
    for name, value in (("--cpu-bandwidth", cpu_gbps), ("--bandwidth", gbps)):
        if value is not None and not 0 < value < LIMIT:
            raise ConfigError(f"{name}: found {value}, expected a number above 0 and below {LIMIT:g}")
    if path.suffix == _XML and not path.is_dir():
        return "NCCL topology", read_nccl_topology(_nccl_files(path, *others), latency_ns, cpu_gbps, between)
    if between is not None:
        raise ConfigError(
            f"--between: {path} is not an XML of NCCL, expected only topologies of NCCL: --between joins their hosts"
        )
    if others or path.is_dir():
        return "InfraGraph", read_infragraph([file for place in (path, *others) for file in _files(place)], latency_ns, gbps)
    refuse_foreign(path, read_begin(path, BEGIN), workloads=True)
    if path.suffix == ".txt":
        return "ns-3 topology", read_ns3_topology(path)
    if path.suffix in _YAML:
        if is_infragraph(read_yaml(path).content):
            return "InfraGraph", read_infragraph([path], latency_ns, gbps)
        return "network", read_network(path)
    raise ConfigError(
        f"{path}: found the suffix {path.suffix!r}, expected .yml, .yaml (network, InfraGraph), .xml (NCCL) or .txt (ns-3)"
    )


def _nccl_files(*paths: Path) -> tuple[Path, ...]:
    """NCCL's files, each checked to be none of another kind."""
    for path in paths:
        if path.suffix != _XML:
            raise ConfigError(f"{path}: found the suffix {path.suffix!r} beside an XML of NCCL, expected .xml: files of one kind")
        refuse_foreign(path, read_begin(path, BEGIN), workloads=True)
    return paths


def _files(path: Path) -> list[Path]:
    """An InfraGraph file, or those of a directory."""
    if not path.is_dir():
        if path.suffix not in _YAML:
            raise ConfigError(f"{path}: found the suffix {path.suffix!r}, expected .yml or .yaml beside InfraGraph files")
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _YAML)
    if not files:
        raise ConfigError(f"{path}: found no .yml or .yaml, expected the files of an InfraGraph")
    return files


_NETWORK = "network.yml"
_OWN = {_NETWORK, "links.csv", "nodes.csv", "hosts.csv"}
_MARK = "# Written by astra-tacos network, "
"""Begins the first line of network.yml; the digest of all that was written follows, by which it is known as unchanged."""


def write_network_directory(network: NetworkConfig, output: Path, tables: dict[str, str]) -> dict[str, Any]:
    """Write a network and tables beside it; returns its counts and file."""
    check_replaceable(
        output, "network directory of astra_tacos, unchanged since", lambda names: not names or _is_unchanged(output, names)
    )
    topology = build_topology(network, may_forward=True)
    with replaced_directory(output) as directory:
        file = directory / _NETWORK
        write_network(network, file)
        for name, text in tables.items():
            (directory / name).write_text(text, encoding="utf-8")
        text = file.read_text(encoding="utf-8")
        file.write_text(f"{_MARK}{_digest(directory, text.encode())}\n{text}", encoding="utf-8")
    shape = {"npus": topology.num_endpoints, "forwarding": len(topology.forwarding), "links": topology.num_links}
    return {**shape, "network": str(output / _NETWORK)}


def _digest(directory: Path, network: bytes) -> str:
    """The digest of a network's text, and of the tables in its directory."""
    digest = hashlib.sha256(network)
    for table in sorted(_OWN - {_NETWORK}):
        if (directory / table).is_file():
            digest.update(f"\n{table}\n".encode() + (directory / table).read_bytes())
    return digest.hexdigest()


def _is_unchanged(directory: Path, names: set[str]) -> bool:
    """Whether a directory has what was written here, and nothing else: people write and edit such files by hand, too."""
    if not names <= _OWN or not all((directory / name).is_file() for name in (_NETWORK, *names)):
        return False
    first, _, rest = (directory / _NETWORK).read_bytes().partition(b"\n")
    return first == f"{_MARK}{_digest(directory, rest)}".encode()
