"""NCCL's and RCCL's topology file (`NCCL_TOPO_DUMP_FILE`): one machine's CPUs, PCIe switches, GPUs, NICs and links of GPUs.

The file says neither what an NVLink or XGMI link carries nor what joins CPUs. A GPU's `sm` tells its generation of NVLink, its
`gcn` that of XGMI; CPUs are joined pairwise at a bandwidth that the caller gives. NICs lead nowhere here: the file ends at the
machine. What is not read is counted in a warning.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tacos.network.fabric.draft import FabricDraft
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import describe, read_xml, short_number

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_log = logging.getLogger(__name__)
_MAX_FILE_BYTES = 16 << 20
_NVLINK_GBPS = {60: 20.0, 70: 25.0, 72: 25.0, 75: 25.0, 80: 25.0, 86: 14.0625, 90: 25.0, 100: 50.0}
"""Decimal GB/s of one NVLink in each direction, by `sm`: NVLink 1 to 5 (NVIDIA's data sheets of P100 to B200)."""
_XGMI_GBPS = {"906": 24.0, "908": 24.0, "910": 36.0, "90a": 36.0, "940": 48.0, "941": 48.0, "942": 48.0, "950": 48.0}
"""Decimal GB/s of one XGMI link in each direction, by `gcn`: what RCCL counts on (its `topo.h`). 910 is its number for gfx90a."""
_ARCHITECTURE = re.compile(r"(?:gfx)?([0-9a-f]+)(?::.*)?")
_CPU_CLASS = "0x068001"
"""PCI class of a target that is no device but the GPU's CPU: NVLink of POWER9."""
_GPU_CLASS = "0x03"
_READ = {
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic"),
    "gpu": ("nvlink", "xgmi", "c2c"),
    "nic": ("net",),
}
"""Elements that are read, or known to lead nowhere, inside each."""
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
    reader.note_unread(root)
    for number, element in enumerate(root.findall("cpu")):
        reader.note_unread(element)
        cpu = reader.draft.add("cpu", f"cpu{element.get('numaid', number)}")
        cpus.append(cpu)
        reader.read_children(element, cpu, cpu)
    for at, cpu in enumerate(cpus):
        for other in cpus[:at]:
            reader.draft.connect(cpu, other, cpu_gbps, latency_ns)
    reader.join_gpus()
    if reader.unread:
        _log.warning("%s: not read: %s", path, ", ".join(f"{count} {what}" for what, count in reader.unread.items()))
    return reader.draft.to_network()


class _Reader:
    def __init__(self, path: Path, draft: FabricDraft, latency_ns: float) -> None:
        self.path, self.draft, self.latency_ns = path, draft, latency_ns
        self.by_bus: dict[str, int] = {}
        self.gpus: set[int] = set()
        self.links: defaultdict[tuple[int, str], list[tuple[str, float]]] = defaultdict(list)
        self.to_gpus: set[tuple[int, str]] = set()
        self.unread: Counter[str] = Counter()

    def note_unread(self, element: Element) -> None:
        """Count what an element contains that nothing here understands."""
        self.unread.update(
            f"<{child.tag}> in <{element.tag}>" for child in element if child.tag not in _READ.get(element.tag, ())
        )

    def read_children(self, element: Element, above: int, cpu: int) -> None:
        """The PCIe devices below one."""
        for child in element.findall("pci"):
            self._read_device(child, above, cpu)

    def _read_device(self, element: Element, above: int, cpu: int) -> None:
        self.note_unread(element)
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
            self._read_gpu(gpu, bus, device, cpu)
        self.read_children(element, device, cpu)

    def _read_gpu(self, gpu: Element, bus: str, device: int, cpu: int) -> None:
        self.note_unread(gpu)
        self.gpus.add(device)
        for link in gpu:
            if link.tag not in _READ["gpu"]:
                continue
            count, target = self._whole(link, "count"), link.get("target", "")
            if count < 1 or (not target and link.tag != "c2c"):
                raise ConfigError(f"{self.path}: an {link.tag} has no target or no count, expected both")
            if link.tag == "c2c":  # to the CPU, and the only one whose file says what it carries, in MB/s
                gbps = count * self._whole(link, "bw") / 1000
                if gbps == 0:
                    raise ConfigError(f"{self.path}: GPU {bus} has a <c2c> of bw 0, expected MB/s above 0")
            else:
                gbps = count * (self._nvlink_gbps(gpu, bus) if link.tag == "nvlink" else self._xgmi_gbps(gpu, bus))
            if link.tag == "c2c" or link.get("tclass", "").startswith(_CPU_CLASS):
                self.draft.connect(device, cpu, gbps, self.latency_ns)
            else:
                self.links[device, target].append((link.tag, gbps))
                if link.tag == "xgmi" or link.get("tclass", "").startswith(_GPU_CLASS):  # no AMD GPU has switches
                    self.to_gpus.add((device, target))

    def _nvlink_gbps(self, gpu: Element, bus: str) -> float:
        generation = self._whole(gpu, "sm")
        if generation not in _NVLINK_GBPS:
            known = ", ".join(map(str, _NVLINK_GBPS))
            raise ConfigError(f"{self.path}: GPU {bus} has sm {generation}, expected one of known NVLinks: {known}")
        return _NVLINK_GBPS[generation]

    def _xgmi_gbps(self, gpu: Element, bus: str) -> float:
        text = gpu.get("gcn", "")
        architecture = _ARCHITECTURE.fullmatch(text)
        if architecture is None or architecture[1] not in _XGMI_GBPS:
            known = ", ".join(_XGMI_GBPS)
            raise ConfigError(f"{self.path}: GPU {bus} has gcn {describe(text)}, expected one of known XGMI links: {known}")
        return _XGMI_GBPS[architecture[1]]

    def join_gpus(self) -> None:
        """Join GPUs to one another, and to NVSwitches, which the file names by their targets only."""
        bus_of = {device: bus for bus, device in self.by_bus.items()}
        for (device, target), links in self.links.items():
            if target not in self.by_bus:
                if (device, target) in self.to_gpus:
                    self.unread.update(f"<{tag}> to a device that the file does not have" for tag, _ in links)
                    continue
                self.by_bus[target] = self.draft.add("switch", target)
            other = self.by_bus[target]
            back = self.links.get((other, bus_of.get(device, "")), []) if other in self.gpus else []
            if back and sum(gbps for _, gbps in back) != sum(gbps for _, gbps in links):
                found = f"GPUs {bus_of[device]} and {target} name links of unlike counts to one another"
                raise ConfigError(f"{self.path}: {found}, expected the same both ways")
            if not back or device < other:  # GPUs that name one another have these links once
                for _, gbps in links:
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
        if (number := short_number(text)) < 0:
            raise ConfigError(f"{self.path}: <{element.tag}> has {name} {describe(text)}, expected a whole number")
        return number
