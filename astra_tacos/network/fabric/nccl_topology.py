"""NCCL's and RCCL's topology files (`NCCL_TOPO_DUMP_FILE`): CPUs, PCIe switches, GPUs, NICs and links of GPUs of hosts.

A file is read as NCCL reads it (`src/graph/topo.cc`): all NVSwitches of a file are one device, parallel links are one, CPUs are
joined within a host only (`host_hash`), and ranks that share a GPU share its links. The file says neither what an NVLink, an XGMI
link or a PCIe lane carries nor what joins CPUs: `nccl_rates` has what NCCL counts on. The file ends at its hosts, and a switch
that the caller describes may join them. What is not read is counted in a warning, and a GPU with fewer links than its equals is
named in one.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING

from astra_tacos.network.devices import SWITCH_KIND
from astra_tacos.network.fabric import nccl_rates
from astra_tacos.network.fabric.between_hosts import EXAMPLE, BetweenHosts
from astra_tacos.network.fabric.draft import FabricDraft
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import short_number
from astra_tacos.support.formats.values import describe
from astra_tacos.support.formats.xml_files import read_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_log = logging.getLogger(__name__)
_MAX_FILE_BYTES = 16 << 20
"""Of the file of one host."""
_ARCHITECTURE = re.compile(r"(?:gfx)?([0-9a-f]+)(?::.*)?")
_HASH = re.compile(r"(?:0x)?[0-9a-f]{1,16}", re.IGNORECASE)
_NO_HASH = 0
"""Of a host that a file does not name."""
_PCI_ID = re.compile("0x[0-9a-fA-F]{4}")
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
_MOST_NAMED = 8
"""Devices that a warning names."""


def read_nccl_topology(
    paths: Sequence[Path], latency_ns: float, cpu_gbps: float | None = None, between: BetweenHosts | None = None
) -> NetworkConfig:
    """The network of the hosts of some files; NPUs are numbered file by file, and in a file by rank.

    Parameters
    ----------
    cpu_gbps
        Decimal GB/s between two CPUs of a host, in each direction; None: what NCCL counts on for such CPUs.
    between
        What joins the hosts: a port for each network of a NIC; for each GPU of a host that has no network.

    Raises
    ------
    ConfigError
        If a file is none, has a GPU of unknown generation or CPUs that NCCL does not know, files share a host, or nothing joins
        hosts.
    """
    roots = [read_xml(path, _MAX_FILE_BYTES, "an XML of NCCL", "system") for path in paths]
    reader = _Reader(FabricDraft(", ".join(map(str, paths))), latency_ns, cpu_gbps)
    files = _hosts_of(paths, roots)
    for root in roots:
        reader.add_npus(root)
    for path, root, hosts in zip(paths, roots, files, strict=True):
        reader.read_file(path, root, hosts)
    reader.warn()
    _join(reader, paths, [host for hosts in files for host in hosts.values()], between)
    return reader.draft.to_network()


@dataclass(slots=True)
class _Host:
    """A host of a file.

    `prefix`: begins names of its devices. `by_bus`: GPUs, or their partitions. `ports`: networks of each NIC. `on_switch`: has
    NVLinks to one.
    """

    path: Path
    prefix: str
    cpus: list[tuple[int, Element]] = field(default_factory=list)
    by_bus: defaultdict[str, list[_Gpu]] = field(default_factory=lambda: defaultdict(list))
    ports: Counter[int] = field(default_factory=Counter)
    on_switch: bool = False

    def gpus(self) -> Iterator[_Gpu]:
        """All GPUs, or their partitions, in the order of the file."""
        return chain.from_iterable(self.by_bus.values())


@dataclass(slots=True)
class _Gpu:
    """A GPU, or a partition of one: its device and CPU in the draft, its NPUs, and how many partitions share its links."""

    element: Element
    device: int
    npus: list[int]
    cpu: int
    bus: str
    model: str
    partitions: int


def _hosts_of(paths: Sequence[Path], roots: Sequence[Element]) -> list[dict[int, _Host]]:
    """By hash, the hosts of each file."""
    files: list[dict[int, _Host]] = []
    found_in: dict[int, Path] = {}
    hashes = [
        dict.fromkeys(_host_hash(path, cpu) for cpu in root.findall("cpu")) for path, root in zip(paths, roots, strict=True)
    ]
    several = sum(map(len, hashes)) > 1
    number = 0
    for path, host_hashes in zip(paths, hashes, strict=True):
        hosts = {}
        for host_hash in host_hashes:
            if host_hash != _NO_HASH and host_hash in found_in:
                raise ConfigError(
                    f"{path}: has host {host_hash:#x}, as {found_in[host_hash]} has, expected files of different hosts"
                )
            found_in[host_hash] = path
            hosts[host_hash] = _Host(path, f"host{number}." if several else "")
            number += 1
        files.append(hosts)
    return files


def _host_hash(path: Path, cpu: Element) -> int:
    text = cpu.get("host_hash")
    if text is None:
        return _NO_HASH
    if _HASH.fullmatch(text) is None:
        raise ConfigError(f"{path}: <cpu> has host_hash {describe(text)}, expected a hexadecimal number")
    return int(text, 16)


def _join(reader: _Reader, paths: Sequence[Path], hosts: Sequence[_Host], between: BetweenHosts | None) -> None:
    """Join hosts by a switch."""
    if between is None:
        if len(paths) > 1:
            raise ConfigError(f"{paths[1]}: a second file of NCCL, expected the link between hosts: --between '{EXAMPLE}'")
        apart = sum(not host.on_switch for host in hosts)
        if len(hosts) > 1 and apart:
            raise ConfigError(
                f"{paths[0]}: {apart} of {len(hosts)} hosts have no NVLink to a switch, expected such or what joins the hosts: "
                f"--between '{EXAMPLE}'"
            )
        return
    if len(hosts) < 2:
        raise ConfigError(f"--between: {paths[0]} has a single host, expected several hosts to join")
    switch = reader.draft.add(SWITCH_KIND, "between")
    for host in hosts:
        if not host.ports:
            npus = [npu for gpu in host.gpus() for npu in gpu.npus]
            host.ports.update(npus)
            _log.warning("%s: %shas no <net>: its %d GPUs have the ports", host.path, host.prefix.replace(".", " "), len(npus))
        for device, ports in host.ports.items():
            reader.draft.connect(device, switch, ports * between.bandwidth_gbps, between.latency_ns)


def _gpus_below(element: Element) -> Iterator[Element]:
    for child in element.findall("pci"):
        yield from child.findall("gpu")
        yield from _gpus_below(child)


def _broadcom_generation(pci: Element, level: int) -> int:
    """PCIe generation of a switch of Broadcom that shows itself as two levels of switches; 0 for other devices."""
    ids = [pci.get(name, "") for name in ("vendor", "device", "subsystem_vendor", "subsystem_device")]
    if pci.tag != "pci" or not all(map(_PCI_ID.fullmatch, ids)):
        return 0
    family = "".join(pci_id[2:].lower() for pci_id in ids)[:13]
    return {"1000c0101000a": 4, f"1000c0301000{level}": 5}.get(family, 0)


def _model(device: Element, gpu: Element) -> str:
    """What GPUs that should have equal links have in common."""
    known = {"sm": gpu.get("sm"), "gcn": gpu.get("gcn"), "device": device.get("device")}
    return ", ".join(f"{name} {value}" for name, value in known.items() if value is not None)


def _bus_key(text: str) -> str:
    """A bus id without what tools write differently: separators, upper case, leading zeros."""
    return re.sub("[.:]", "", text).lower().lstrip("0")


def _count_networks(nics: Sequence[Element]) -> int:
    """Networks of NICs; NCCL leaves out those without a device."""
    return sum(net.get("dev") is not None and net.get("net") != "0" for nic in nics for net in nic.findall("net"))


class _Reader:
    def __init__(self, draft: FabricDraft, latency_ns: float, cpu_gbps: float | None) -> None:
        self.draft, self.latency_ns, self.cpu_gbps = draft, latency_ns, cpu_gbps
        self.npu_of: dict[Element, int] = {}
        self.links_of: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        """By kind of link and model, how many links each GPU names."""
        self.name_of: dict[int, tuple[Path, str]] = {}
        """By GPU, its file and what to call it."""
        self.unread: defaultdict[Path, Counter[str]] = defaultdict(Counter)
        self.fallbacks: defaultdict[tuple[Path, str], list[str]] = defaultdict(list)
        """By file and what it lacks, the devices for which NCCL's value is taken."""

    def add_npus(self, root: Element) -> None:
        """Number the GPUs of a file, before there are other devices."""
        gpus = [gpu for cpu in root.findall("cpu") for gpu in _gpus_below(cpu)]
        ranks = [short_number(gpu.get("rank", "")) for gpu in gpus]
        if min(ranks, default=0) >= 0:
            gpus = [gpus[at] for at in sorted(range(len(gpus)), key=ranks.__getitem__)]
        for gpu in gpus:
            self.npu_of[gpu] = self.draft.add("npu")

    def read_file(self, path: Path, root: Element, hosts: dict[int, _Host]) -> None:
        """The devices of a file's hosts, and the links between its GPUs."""
        self._note_unread(path, root)
        for number, element in enumerate(root.findall("cpu")):
            self._note_unread(path, element)
            host = hosts[_host_hash(path, element)]
            name = element.get("numaid", str(number))
            cpu = self.draft.add("cpu", f"{host.prefix}cpu{name}")
            host.cpus.append((cpu, element))
            nics = element.findall("nic")
            if ports := _count_networks(nics):
                nic = self.draft.add("nic", f"{host.prefix}nic{name}")
                self.draft.connect(cpu, nic, nccl_rates.LOCAL_GBPS, self.latency_ns)
                host.ports[nic] = ports
            self._read_children(element, cpu, cpu, host)
        for host in hosts.values():
            for (cpu, element), (other, of_other) in combinations(host.cpus, 2):
                gbps = self.cpu_gbps or min(self._between_cpus_gbps(host, cpu) for cpu in (element, of_other))
                self.draft.connect(cpu, other, gbps, self.latency_ns)
        _Links(self, hosts).join_gpus()

    def warn(self) -> None:
        """Say what was not read, what was filled in, and which GPUs lack links."""
        for (path, speed), names in self.fallbacks.items():
            _log.warning("%s: PCIe devices (%s) have %s, as NCCL takes them", path, _shortened(names), speed)
        for (kind, model), links in self.links_of.items():
            most = max(links.values())
            lacking: defaultdict[tuple[Path, int], list[str]] = defaultdict(list)
            for device, count in links.items():
                if count < most:
                    path, name = self.name_of[device]
                    lacking[path, count].append(name)
            for (path, count), names in lacking.items():
                links_text = f"{_shortened(names)} {'have' if len(names) > 1 else 'has'} {count or 'no'} <{kind}> links"
                _log.warning("%s: GPU %s, others of its kind (%s) have %d", path, links_text, model, most)
        for path, counts in self.unread.items():
            _log.warning("%s: not read: %s", path, ", ".join(f"{count} {name}" for name, count in counts.items()))

    def _note_unread(self, path: Path, element: Element) -> None:
        """Count what an element contains that nothing here understands."""
        for child in element:
            if child.tag not in _READ.get(element.tag, ()):
                self.unread[path][f"<{child.tag}> in <{element.tag}>"] += 1

    def _read_children(self, element: Element, above: int, cpu: int, host: _Host) -> None:
        """The PCIe devices below one; a Broadcom switch and the switches of the same kind below are one device, as in NCCL."""
        generation = _broadcom_generation(element, 0)
        for child in element.findall("pci"):
            if generation and _broadcom_generation(child, 1) == generation:
                self._note_unread(host.path, child)
                for below in child.findall("pci"):
                    self._read_device(below, above, cpu, host)
            else:
                self._read_device(child, above, cpu, host)

    def _read_device(self, element: Element, above: int, cpu: int, host: _Host) -> None:
        self._note_unread(host.path, element)
        bus = element.get("busid", "")
        gpus, nics = element.findall("gpu"), element.findall("nic")
        if not gpus and not nics and element.find("pci") is None:
            return
        gbps = self._pcie_gbps(element, host)
        if gpus:
            device = self._add_gpus(element, gpus, above, cpu, host, gbps)
        else:
            device = self.draft.add("nic" if nics else "pcie", host.prefix + bus)
            self.draft.connect(above, device, gbps, self.latency_ns)
            if ports := _count_networks(nics):
                host.ports[device] = ports
        self._read_children(element, device, cpu, host)

    def _add_gpus(self, element: Element, gpus: Sequence[Element], above: int, cpu: int, host: _Host, gbps: float) -> int:
        """The GPUs of a PCIe device: ranks share a GPU, or one of its partitions; the first of them names its links."""
        bus = element.get("busid", "")
        if _bus_key(bus) in host.by_bus:
            raise ConfigError(
                f"{host.path}: two <pci> with GPUs have busid {describe(bus)}, expected a different busid for each GPU of a host"
            )
        partitions: defaultdict[str, list[Element]] = defaultdict(list)
        for gpu in gpus:
            self._note_unread(host.path, gpu)
            partitions[gpu.get("mlopart", "-1")].append(gpu)
        devices: list[int] = []
        for ranks in partitions.values():
            npus = [self.npu_of[gpu] for gpu in ranks]
            device = npus[0] if len(npus) == 1 else self.draft.add("pcie", host.prefix + bus)
            for npu in npus if len(npus) > 1 else ():
                self.draft.connect(device, npu, nccl_rates.LOCAL_GBPS, self.latency_ns)
            self.draft.connect(above, device, gbps, self.latency_ns)
            for sibling in devices:
                self.draft.connect(device, sibling, nccl_rates.PARTITIONS_GBPS, self.latency_ns)
            devices.append(device)
            host.by_bus[_bus_key(bus)].append(_Gpu(ranks[0], device, npus, cpu, bus, _model(element, ranks[0]), len(partitions)))
            self.name_of[device] = host.path, f"{host.prefix}{bus} (NPU {', '.join(map(str, npus))})"
        return devices[0]

    def _between_cpus_gbps(self, host: _Host, element: Element) -> float:
        arch, vendor = (element.get(name, "") for name in ("arch", "vendor"))
        family, model = (short_number(element.get(name, "")) for name in ("familyid", "modelid"))
        gbps = nccl_rates.between_cpus_gbps(arch, vendor, family, model)
        if gbps is None:
            cpu_text = f"a CPU of arch {describe(arch)} and vendor {describe(vendor)} beside others"
            raise ConfigError(f"{host.path}: {cpu_text}, expected one that NCCL knows, or --cpu-bandwidth")
        return gbps

    def _pcie_gbps(self, element: Element, host: _Host) -> float:
        text, lanes_text, name = element.get("link_speed", ""), element.get("link_width", ""), element.get("busid", "")
        speed, lanes = _SPEED.fullmatch(text), short_number(lanes_text or "0")
        if not 0 <= lanes <= 64:
            raise ConfigError(f"{host.path}: pci {name} has link width {describe(lanes_text)}, expected 1 to 64")
        if lanes == 0:
            lanes = nccl_rates.FALLBACK_LANES
            self.fallbacks[host.path, f"no link width: x{lanes}"].append(host.prefix + name)
        transfers = float(speed[1]) if speed else 0.0
        if transfers not in nccl_rates.PCIE_LANE_GBPS:
            transfers = nccl_rates.FALLBACK_GT
            speed_text = f"link speed {describe(text)}" if text else "no link speed"
            self.fallbacks[host.path, f"{speed_text}: {transfers:g} GT/s"].append(host.prefix + name)
        return nccl_rates.PCIE_LANE_GBPS[transfers] * lanes


