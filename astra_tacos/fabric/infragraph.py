"""InfraGraph: devices made of components, instances of devices, and connections between their components, as YAML.

Format: `Keysight/infragraph`. A connection is `COMPONENT.i.LINK.COMPONENT.j` within a device, and
`INSTANCE.i.COMPONENT.j.LINK.INSTANCE.k.COMPONENT.l` between instances. A component of type `xpu` is an NPU; all others forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.config.network import NetworkConfig
from astra_tacos.config.yaml_text import describe, read_yaml_mapping
from astra_tacos.errors import ConfigError
from astra_tacos.fabric.draft import FabricDraft

_KINDS = {"xpu": "npu", "npu": "npu", "gpu": "npu", "nic": "nic", "cpu": "cpu", "switch": "switch", "custom": "switch"}
_GBPS = {"giga_bytes_per_second": 1.0, "gigabytes_per_second": 1.0, "gigabits_per_second": 0.125, "giga_bits_per_second": 0.125}
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class _Device:
    """A type of device: kind and number of each component, links by name, and connections within."""

    components: dict[str, tuple[str, int]]
    links: dict[str, float | None]
    connections: list[str]


def read_infragraph(path: Path, latency_ns: float) -> NetworkConfig:
    """The network of a graph, in which every link has a latency.

    Raises
    ------
    ConfigError
        If a device, component, instance or link is not defined, a link has no bandwidth, or there are fewer than two NPUs.
    """
    document = read_yaml_mapping(path)
    inner = document.get("infrastructure", document)
    if not isinstance(inner, dict):
        raise ConfigError(f"{path}: infrastructure is {describe(inner)}, expected a mapping")
    devices = {_name(path, entry, "devices"): _device(path, entry) for entry in _entries(path, inner, "devices")}
    draft, place = FabricDraft(str(path)), {}
    links = _links(path, inner)
    for entry in _entries(path, inner, "instances"):
        name, kind = _name(path, entry, "instances"), str(entry.get("device"))
        if kind not in devices:
            raise ConfigError(f"{path}: instance {name!r} is of device {kind!r}, expected one that the file defines")
        device = devices[kind]
        for number in range(_count(path, entry)):
            for component, (of, count) in device.components.items():
                for index in range(count):
                    where = f"{name}.{number}.{component}.{index}"
                    place[where] = draft.add(of, "" if of == "npu" else where)
            for text in device.connections:
                one, link, other = _ends(path, text, 2)
                own = f"{name}.{number}."
                _connect(path, draft, place, (own + one, own + other), device.links, (link, text), latency_ns)
    for text in _texts(path, inner):
        one, link, other = _ends(path, text, 4)
        _connect(path, draft, place, (one, other), links, (link, text), latency_ns)
    return draft.to_network()


def _connect(
    path: Path,
    draft: FabricDraft,
    place: Mapping[str, int],
    ends: tuple[str, str],
    links: Mapping[str, float | None],
    named: tuple[str, str],
    latency_ns: float,
) -> None:
    link, text = named
    for end in ends:
        if end not in place:
            raise ConfigError(f"{path}: connection {text!r} names {end!r}, expected a component of an instance")
    if link not in links:
        raise ConfigError(f"{path}: connection {text!r} names the link {link!r}, expected one that is defined there")
    gbps = links[link]
    if gbps is None:
        raise ConfigError(f"{path}: link {link!r} has no bandwidth in bytes or bits, expected one in {', '.join(_GBPS)}")
    draft.connect(place[ends[0]], place[ends[1]], gbps, latency_ns)


def _ends(path: Path, text: str, each: int) -> tuple[str, str, str]:
    words = text.split(".")
    if len(words) != 2 * each + 1:
        raise ConfigError(f"{path}: connection {text!r} has {len(words)} words, expected {2 * each + 1}")
    return ".".join(words[:each]), words[each], ".".join(words[each + 1 :])


def _device(path: Path, entry: Mapping[str, Any]) -> _Device:
    components = {}
    for component in _entries(path, entry, "components"):
        kind = str(component.get("type"))
        name = _name(path, component, "components")
        if kind not in _KINDS:
            raise ConfigError(f"{path}: component {name!r} is of type {kind!r}, expected {', '.join(_KINDS)}")
        components[name] = _KINDS[kind], _count(path, component)
    return _Device(components, _links(path, entry), _texts(path, entry))


def _links(path: Path, entry: Mapping[str, Any]) -> dict[str, float | None]:
    links: dict[str, float | None] = {}
    for link in _entries(path, entry, "links"):
        name, bandwidth = _name(path, link, "links"), link.get("bandwidth")
        links[name] = None
        if isinstance(bandwidth, dict):
            unit = bandwidth.get("choice")
            value = bandwidth.get(unit) if isinstance(unit, str) else None
            if unit in _GBPS and isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
                links[name] = float(value) * _GBPS[str(unit)]
    return links


def _entries(path: Path, entry: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = entry.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ConfigError(f"{path}: {key} is {describe(entries)}, expected a list of mappings")
    return entries


def _texts(path: Path, entry: Mapping[str, Any]) -> list[str]:
    texts = entry.get("connections", [])
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ConfigError(f"{path}: connections is {describe(texts)}, expected a list of texts")
    return texts


def _name(path: Path, entry: Mapping[str, Any], key: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name or not name.isprintable() or "." in name:
        raise ConfigError(f"{path}: an entry of {key} has the name {describe(name)}, expected a word without dots")
    return name


def _count(path: Path, entry: Mapping[str, Any]) -> int:
    count = entry.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST:
        raise ConfigError(f"{path}: {describe(entry.get('name'))} has count {describe(count)}, expected 1 to {_MOST:,}")
    return count
