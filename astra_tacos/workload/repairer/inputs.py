"""The files that a repair starts from, and what stands for those that are missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.network.blocks.building_block import COMPLETE
from astra_tacos.run.system import COMM_KEYS

DEFAULT_BANDWIDTH_GIBPS = 50
DEFAULT_LATENCY_NS = 500
DEFAULT_MEMORY = {"memory-type": "NO_MEMORY_EXPANSION"}


@dataclass(frozen=True, slots=True)
class RepairInputs:
    """The files of a broken run.

    Parameters
    ----------
    workload
        Prefix of its traces.
    system, network, comm_group, remote_memory
        Files, None where there is none.
    directory
        Where ASTRA-sim is started: paths in the system JSON start there.
    """

    workload: Path
    system: Path | None = None
    network: Path | None = None
    comm_group: Path | None = None
    remote_memory: Path | None = None
    directory: Path = Path()


def default_network(num_npus: int) -> str:
    """The text of a network that connects every NPU with every other one."""
    return network_text(num_npus, DEFAULT_BANDWIDTH_GIBPS, DEFAULT_LATENCY_NS)


def network_text(num_npus: int, bandwidth_gibps: float, latency_ns: float) -> str:
    """The same with links of some bandwidth and latency."""
    values = {"topology": COMPLETE, "npus_count": num_npus, "bandwidth": bandwidth_gibps, "latency": latency_ns}
    return "".join(f"{key}: [ {value} ]\n" for key, value in values.items())


def default_system(num_dimensions: int) -> dict[str, Any]:
    """A system that runs native rings, with the delays that ASTRA-sim has by default."""
    return {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "local-reduction-delay": 1,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "collective-optimization": "baseline",
        **{f"{key}-implementation": ["ring"] * max(num_dimensions, 1) for key in COMM_KEYS},
    }
