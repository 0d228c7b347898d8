"""InfraGraph: devices made of components, instances of devices, and connections between their components, as YAML.

Format: `Keysight/infragraph`. A connection is `COMPONENT.i.LINK.COMPONENT.j` within a device, and
`INSTANCE.i.COMPONENT.j.LINK.INSTANCE.k.COMPONENT.l` between instances. A component of type `xpu` is an NPU; all others forward.
A component or instance without a count is one; in files without any count, there are as many of each as connections name. Files
may name devices, links and instances of one another: those that belong together are read together, as one graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.network.fabric.draft import FabricDraft
from astra_tacos.network.network_config import MAX_NPUS, NetworkConfig
from astra_tacos.support.documents import read_yaml
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import is_number, is_whole
from astra_tacos.support.formats.values import are_texts, describe, filled_text, list_value, mapping_value
from astra_tacos.support.input_file import INFRAGRAPH_KEYS

_KINDS = {"xpu": "npu", "npu": "npu", "gpu": "npu", "nic": "nic", "cpu": "cpu", "switch": "switch", "custom": "switch"}
_GBPS = {"giga_bytes_per_second": 1.0, "gigabytes_per_second": 1.0, "gigabits_per_second": 0.125, "giga_bits_per_second": 0.125}


@dataclass(frozen=True, slots=True)
class _Device:
    """A type of device: kind and number of each component, links by name, and connections within."""

    components: dict[str, tuple[str, int]]
    links: dict[str, float | None]
    connections: list[str]


def is_infragraph(document: Mapping[Any, Any]) -> bool:
    """Whether this is the content of an InfraGraph, and of no network."""
    return bool(INFRAGRAPH_KEYS & document.keys())


def read_infragraph(paths: Sequence[Path], latency_ns: float, gbps: float | None = None) -> NetworkConfig:
    """The network of a graph in one or several files.

    Parameters
    ----------
    gbps
        Decimal GB/s of links that have no bandwidth; None: there must be none such.

    Raises
    ------
    ConfigError
        If a file is none, a device, component, instance or link is not defined or defined in two ways, a link has no bandwidth,
        or there are fewer than two NPUs.
    """
    files = [(path, _infrastructure(path)) for path in paths]
    parts = [part for path, device in _all(files, "devices") for part in _entries(path, device, "components")]
    counted = any("count" in entry for entry in (*parts, *(instance for _, instance in _all(files, "instances"))))
    devices: dict[str, _Device] = {}
    links: dict[str, float | None] = {}
    for path, inner in files:
        for entry in _entries(path, inner, "devices"):
            _define(path, devices, _name(path, entry, "devices"), _device(path, entry, counted), "device")
        for name, given in _links(path, inner).items():
            _define(path, links, name, given, "link")
    connections = [(path, text, _ends(path, text, 4)) for path, inner in files for text in _texts(path, inner)]
    named = {} if counted else _most(end for _, _, (near, _, other) in connections for end in (near, other))
    draft, place = FabricDraft(", ".join(map(str, paths))), {}
    names: set[str] = set()
    for path, entry in _all(files, "instances"):
        name, kind = _name(path, entry, "instances"), str(entry.get("device"))
        if kind not in devices:
            expected = (
                "a definition in this file, or in another file that is read with this file (network read FILE FILE, or DIR)"
            )
            raise ConfigError(f"{path}: instance {name!r} is of device {kind!r}, expected {expected}")
        if name in names:
            raise ConfigError(f"{path}: instance {name!r} again, expected each name once")
        names.add(name)
        device = devices[kind]
        for number in range(_count(path, entry, named.get(name, 1))):
            for component, (of, count) in device.components.items():
                for index in range(count):
                    where = f"{name}.{number}.{component}.{index}"
                    place[where] = draft.add(of, "" if of == "npu" else where)
            for text in device.connections:
                near, link, other = _ends(path, text, 2)
                prefix = f"{name}.{number}."
                _connect(path, draft, place, (prefix + near, prefix + other), device.links, (link, text), (latency_ns, gbps))
    for path, text, (near, link, other) in connections:
        _connect(path, draft, place, (near, other), links, (link, text), (latency_ns, gbps))
    return draft.to_network()


def _infrastructure(path: Path) -> dict[str, Any]:
    document = read_yaml(path).content
    if not is_infragraph(document):
        raise ConfigError(f"{path}: found {describe(document)}, expected an InfraGraph (infrastructure, devices, instances)")
    return mapping_value(document.get("infrastructure", document), f"{path}: infrastructure", "a mapping")


def _all(files: Sequence[tuple[Path, dict[str, Any]]], key: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path, inner in files:
        for entry in _entries(path, inner, key):
            yield path, entry


def _define(path: Path, known: dict[str, Any], name: str, meaning: object, kind: str) -> None:
    if known.setdefault(name, meaning) != meaning:
        raise ConfigError(f"{path}: {kind} {name!r} is defined in two ways, expected one")


def _connect(
    path: Path,
    draft: FabricDraft,
    place: Mapping[str, int],
    ends: tuple[str, str],
    links: Mapping[str, float | None],
    named: tuple[str, str],
    otherwise: tuple[float, float | None],
) -> None:
    link, text = named
    for end in ends:
        if end not in place:
            raise ConfigError(f"{path}: connection {text!r} names {end!r}, expected a component of an instance")
    if link not in links:
        raise ConfigError(f"{path}: connection {text!r} names the link {link!r}, expected a link that is defined there")
    latency_ns, gbps = otherwise
    gbps = gbps if links[link] is None else links[link]
    if gbps is None:
        expected = f"one in {', '.join(_GBPS)}, or --bandwidth for links that have none"
        raise ConfigError(f"{path}: link {link!r} has no bandwidth in bytes or bits, expected {expected}")
    draft.connect(place[ends[0]], place[ends[1]], gbps, latency_ns)


def _most(ends: Iterable[str]) -> dict[str, int]:
    """For each name that ends begin with, how many its numbers take."""
    most: dict[str, int] = {}
    for end in ends:
        name, number = end.split(".")[:2]
        if number.isascii() and number.isdigit():
            most[name] = max(most.get(name, 1), int(number[:9]) + 1)
    return most


def _ends(path: Path, text: str, end_words: int) -> tuple[str, str, str]:
    words = text.split(".")
    if len(words) != 2 * end_words + 1:
        raise ConfigError(f"{path}: connection {text!r} has {len(words)} words, expected {2 * end_words + 1}")
    return ".".join(words[:end_words]), words[end_words], ".".join(words[end_words + 1 :])


def _device(path: Path, entry: Mapping[str, Any], counted: bool) -> _Device:
    components = {}
    connections = _texts(path, entry)
    named = {} if counted else _most(end for text in connections for end in _ends(path, text, 2)[::2])
    for component in _entries(path, entry, "components"):
        kind = str(component.get("type"))
        name = _name(path, component, "components")
        if kind not in _KINDS:
            raise ConfigError(f"{path}: component {name!r} is of type {kind!r}, expected {', '.join(_KINDS)}")
        components[name] = _KINDS[kind], _count(path, component, named.get(name, 1))
    return _Device(components, _links(path, entry), connections)


def _links(path: Path, entry: Mapping[str, Any]) -> dict[str, float | None]:
    links: dict[str, float | None] = {}
    for link in _entries(path, entry, "links"):
        name, bandwidth = _name(path, link, "links"), link.get("bandwidth")
        links[name] = None
        if isinstance(bandwidth, dict):
            unit = str(bandwidth.get("choice"))
            value = bandwidth.get(unit)
            if unit in _GBPS and is_number(value, 0, 1e12) and value:
                links[name] = float(value) * _GBPS[unit]
    return links


def _entries(path: Path, entry: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = list_value(entry.get(key, []), f"{path}: {key}", "a list of mappings")
    return [mapping_value(entry, f"{path}: an entry of {key}", "a mapping") for entry in entries]


def _texts(path: Path, entry: Mapping[str, Any]) -> list[str]:
    texts = entry.get("connections", [])
    if "edges" in entry:
        raise ConfigError(f"{path}: found edges (InfraGraph's newer format, which is not read), expected connections")
    if not are_texts(texts):
        raise ConfigError(f"{path}: connections is {describe(texts)}, expected a list of texts")
    return texts


def _name(path: Path, entry: Mapping[str, Any], key: str) -> str:
    name = filled_text(entry.get("name"), f"{path}: the name of an entry of {key}", "a word without dots")
    if not name.isprintable() or "." in name:
        raise ConfigError(f"{path}: the name of an entry of {key} is {describe(name)}, expected a word without dots")
    return name


def _count(path: Path, entry: Mapping[str, Any], named: int) -> int:
    count = entry.get("count", named)
    if not is_whole(count, 1, MAX_NPUS):
        raise ConfigError(f"{path}: {describe(entry.get('name'))} has count {describe(count)}, expected 1 to {MAX_NPUS:,}")
    return count