class _Links:
    """The links of the GPUs of a file, which are joined once all GPUs are known."""

    def __init__(self, reader: _Reader, hosts: dict[int, _Host]) -> None:
        self.reader, self.hosts, self.draft = reader, hosts, reader.draft
        self.switch: int | None = None
        self.gbps: defaultdict[tuple[int, int], float] = defaultdict(float)
        """By the device that names links and the device that they lead to."""
        self.bridges: dict[tuple[int, str], int] = {}

    def join_gpus(self) -> None:
        """Join GPUs to one another, to the NVSwitches of the file, which are one device, and to their CPUs."""
        gpu_of = {}
        for host in self.hosts.values():
            for gpu in host.gpus():
                gpu_of[gpu.device] = gpu
                self._read_gpu(host, gpu)
        for (device, other), gbps in self.gbps.items():
            if not math.isclose(gbps, self.gbps.get((other, device), gbps)):
                mismatch = f"GPUs {gpu_of[device].bus} and {gpu_of[other].bus} name links of unlike counts to one another"
                raise ConfigError(f"{self.draft.source}: {mismatch}, expected the same both ways")
            if (other, device) not in self.gbps or device < other:  # GPUs that name one another have these links once
                self.draft.connect(device, other, gbps, self.reader.latency_ns)

    def _read_gpu(self, host: _Host, gpu: _Gpu) -> None:
        counts = dict.fromkeys(_READ["gpu"], 0)
        for link in gpu.element:
            if link.tag not in counts:
                continue
            count, target = _whole(host.path, link, "count"), link.get("target", "")
            if count < 1 or (not target and link.tag != "c2c"):
                raise ConfigError(f"{host.path}: an {link.tag} has no target or no count, expected both")
            counts[link.tag] += count
            if link.tag == "c2c":
                self._join_cpu(host, gpu, count * _whole(host.path, link, "bw") / 1000)
                continue
            rate = _nvlink_gbps(host.path, gpu) if link.tag == "nvlink" else _xgmi_gbps(host.path, gpu)
            gbps, kind = count * rate / gpu.partitions, link.get("tclass", "")
            others = host.by_bus.get(_bus_key(target), [])
            if kind.startswith(_CPU_CLASS):
                self.gbps[gpu.device, gpu.cpu] += gbps
            elif link.tag == "xgmi" or kind.startswith(_GPU_CLASS) or (others and not kind):  # no AMD GPU has switches
                for other in others:
                    self.gbps[gpu.device, other.device] += gbps / len(others)
                if not others:
                    self.reader.unread[host.path][f"<{link.tag}> to a device that the file does not have"] += 1
            else:
                if self.switch is None:
                    self.switch = self.draft.add(SWITCH_KIND, f"{host.prefix if len(self.hosts) == 1 else ''}nvswitch")
                self.gbps[gpu.device, self.switch] += gbps
                host.on_switch = True
        for tag, count in counts.items():
            self.reader.links_of[tag, gpu.model][gpu.device] = count

    def _join_cpu(self, host: _Host, gpu: _Gpu, gbps: float) -> None:
        """The C2C link of a GPU, the only one whose file says what it carries, in MB/s; partitions share it by a bridge."""
        if gbps == 0:
            raise ConfigError(f"{host.path}: GPU {gpu.bus} has a <c2c> of bw 0, expected MB/s above 0")
        if gpu.partitions == 1:
            self.gbps[gpu.device, gpu.cpu] += gbps
            return
        key = (gpu.cpu, gpu.bus)
        if key not in self.bridges:
            self.bridges[key] = self.draft.add("pcie", f"{host.prefix}{gpu.bus}.c2c")
            self.gbps[self.bridges[key], gpu.cpu] += gbps
        self.gbps[gpu.device, self.bridges[key]] += gbps


def _nvlink_gbps(path: Path, gpu: _Gpu) -> float:
    sm = _whole(path, gpu.element, "sm")
    gbps = nccl_rates.nvlink_gbps(sm)
    if gbps is None:
        raise ConfigError(f"{path}: GPU {gpu.bus} has sm {sm}, expected {nccl_rates.LEAST_SM} or more: older GPUs have no NVLink")
    return gbps


def _xgmi_gbps(path: Path, gpu: _Gpu) -> float:
    text = gpu.element.get("gcn", "")
    architecture = _ARCHITECTURE.fullmatch(text)
    gbps = nccl_rates.xgmi_gbps(architecture[1]) if architecture else None
    if gbps is None:
        known = ", ".join(nccl_rates.XGMI_ARCHITECTURES)
        raise ConfigError(f"{path}: GPU {gpu.bus} has gcn {describe(text)}, expected one of known XGMI links: {known}")
    return gbps


def _whole(path: Path, element: Element, name: str) -> int:
    text = element.get(name, "")
    if (number := short_number(text)) < 0:
        raise ConfigError(f"{path}: <{element.tag}> has {name} {describe(text)}, expected a whole number")
    return number


def _shortened(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
