"""The analytical network YAML of ASTRA-sim, and the `astra_tacos:` key that extends it.

Format: `astra-network-analytical`, `common/NetworkParser.cpp`: four lists of one entry per dimension. ASTRA-sim ignores
unknown keys, so one file serves both programs.

Writing of networks as the YAML that `read_network` and ASTRA-sim read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from astra_tacos.network.blocks import ASTRA_SIM_BLOCKS, BUILDING_BLOCKS, building_block
from astra_tacos.network.blocks.building_block import BuildingBlock
from astra_tacos.network.devices import (
    COLUMNS,
    SWITCH_KIND,
    ForwardingDevice,
    ReducingDevice,
    check_reducing,
    node_table_lines,
    read_link_table,
    read_node_table,
    read_reducing,
    reducing_text,
)
from astra_tacos.network.ns3 import DEFAULT_NS3, Ns3Config, read_ns3_config
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.input_file import refuse_infragraph, text_of
from astra_tacos.support.text_files import (
    check_keys,
    describe,
    filled_text,
    finite_number,
    is_whole,
    list_value,
    mapping_value,
    read_yaml_mapping,
    short_number,
)

MAX_NPUS = 2_000_000
MIN_BANDWIDTH_GIBPS, MAX_BANDWIDTH_GIBPS = 1e-9, 1e12
MAX_LATENCY_NS = 1e30
"""Within these all quotients and sums stay finite; what takes too long for a schedule or a replay is found there."""
_EXTENSION_KEYS = ("topology", "failed_links", "link_overrides", "links", "switches", "nodes", "reducing", "error")
_OVERRIDE_KEYS = ("src", "dst", "bandwidth", "latency")
_CUSTOM = "Custom"
_TOPOLOGY_FILE = "topology_file"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a network: a building block, its size, and its links' bandwidth (GiB/s) and latency (ns)."""

    block: str
    size: int
    bandwidth_gibps: float
    latency_ns: float

    @property
    def building_block(self) -> BuildingBlock:
        """The building block of that name, ConfigError if there is none."""
        return building_block(self.block)


def describe_dimensions(dimensions: Sequence[Dimension]) -> str:
    """`Ring 2 x FullyConnected 4 x Switch 8`."""
    return " x ".join(f"{dimension.block} {dimension.size}" for dimension in dimensions)


