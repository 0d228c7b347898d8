"""NCCL's topology file (`NCCL_TOPO_DUMP_FILE`): one machine's CPUs, PCIe switches, GPUs, NICs and NVLinks.

The file says neither what an NVLink carries nor what joins CPUs. A GPU's `sm` tells its generation of NVLink; CPUs are joined
pairwise at a bandwidth that the caller gives. NICs lead nowhere here: the file ends at the machine.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tacos.config.network import NetworkConfig
from astra_tacos.config.xml_text import read_xml
from astra_tacos.config.yaml_text import describe
from astra_tacos.errors import ConfigError
from astra_tacos.fabric.draft import FabricDraft

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_MAX_FILE_BYTES = 16 << 20
_NVLINK_GBPS = {60: 20.0, 70: 25.0, 72: 25.0, 75: 25.0, 80: 25.0, 86: 14.0625, 90: 25.0, 100: 50.0}
"""Decimal GB/s of one NVLink in each direction, by `sm`: NVLink 1 to 5 (NVIDIA's data sheets of P100 to B200)."""
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) GT/s(?: PCIe)?")
_ENCODED = {2.5: 0.8, 5.0: 0.8}
"""Share of PCIe's transfers that carries data: 8b/10b, and 128b/130b from 8 GT/s on."""


def read_nccl_topology(path: Path, latency_ns: float, cpu_gbps: float) -> NetworkConfig:
    """The network of a machine.

    Parameters
    ----------
    path
        The XML.
    latency_ns
        Of each link.
    cpu_gbps
        Decimal GB/s between two CPUs, in each direction.

    Raises
    ------
    ConfigError
        If the file is none, or has a GPU of unknown generation.
    """
    root = read_xml(path, _MAX_FILE_BYTES, "an XML of NCCL", "system")
    reader = _Reader(path, FabricDraft(str(path)), latency_ns)
    cpus = []
    for number, element in enumerate(root.findall("cpu")):
        cpu = reader.draft.add("cpu", f"cpu{element.get('numaid', number)}")
        cpus.append(cpu)
        reader.read_children(element, cpu)
    for at, cpu in enumerate(cpus):
        for other in cpus[:at]:
            reader.draft.connect(cpu, other, cpu_gbps, latency_ns)
    reader.read_nvlinks()
    return reader.draft.to_network()


class _Reader:
    def __init__(self, path: Path, draft: FabricDraft, latency_ns: float) -> None:
        self.path, self.draft, self.latency_ns = path, draft, latency_ns
        self.by_bus: dict[str, int] = {}
        self.nvlinks: list[tuple[int, str, int, float]] = []

    def read_children(self, element: Element, above: int) -> None:
        """The PCIe devices below one."""
        for child in element.findall("pci"):
            self._read_device(child, above)

    def _read_device(self, element: Element, above: int) -> None:
        bus = element.get("busid", "")
        gpu, nic = element.find("gpu"), element.find("nic")
        below = element.findall("pci")
        if gpu is None and nic is None and not below:
            return
        kind = "npu" if gpu is not None else "nic" if nic is not None else "pcie"
        device = self.draft.add(kind, "" if gpu is not None else bus)
        self.by_bus[bus] = device
        self.draft.connect(above, device, self._pcie_gbps(element), self.latency_ns)
        if gpu is not None:
            generation = self._whole(gpu, "sm")
            if generation not in _NVLINK_GBPS and gpu.find("nvlink") is not None:
                known = ", ".join(map(str, _NVLINK_GBPS))
                raise ConfigError(f"{self.path}: GPU {bus} has sm {generation}, expected one of known NVLinks: {known}")
            for link in gpu.findall("nvlink"):
                gbps = self._whole(link, "count") * _NVLINK_GBPS[generation]
                self.nvlinks.append((device, link.get("target", ""), self._whole(link, "count"), gbps))
        self.read_children(element, device)

    def read_nvlinks(self) -> None:
        """Join GPUs to NVSwitches, which the file names by their targets only, and to one another."""
        gpus = {device for device, _, _, _ in self.nvlinks}
        for device, target, count, gbps in self.nvlinks:
            if not target or count < 1:
                raise ConfigError(f"{self.path}: an nvlink has no target or no count, expected both")
            if target not in self.by_bus:
                self.by_bus[target] = self.draft.add("switch", target)
            other = self.by_bus[target]
            if other not in gpus or device < other:  # GPUs name one another, each of them once
                self.draft.connect(device, other, gbps, self.latency_ns)

    def _pcie_gbps(self, element: Element) -> float:
        text, width = element.get("link_speed", ""), self._whole(element, "link_width")
        speed = _SPEED.fullmatch(text)
        if speed is None or not 1 <= width <= 64:
            found = f"pci {element.get('busid', '')} has link speed {describe(text)} and width {width}"
            raise ConfigError(f"{self.path}: {found}, expected '16.0 GT/s PCIe' and 16")
        transfers = float(speed[1])
        return transfers * width / 8 * _ENCODED.get(transfers, 128 / 130)

    def _whole(self, element: Element, name: str) -> int:
        text = element.get(name, "")
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise ConfigError(f"{self.path}: <{element.tag}> has {name} {describe(text)}, expected a whole number")
        return int(text)
