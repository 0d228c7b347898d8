"""Files of other tools that describe a fabric, told apart by their content."""

from __future__ import annotations

from pathlib import Path

from astra_tacos.config.network import NetworkConfig, read_network
from astra_tacos.config.yaml_text import read_yaml_mapping
from astra_tacos.errors import ConfigError
from astra_tacos.fabric.infragraph import read_infragraph
from astra_tacos.fabric.nccl_topology import read_nccl_topology
from astra_tacos.fabric.ns3_topology import read_ns3_topology


def read_fabric(path: Path, latency_ns: float, cpu_gbps: float) -> tuple[str, NetworkConfig]:
    """What kind of file this is, and its network.

    Parameters
    ----------
    path
        A network YAML, an InfraGraph YAML, NCCL's XML, or ns-3's physical topology (.txt).
    latency_ns
        Of each link, where the file gives none.
    cpu_gbps
        Decimal GB/s between CPUs, which NCCL's file does not give.

    Raises
    ------
    ConfigError
        If it is none of them.
    """
    if path.suffix == ".xml":
        return "NCCL topology", read_nccl_topology(path, latency_ns, cpu_gbps)
    if path.suffix == ".txt":
        return "ns-3 topology", read_ns3_topology(path)
    if path.suffix in (".yml", ".yaml"):
        document = read_yaml_mapping(path)
        if {"infrastructure", "instances", "devices"} & document.keys():
            return "InfraGraph", read_infragraph(path, latency_ns)
        return "network", read_network(path)
    raise ConfigError(
        f"{path}: found the suffix {path.suffix!r}, expected .yml, .yaml (network, InfraGraph), .xml (NCCL) or .txt (ns-3)"
    )