def count_links_of(dimensions: Sequence[Dimension]) -> int:
    """Number of links of a product of dimensions, computed without building it."""
    npus = math.prod(dimension.size for dimension in dimensions)
    return sum(each.building_block.num_links(each.size) * (npus // each.size) for each in dimensions)


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A directed link between devices; in an override, None keeps what the link has."""

    src: int
    dst: int
    bandwidth_gibps: float | None
    latency_ns: float | None


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """A network as its file describes it: dimensions, or an explicit list of links, with failures and overrides.

    Dimension 0 varies fastest: NPU id = c0 + n0 * (c1 + n1 * c2 ...). Devices past the NPUs are switches, or in a list of links
    other devices that forward.
    """

    source: str
    """The file it was read from, as error messages and results name it."""
    dimensions: tuple[Dimension, ...] = ()
    links: tuple[LinkSpec, ...] = ()
    failed_links: tuple[tuple[int, int], ...] = ()
    link_overrides: tuple[LinkSpec, ...] = ()
    ns3: Ns3Config = DEFAULT_NS3
    """How ASTRA-sim's ns-3 backend would be configured for it."""
    forwarding: tuple[ForwardingDevice, ...] = ()
    """In a list of links: the devices after the NPUs, which only forward (switches, NICs, ...), in the order of their ids."""
    reducing: tuple[ReducingDevice, ...] = ()
    """Those of the devices after the NPUs that also add and copy, by id. They may be switches of dimensions: these then are
    devices that forward, as in a list of links."""
    error: float | None = None
    """By which share measured times are off its times, in the median; None if nobody measured."""

    @property
    def name(self) -> str:
        """Name of the file without its suffix."""
        return Path(self.source).stem

    @property
    def carried_error(self) -> dict[str, float]:
        """What results say of the error: nothing if there is none."""
        return {} if self.error is None else {"network_error": self.error}

    @property
    def num_npus(self) -> int:
        """Number of NPUs."""
        if self.dimensions:
            return math.prod(dimension.size for dimension in self.dimensions)
        return 1 + max(max(link.src, link.dst) for link in self.links) - len(self.forwarding)

    @property
    def num_others(self) -> int:
        """Number of devices after the NPUs: those that forward, or switches of dimensions."""
        if not self.dimensions:
            return len(self.forwarding)
        blocks = [(dimension.building_block.num_switches(dimension.size), dimension.size) for dimension in self.dimensions]
        return sum(switches * (self.num_npus // size) for switches, size in blocks)


def read_network(path: str | Path) -> NetworkConfig:
    """Read a network YAML.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    path = Path(path)
    document = read_yaml_mapping(path)
    refuse_infragraph(path, document)
    for key in document:
        if key != "astra_tacos" and get_close_matches(key.lower(), ("astra_tacos",), cutoff=0.8):
            raise ConfigError(f"{path}: has the key {describe(key)}, expected astra_tacos")
    extension = mapping_value(document.get("astra_tacos", {}), f"{path}: astra_tacos", "a mapping")
    check_keys(extension, f"{path}: astra_tacos", _EXTENSION_KEYS)
    failed_links = _failed_links(path, extension)
    overrides = _link_overrides(path, extension)
    if "links" in extension:
        if "topology" in extension:
            raise ConfigError(f"{path}: astra_tacos gives both links and topology, expected one of them")
        links = _explicit_links(path, extension["links"], may_be_parallel="switches" in extension or "nodes" in extension)
        forwarding = _forwarding(path, extension, links)
        _check_count(path, document, links, len(forwarding), "astra_tacos.links")
        network = NetworkConfig(text_of(path), (), links, failed_links, overrides, forwarding=forwarding)
        return _with_reducing(path, extension, replace(network, error=_error(path, extension)))
    for key in ("switches", "nodes"):
        if key in extension:
            raise ConfigError(f"{path}: astra_tacos has the key '{key}' without links, expected both")
    topology_file = topology_file_of(path, document)
    if topology_file is not None:
        graph = _read_graph(path, document, topology_file)
        network = replace(graph, failed_links=failed_links, link_overrides=overrides, error=_error(path, extension))
        return _with_reducing(path, extension, network)
    dimensions = _dimensions(path, document, extension)
    network = NetworkConfig(text_of(path), dimensions, (), failed_links, overrides, error=_error(path, extension))
    return _with_reducing(path, extension, network)


def topology_file_of(path: Path, document: Mapping[str, Any]) -> str | None:
    """The ns-3 topology that a network file names in place of dimensions: `topology: [ Custom ]` with `topology_file`.

    Some branches of ASTRA-sim read this form, stock ASTRA-sim does not. Blocks or links of the key `astra_tacos` go first.

    Raises
    ------
    ConfigError
        If a file has one of the two keys only.
    """
    extension = document.get("astra_tacos", {})
    if "links" in extension or "topology" in extension:
        return None
    if document.get("topology") == [_CUSTOM]:
        expected = "the path of an ns-3 topology, as topology is [ Custom ]"
        return filled_text(document.get(_TOPOLOGY_FILE), f"{path}: {_TOPOLOGY_FILE}", expected)
    if _TOPOLOGY_FILE in document:
        found = describe(document.get("topology"))
        raise ConfigError(f"{path}: topology is {found} beside {_TOPOLOGY_FILE}, expected [ {_CUSTOM} ]")
    return None


def _read_graph(path: Path, document: Mapping[str, Any], topology_file: str) -> NetworkConfig:
    """The graph of an ns-3 topology; `bandwidth` and `latency` of the network file stand for nothing in it."""
    from astra_tacos.network.fabric.ns3_topology import read_ns3_topology

    graph = read_ns3_topology(path.parent / topology_file)
    _check_count(path, document, graph.links, len(graph.forwarding), _TOPOLOGY_FILE)
    return replace(graph, source=text_of(path))


def _error(path: Path, extension: Mapping[str, Any]) -> float | None:
    """The share by which measured times are off."""
    if "error" not in extension:
        return None
    error = finite_number(extension["error"])
    if error is None or error <= 0:
        raise ConfigError(f"{path}: astra_tacos.error is {describe(extension['error'])}, expected a share like 0.06")
    return error


def _with_reducing(path: Path, extension: Mapping[str, Any], network: NetworkConfig) -> NetworkConfig:
    """The network with the devices that add and copy."""
    if "reducing" not in extension:
        return network
    first, others = network.num_npus, network.num_others

    def switches() -> list[int]:
        kinds = [device.kind for device in network.forwarding] or [SWITCH_KIND] * others
        return [first + at for at, kind in enumerate(kinds) if kind == SWITCH_KIND]

    return replace(network, reducing=read_reducing(path, extension["reducing"], switches, first, first + others))


def configured(network: NetworkConfig, ns3_path: str | Path | None) -> NetworkConfig:
    """The network with a configuration of ASTRA-sim's ns-3 backend, from a file; as it is without one.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    return network if ns3_path is None else replace(network, ns3=read_ns3_config(ns3_path))


def _dimensions(path: Path, document: Mapping[str, Any], extension: Mapping[str, Any]) -> tuple[Dimension, ...]:
    if "topology" in extension:
        topology_key, blocks = "astra_tacos.topology", _list(path, extension, "topology", "astra_tacos.")
        check_block_names(f"{path}: {topology_key}", blocks, tuple(BUILDING_BLOCKS))
    else:
        topology_key, blocks = "topology", _list(path, document, "topology")
        check_block_names(f"{path}: {topology_key}", blocks, ASTRA_SIM_BLOCKS)
    return make_dimensions(path, document, blocks, topology_key)


def check_block_names(where: str, blocks: Sequence[object], names: Sequence[str]) -> None:
    """Check that each entry of a list is one of some names of building blocks.

    Raises
    ------
    ConfigError
        If not; `where` is what the list is called.
    """
    for index, block in enumerate(blocks):
        if block not in tuple(names):
            known = block in tuple(BUILDING_BLOCKS)
            hint = " (blocks that ASTRA-sim lacks belong in astra_tacos.topology)" if known else ""
            raise ConfigError(f"{where}[{index}] is {describe(block)}, expected {' or '.join(names)}{hint}")


def check_block_sizes(source: str, dimensions: Sequence[Dimension]) -> None:
    """Check that building blocks have these names, and can have these sizes.

    Raises
    ------
    ConfigError
        If not; `source` is the file that they are from.
    """
    check_block_names(f"{source}: astra_tacos.topology", [dimension.block for dimension in dimensions], tuple(BUILDING_BLOCKS))
    for index, dimension in enumerate(dimensions):
        expected = dimension.building_block.expected_size(dimension.size)
        if expected is not None:
            raise ConfigError(f"{source}: npus_count[{index}] is {dimension.size}, expected {expected} for a {dimension.block}")


def check_values(network: NetworkConfig) -> None:
    """Check sizes, bandwidths, latencies and ids of a network that a program made, as `read_network` checks those of a file.

    Raises
    ------
    ConfigError
        If one is out of range, a link leads from a device to itself, or a device id is negative.
    """
    source = network.source
    if network.forwarding and (network.dimensions or network.num_npus < 2):
        raise ConfigError(
            f"{source}: {len(network.forwarding)} devices only forward, expected them in a list of links of 2 or more NPUs"
        )
    if network.reducing:
        first = network.num_npus
        check_reducing(source, network.reducing, first, first + network.num_others)
    for index, dimension in enumerate(network.dimensions):
        if dimension.size < 1:
            raise ConfigError(f"{source}: npus_count[{index}] is {dimension.size}, expected at least 1")
        _bandwidth(source, f"bandwidth[{index}]", dimension.bandwidth_gibps)
        _latency(source, f"latency[{index}]", dimension.latency_ns)
    for key, links, is_override in (("links", network.links, False), ("link_overrides", network.link_overrides, True)):
        for index, link in enumerate(links):
            where = f"astra_tacos.{key}[{index}]"
            if min(link.src, link.dst) < 0 or link.src == link.dst:
                raise ConfigError(f"{source}: {where} is {link.src} -> {link.dst}, expected two devices, 0 or more")
            if not (is_override and link.bandwidth_gibps is None):
                _bandwidth(source, f"{where}.bandwidth", link.bandwidth_gibps)
            if not (is_override and link.latency_ns is None):
                _latency(source, f"{where}.latency", link.latency_ns)


def make_dimensions(
    path: str | Path,
    document: Mapping[str, Any],
    blocks: Sequence[str],
    topology_key: str = "topology",
    bandwidth_key: str = "bandwidth",
) -> tuple[Dimension, ...]:
    """Dimensions of these blocks, with the sizes, bandwidths and latencies that a mapping lists.

    Parameters
    ----------
    path
        What to call the mapping in messages.
    document
        Content of the network file.
    blocks
        Names of building blocks.
    topology_key, bandwidth_key
        Where the blocks came from, and where bandwidths are found.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    lists = {key: _list(path, document, key) for key in ("npus_count", bandwidth_key, "latency")}
    for key, values in lists.items():
        if len(values) != len(blocks):
            raise ConfigError(f"{path}: {key} has {_entries(values)}, {topology_key} has {len(blocks)}")
    sizes = _sizes(path, lists["npus_count"])
    bandwidths = [_bandwidth(path, f"{bandwidth_key}[{i}]", value) for i, value in enumerate(lists[bandwidth_key])]
    latencies = [_latency(path, f"latency[{i}]", value) for i, value in enumerate(lists["latency"])]
    dimensions = tuple(Dimension(*row) for row in zip(blocks, sizes, bandwidths, latencies, strict=True))
    check_block_sizes(str(path), dimensions)
    return dimensions


def _list(path: str | Path, mapping: Mapping[str, Any], key: str, prefix: str = "") -> list[Any]:
    expected = "a list of one entry per dimension"
    if key not in mapping:
        raise ConfigError(f"{path}: {prefix}{key} is missing, expected {expected}")
    return list_value(mapping[key], f"{path}: {prefix}{key}", expected, 1)


def _entries(values: list[Any]) -> str:
    return f"{len(values)} {'entry' if len(values) == 1 else 'entries'}"


def _sizes(path: str | Path, values: Sequence[object]) -> list[int]:
    sizes = [_size(path, index, value) for index, value in enumerate(values)]
    num_npus = 1
    for size in sizes:
        num_npus *= size
        if num_npus > MAX_NPUS:  # before the product has more digits than can be shown
            raise ConfigError(f"{path}: npus_count gives at least {num_npus:,} NPUs, expected at most {MAX_NPUS:,}")
    return sizes


def _size(path: str | Path, index: int, value: object) -> int:
    if not is_whole(value, 2, math.inf):
        raise ConfigError(f"{path}: npus_count[{index}] is {describe(value)}, expected a whole number above 1")
    return value


def _bandwidth(path: str | Path, key: str, value: object) -> float:
    number = finite_number(value)
    if number is None or not MIN_BANDWIDTH_GIBPS <= number <= MAX_BANDWIDTH_GIBPS:
        least = f"at least {MIN_BANDWIDTH_GIBPS:g}" if number is not None and number > 0 else "above 0"
        raise ConfigError(
            f"{path}: {key} is {describe(value)}, expected a number of GB/s {least} and at most {MAX_BANDWIDTH_GIBPS:g}"
        )
    return number


def _latency(path: str | Path, key: str, value: object) -> float:
    number = finite_number(value)
    if number is None or not 0 <= number <= MAX_LATENCY_NS:
        most = f" and at most {MAX_LATENCY_NS:g}" if number is not None and number > 0 else ""
        raise ConfigError(f"{path}: {key} is {describe(value)}, expected a number of ns, 0 or more{most}")
    return abs(number)  # -0.0


def _device(path: Path, key: str, value: object) -> int:
    if not is_whole(value, 0, math.inf):
        raise ConfigError(f"{path}: {key} is {describe(value)}, expected a device id, 0 or more")
    return value


def _failed_links(path: Path, extension: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    where = f"{path}: astra_tacos.failed_links"
    pairs = list_value(extension.get("failed_links", []), where, "a list of [src, dst]")
    failed: dict[tuple[int, int], None] = {}
    for index, pair in enumerate(pairs):
        key = f"astra_tacos.failed_links[{index}]"
        if not isinstance(pair, list) or len(pair) != 2:
            raise ConfigError(f"{path}: {key} is {describe(pair)}, expected [src, dst]")
        ends = (_device(path, key, pair[0]), _device(path, key, pair[1]))
        if ends in failed:
            raise ConfigError(f"{path}: {key} is [{ends[0]}, {ends[1]}] again, expected each link once")
        failed[ends] = None
    return tuple(failed)


def _link_overrides(path: Path, extension: Mapping[str, Any]) -> tuple[LinkSpec, ...]:
    where = f"{path}: astra_tacos.link_overrides"
    entries = list_value(extension.get("link_overrides", []), where, "a list of mappings")
    overrides: dict[tuple[int, int], LinkSpec] = {}
    for index, entry in enumerate(entries):
        key = f"astra_tacos.link_overrides[{index}]"
        expected = "expected {src, dst, bandwidth and/or latency}"
        if not isinstance(entry, dict) or not {"src", "dst"} < set(entry) or not set(entry) <= set(_OVERRIDE_KEYS):
            raise ConfigError(f"{path}: {key} is {describe(entry)}, {expected}")
        ends = (_device(path, f"{key}.src", entry["src"]), _device(path, f"{key}.dst", entry["dst"]))
        bandwidth = _bandwidth(path, f"{key}.bandwidth", entry["bandwidth"]) if "bandwidth" in entry else None
        latency = _latency(path, f"{key}.latency", entry["latency"]) if "latency" in entry else None
        if ends in overrides:
            raise ConfigError(f"{path}: {key} is for {ends[0]} -> {ends[1]} again, expected each link once")
        overrides[ends] = LinkSpec(*ends, bandwidth, latency)
    return tuple(overrides.values())


def _explicit_links(path: Path, value: object, *, may_be_parallel: bool) -> tuple[LinkSpec, ...]:
    table = path.parent / filled_text(value, f"{path}: astra_tacos.links", "the path of a CSV file")
    links: list[LinkSpec] = []
    seen: dict[tuple[int, int], int] = {}
    for line, (src, dst, bandwidth, latency) in read_link_table(table):
        where = Path(f"{table}:{line}")
        ends = (_npu(where, "src", src), _npu(where, "dst", dst))
        if ends[0] == ends[1]:
            raise ConfigError(f"{where}: the link leads from device {ends[0]} to itself, expected two devices")
        if ends in seen and not may_be_parallel:
            raise ConfigError(
                f"{where}: link {ends[0]} -> {ends[1]} was given in line {seen[ends]}, expected one (with the summed bandwidth)"
            )
        seen[ends] = line
        links.append(LinkSpec(*ends, _bandwidth(where, "bandwidth", bandwidth), _latency(where, "latency", latency)))
    if not links:
        raise ConfigError(f"{table}: no links, expected a header and one link a line")
    return tuple(links)


def _forwarding(path: Path, extension: Mapping[str, Any], links: Sequence[LinkSpec]) -> tuple[ForwardingDevice, ...]:
    """The devices that only forward: the last ones, as many as `switches` says or the table `nodes` lists."""
    count = extension.get("switches")
    if "switches" in extension and not is_whole(count, 0, MAX_NPUS - 1):
        raise ConfigError(f"{path}: astra_tacos.switches is {describe(count)}, expected the number of devices that only forward")
    num_devices = 1 + max(max(link.src, link.dst) for link in links)
    if "nodes" not in extension:
        if count is not None and count > num_devices - 2:
            raise ConfigError(f"{path}: astra_tacos.switches is {count:,} of {num_devices:,} devices, expected at least 2 NPUs")
        return (ForwardingDevice(),) * (count or 0)
    table = filled_text(extension["nodes"], f"{path}: astra_tacos.nodes", "the path of a CSV file")
    forwarding = read_node_table(path.parent / table, num_devices)
    if count is not None and count != len(forwarding):
        raise ConfigError(f"{path}: astra_tacos.switches is {count:,}, but {table} lists {len(forwarding):,} that are no NPUs")
    return forwarding


def _check_count(path: Path, document: Mapping[str, Any], links: Sequence[LinkSpec], num_forwarding: int, key: str) -> None:
    """Check that the NPUs of the links, which a key gives, are those of `npus_count`, where it is given."""
    if "npus_count" not in document:
        return
    sizes = _sizes(path, _list(path, document, "npus_count"))
    count, found = math.prod(sizes), 1 + max(max(link.src, link.dst) for link in links) - num_forwarding
    if count != found:
        hint = " (astra_tacos.switches says how many devices after the NPUs only forward)" if key != _TOPOLOGY_FILE else ""
        raise ConfigError(
            f"{path}: {key} has NPUs 0 to {found - 1}, npus_count gives {count:,}, expected the same NPUs in both{hint}"
        )


def _npu(where: Path, key: str, text: str) -> int:
    npu = short_number(text)
    if not 0 <= npu < MAX_NPUS:
        raise ConfigError(f"{where}: {key} is {describe(text)}, expected a device id of 0 to {MAX_NPUS - 1}")
    return npu


LINK_TABLE = "links.csv"
NODE_TABLE = "nodes.csv"


def network_yaml(dimensions: Sequence[Dimension], extension: Sequence[str] = ()) -> str:
    """The text of a network file: ASTRA-sim's four lists, and lines for the key `astra_tacos`.

    Blocks that ASTRA-sim lacks make `topology` go under that key, too.
    """
    blocks = f"topology: [ {', '.join(dimension.block for dimension in dimensions)} ]\n"
    if dimensions and not all(dimension.building_block.is_in_astra_sim for dimension in dimensions):
        extension, blocks = [blocks, *extension], ""
    lists = (
        blocks
        + f"npus_count: [ {', '.join(str(dimension.size) for dimension in dimensions)} ]\n"
        + f"bandwidth: [ {', '.join(repr(d.bandwidth_gibps) for d in dimensions)} ]  # GB/s of a link, 2^30 bytes/s\n"
        + f"latency: [ {', '.join(repr(d.latency_ns) for d in dimensions)} ]  # ns\n"
    )
    return (f"astra_tacos:\n  {'  '.join(extension)}" if extension else "") + (lists if dimensions else "")


def write_network(network: NetworkConfig, path: Path) -> None:
    """Write a network to `path`, and links and kinds of devices that are explicit lists to `links.csv`, `nodes.csv` beside it."""
    extension = []
    if network.links:
        extension.append(f"links: {LINK_TABLE}\n")
        path.with_name(LINK_TABLE).write_text("".join(_table(network.links)), encoding="utf-8")
    if network.forwarding:
        extension.append(f"switches: {len(network.forwarding)}\n")
    if any(device != ForwardingDevice() for device in network.forwarding):
        extension.append(f"nodes: {NODE_TABLE}\n")
        lines = node_table_lines(network.num_npus, network.forwarding)
        path.with_name(NODE_TABLE).write_text("".join(lines), encoding="utf-8")
    if network.failed_links:
        extension.append(f"failed_links: [ {', '.join(f'[{src}, {dst}]' for src, dst in network.failed_links)} ]\n")
    if network.link_overrides:
        extension.append(f"link_overrides: [ {', '.join(map(_override, network.link_overrides))} ]\n")
    if network.reducing:
        extension.append(f"reducing: {reducing_text(network.reducing)}\n")
    if network.error is not None:
        extension.append(error_line(network.error))
    path.write_text(network_yaml(network.dimensions, extension), encoding="utf-8")


def error_line(error: float) -> str:
    """The line of the key `astra_tacos` that carries an error."""
    return f"error: {error:.4g}\n"


def _override(link: LinkSpec) -> str:
    fields = {"src": link.src, "dst": link.dst, "bandwidth": link.bandwidth_gibps, "latency": link.latency_ns}
    return f"{{{', '.join(f'{name}: {value!r}' for name, value in fields.items() if value is not None)}}}"


def _table(links: Iterable[LinkSpec]) -> Iterable[str]:
    yield ",".join(COLUMNS) + "\n"
    for link in links:
        yield f"{link.src},{link.dst},{link.bandwidth_gibps!r},{link.latency_ns!r}\n"
