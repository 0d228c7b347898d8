"""The analytical network YAML of ASTRA-sim, and the `astra_tacos:` key that extends it.

Format: `astra-network-analytical`, `common/NetworkParser.cpp`: four lists of one entry per dimension. ASTRA-sim ignores
unknown keys, so one file serves both programs.

Writing of networks as the YAML that `read_network` and ASTRA-sim read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

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
from astra_tacos.support.documents import Value, filled, read_yaml
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import short_number
from astra_tacos.support.formats.values import describe
from astra_tacos.support.input_file import refuse_infragraph, text_of

MAX_NPUS = 2_000_000
"""Of a network, and ids of its devices: arrays of links fit memory."""
MIN_BANDWIDTH_GIBPS, MAX_BANDWIDTH_GIBPS = 1e-9, 1e12
MAX_LATENCY_NS = 1e30
"""Within these all quotients and sums stay finite; what takes too long for a schedule or a replay is found there."""
_EXTENSION = "astra_tacos"
_CUSTOM = "Custom"
_TOPOLOGY_FILE = "topology_file"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a network: a building block, its size, and its links' bandwidth (GiB/s) and latency (ns).

    Examples
    --------
    >>> from astra_tacos import Dimension
    >>> Dimension("Ring", size=4, bandwidth_gibps=50.0, latency_ns=500.0).size
    4
    """

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
    return sum(dimension.building_block.num_links(dimension.size) * (npus // dimension.size) for dimension in dimensions)


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """A directed link between devices; in an override, None keeps what the link has.

    Examples
    --------
    >>> from astra_tacos import LinkSpec, NetworkConfig
    >>> both = LinkSpec(0, 1, 50.0, 500.0), LinkSpec(1, 0, 25.0, 500.0)
    >>> NetworkConfig("pair", links=both).num_npus
    2
    """

    src: int
    dst: int
    bandwidth_gibps: float | None
    latency_ns: float | None


@dataclass(frozen=True, slots=True, repr=False)
class NetworkConfig:
    """A network as its file describes it: dimensions, or an explicit list of links, with failures and overrides.

    Dimension 0 varies fastest: NPU id = c0 + n0 * (c1 + n1 * c2 ...). Devices past the NPUs are switches, or in a list of links
    other devices that forward.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig
    >>> dimensions = Dimension("Ring", 4, 50.0, 500.0), Dimension("Ring", 8, 25.0, 700.0)
    >>> NetworkConfig("torus", dimensions, failed_links=((0, 1),)).num_npus
    32
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

    @classmethod
    def from_networkx(cls, graph: Any, source: str = "graph") -> NetworkConfig:
        """The network of a graph of networkx: a list of links, and devices that forward.

        Parameters
        ----------
        graph
            A graph of `networkx`; edges without direction are links in both. Nodes are 0 to n - 1, NPUs first. Nodes with a true
            attribute `switch` forward; `kind` and `name` say more of them. Edges have `bandwidth_gibps` (2^30 bytes/s) and
            `latency_ns`.
        source
            What error messages and results call the network.

        Raises
        ------
        ConfigError
            If nodes have other names or another order, or an edge lacks an attribute.

        Examples
        --------
        >>> import networkx
        >>> from astra_tacos import NetworkConfig, build_topology
        >>> graph = networkx.cycle_graph(4)
        >>> networkx.set_edge_attributes(graph, 50.0, "bandwidth_gibps")
        >>> networkx.set_edge_attributes(graph, 500.0, "latency_ns")
        >>> build_topology(NetworkConfig.from_networkx(graph)).num_links
        8
        """
        if set(graph.nodes) != set(range(len(graph.nodes))):
            first = next((node for node in graph.nodes if node not in range(len(graph.nodes))), None)
            relabel = "networkx.convert_node_labels_to_integers makes them"
            raise ConfigError(f"{source}: found the node {first!r}, expected 0 to {len(graph.nodes) - 1}: {relabel}")
        others = [node for node in sorted(graph.nodes) if graph.nodes[node].get("switch")]
        num_npus = len(graph.nodes) - len(others)
        if others and others[0] != num_npus:
            raise ConfigError(f"{source}: found the NPU {num_npus} after the switch {others[0]}, expected NPUs before switches")
        edges = list(graph.edges(data=True))
        if not graph.is_directed():
            edges += [(dst, src, attributes) for src, dst, attributes in edges]
        for src, dst, attributes in edges:
            if lacks := [name for name in ("bandwidth_gibps", "latency_ns") if name not in attributes]:
                raise ConfigError(f"{source}: the edge {src} -> {dst} has no {lacks[0]}, expected one")
        kinds = [graph.nodes[node] for node in others]
        forwarding = tuple(
            ForwardingDevice(attributes.get("kind", SWITCH_KIND), attributes.get("name", "")) for attributes in kinds
        )
        links = tuple(
            LinkSpec(src, dst, attributes["bandwidth_gibps"], attributes["latency_ns"]) for src, dst, attributes in edges
        )
        if not links:
            raise ConfigError(f"{source}: found no edges, expected links between NPUs")
        network = cls(source, links=links, forwarding=forwarding)
        check_values(network)
        return network

    def __repr__(self) -> str:
        shape = " x ".join(f"{each.block} {each.size}" for each in self.dimensions) or f"{len(self.links):,} links"
        return f"<NetworkConfig: {self.source}, {shape}, {self.num_npus:,} NPUs>"

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

    Examples
    --------
    >>> from astra_tacos import read_network
    >>> network = read_network("configs/network/torus_4x4.yml")
    >>> network.num_npus, network.dimensions[0].block
    (16, 'Ring')
    """
    path = Path(path)
    document = read_yaml(path)
    refuse_infragraph(path, document.content)
    for key in document.content:
        if key != _EXTENSION and get_close_matches(key.lower(), (_EXTENSION,), cutoff=0.8):
            raise document.unknown(key, _EXTENSION)
    given, extension = document.decoded(_NetworkFile).astra_tacos, document / _EXTENSION
    network = NetworkConfig(
        text_of(path),
        failed_links=_failed_links(extension / "failed_links", given),
        link_overrides=_link_overrides(extension / "link_overrides", given),
        error=given.error or None,
    )
    topology_file = topology_file_of(document)
    if given.links:
        if "topology" in extension:
            raise ConfigError(f"{extension} gives both links and topology, expected one of them")
        links = _explicit_links(path.parent / given.links, may_be_parallel=given.switches is not UNSET or bool(given.nodes))
        forwarding = _forwarding(path, extension, given, links)
        _check_count(document, links, len(forwarding), extension / "links")
        network = replace(network, links=links, forwarding=forwarding)
    elif given.switches is not UNSET or given.nodes:
        lonely = "nodes" if given.switches is UNSET else "switches"
        raise ConfigError(f"{extension} has the key '{lonely}' without links, expected both")
    elif topology_file is not None:
        graph = _read_graph(path, document, topology_file)
        network = replace(network, links=graph.links, forwarding=graph.forwarding)
    else:
        network = replace(network, dimensions=_dimensions(document))
    return _with_reducing(extension, network) if "reducing" in extension else network


_Bandwidth = Annotated[
    float,
    Meta(
        ge=MIN_BANDWIDTH_GIBPS,
        le=MAX_BANDWIDTH_GIBPS,
        description=f"a number of GB/s, {MIN_BANDWIDTH_GIBPS:g} to {MAX_BANDWIDTH_GIBPS:g}",
    ),
]
_Latency = Annotated[float, Meta(ge=0, le=MAX_LATENCY_NS, description=f"a number of ns, 0 to {MAX_LATENCY_NS:g}")]
DimensionSize = Annotated[int, Meta(ge=2, description="a whole number above 1")]
"""NPUs of a dimension."""
_Device = Annotated[int, Meta(ge=0, description="a device id, 0 or more")]
_Ends = Annotated[tuple[_Device, _Device], Meta(description="[src, dst]")]
OF_DIMENSIONS = Meta(min_length=1, description="a list of one entry per dimension")
"""Beside a list in an annotation: what it holds is by dimension."""
_List = Annotated[list[Any], OF_DIMENSIONS]


class _Override(Struct, frozen=True, forbid_unknown_fields=True):
    src: _Device
    dst: _Device
    bandwidth: _Bandwidth | UnsetType = UNSET
    latency: _Latency | UnsetType = UNSET


_OVERRIDE = Meta(description="{src, dst, bandwidth and/or latency}")


class _Extension(Struct, frozen=True, forbid_unknown_fields=True):
    topology: Any = UNSET
    failed_links: Annotated[tuple[_Ends, ...], Meta(description="a list of [src, dst]")] = ()
    link_overrides: Annotated[tuple[Annotated[_Override, _OVERRIDE], ...], Meta(description="a list of mappings")] = ()
    links: Annotated[str, filled("the path of a CSV file")] | UnsetType = UNSET
    switches: Annotated[int, Meta(ge=0, le=MAX_NPUS - 1, description="the number of devices that only forward")] | UnsetType = (
        UNSET
    )
    nodes: Annotated[str, filled("the path of a CSV file")] | UnsetType = UNSET
    reducing: Any = UNSET
    error: Annotated[float, Meta(gt=0, le=1e300, description="a share like 0.06")] | UnsetType = UNSET


class _NetworkFile(Struct, frozen=True):
    """What is checked before the form of the network is known; ASTRA-sim ignores unknown keys."""

    astra_tacos: Annotated[_Extension, Meta(description="a mapping")] = _Extension()


def topology_file_of(document: Value) -> str | None:
    """The ns-3 topology that a network file names in place of dimensions: `topology: [ Custom ]` with `topology_file`.

    Some branches of ASTRA-sim read this form, stock ASTRA-sim does not. Blocks or links of the key `astra_tacos` go first.

    Raises
    ------
    ConfigError
        If a file has one of the two keys only.
    """
    extension, topology, file = document / _EXTENSION, document / "topology", document / _TOPOLOGY_FILE
    if "links" in extension or "topology" in extension:
        return None
    if topology.content == [_CUSTOM]:
        path: str = file.decoded(Annotated[str, filled("the path of an ns-3 topology, as topology is [ Custom ]")])
        return path
    if _TOPOLOGY_FILE in document:
        raise topology.unlike(f"[ {_CUSTOM} ] beside {_TOPOLOGY_FILE}")
    return None


def _read_graph(path: Path, document: Value, topology_file: str) -> NetworkConfig:
    """The graph of an ns-3 topology; `bandwidth` and `latency` of the network file stand for nothing in it."""
    from astra_tacos.network.fabric.ns3_topology import read_ns3_topology

    graph = read_ns3_topology(path.parent / topology_file)
    _check_count(document, graph.links, len(graph.forwarding), document / _TOPOLOGY_FILE)
    return graph


def _with_reducing(extension: Value, network: NetworkConfig) -> NetworkConfig:
    """The network with the devices that add and copy."""
    first, others = network.num_npus, network.num_others

    def switches() -> list[int]:
        kinds = [device.kind for device in network.forwarding] or [SWITCH_KIND] * others
        return [first + at for at, kind in enumerate(kinds) if kind == SWITCH_KIND]

    return replace(network, reducing=read_reducing(extension / "reducing", switches, first, first + others))


def configured(network: NetworkConfig, ns3_path: str | Path | None) -> NetworkConfig:
    """The network with a configuration of ASTRA-sim's ns-3 backend, from a file; as it is without one.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    return network if ns3_path is None else replace(network, ns3=read_ns3_config(ns3_path))


def _dimensions(document: Value) -> tuple[Dimension, ...]:
    block_names = document / _EXTENSION / "topology"
    if block_names.content is not UNSET:
        return make_dimensions(document, block_names, tuple(BUILDING_BLOCKS))
    return make_dimensions(document, document / "topology", ASTRA_SIM_BLOCKS)


def check_block_names(blocks: Value, names: Sequence[str]) -> None:
    """Check that each entry of a list is one of some names of building blocks.

    Raises
    ------
    ConfigError
        If not.
    """
    for index, block in enumerate(blocks.content):
        if block not in tuple(names):
            known = block in tuple(BUILDING_BLOCKS)
            hint = " (blocks that ASTRA-sim lacks belong in astra_tacos.topology)" if known else ""
            raise (blocks / index).unlike(f"{' or '.join(names)}{hint}")


def check_block_sizes(source: str, dimensions: Sequence[Dimension]) -> None:
    """Check that building blocks have these names, and can have these sizes.

    Raises
    ------
    ConfigError
        If not; `source` is the file that they are from.
    """
    blocks = [dimension.block for dimension in dimensions]
    check_block_names(Value(source, blocks, "astra_tacos.topology"), tuple(BUILDING_BLOCKS))
    for index, dimension in enumerate(dimensions):
        _check_size(Value(source, dimension.size, f"npus_count[{index}]"), dimension.block)


def _check_size(size: Value, block: str) -> None:
    expected = building_block(block).expected_size(size.content)
    if expected is not None:
        raise size.unlike(f"{expected} for a {block}")


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
        _bandwidth(Value(source, dimension.bandwidth_gibps, f"bandwidth[{index}]"))
        _latency(Value(source, dimension.latency_ns, f"latency[{index}]"))
    for key, links, is_override in (("links", network.links, False), ("link_overrides", network.link_overrides, True)):
        for index, link in enumerate(links):
            where = f"astra_tacos.{key}[{index}]"
            if min(link.src, link.dst) < 0 or link.src == link.dst:
                raise ConfigError(f"{source}: {where} is {link.src} -> {link.dst}, expected two devices, 0 or more")
            if not (is_override and link.bandwidth_gibps is None):
                _bandwidth(Value(source, link.bandwidth_gibps, f"{where}.bandwidth"))
            if not (is_override and link.latency_ns is None):
                _latency(Value(source, link.latency_ns, f"{where}.latency"))


def make_dimensions(
    document: Value, blocks: Value, names: Sequence[str], bandwidth_key: str = "bandwidth"
) -> tuple[Dimension, ...]:
    """Dimensions of these blocks, with the sizes, bandwidths and latencies that a mapping lists.

    Raises
    ------
    ConfigError
        One line that names the file, the key, what was found and what was expected.
    """
    blocks.decoded(_List)
    check_block_names(blocks, names)
    lists = [document / key for key in ("npus_count", bandwidth_key, "latency")]
    for values in lists:
        if len(values.decoded(_List)) != len(blocks.content):
            raise ConfigError(f"{values} has {_entries(values.content)}, {blocks.keys} has {len(blocks.content)}")
    sizes = _sizes(lists[0])
    bandwidths, latencies = lists[1].decoded(list[_Bandwidth]), lists[2].decoded(list[_Latency])
    for index, block in enumerate(blocks.content):
        _check_size(lists[0] / index, block)
    return tuple(
        Dimension(block, size, gibps, abs(ns))  # -0.0
        for block, size, gibps, ns in zip(blocks.content, sizes, bandwidths, latencies, strict=True)
    )


def _entries(values: list[Any]) -> str:
    return f"{len(values)} {'entry' if len(values) == 1 else 'entries'}"


def _sizes(place: Value) -> list[int]:
    sizes: list[int] = place.decoded(Annotated[list[DimensionSize], OF_DIMENSIONS])
    num_npus = 1
    for size in sizes:
        num_npus *= size
        if num_npus > MAX_NPUS:  # before the product has more digits than can be shown
            raise ConfigError(f"{place} gives at least {num_npus:,} NPUs, expected at most {MAX_NPUS:,}")
    return sizes


def _bandwidth(value: Value) -> float:
    """The bandwidth that a field of a table, or a number of a program, stands for."""
    return value.as_decimal().decoded(_Bandwidth)


def _latency(value: Value) -> float:
    return abs(value.as_decimal().decoded(_Latency))


def _failed_links(place: Value, given: _Extension) -> tuple[tuple[int, int], ...]:
    failed: dict[tuple[int, int], None] = {}
    for index, ends in enumerate(given.failed_links):
        if ends in failed:
            raise ConfigError(f"{place / index} is [{ends[0]}, {ends[1]}] again, expected each link once")
        failed[ends] = None
    return tuple(failed)


def _link_overrides(place: Value, given: _Extension) -> tuple[LinkSpec, ...]:
    overrides: dict[tuple[int, int], LinkSpec] = {}
    for index, override in enumerate(given.link_overrides):
        if override.bandwidth is UNSET and override.latency is UNSET:
            raise (place / index).unlike(str(_OVERRIDE.description))
        ends = override.src, override.dst
        if ends in overrides:
            raise ConfigError(f"{place / index} is for {ends[0]} -> {ends[1]} again, expected each link once")
        latency = None if override.latency is UNSET else abs(override.latency)
        overrides[ends] = LinkSpec(*ends, None if override.bandwidth is UNSET else override.bandwidth, latency)
    return tuple(overrides.values())


def _explicit_links(table: Path, *, may_be_parallel: bool) -> tuple[LinkSpec, ...]:
    links: list[LinkSpec] = []
    seen: dict[tuple[int, int], int] = {}
    for line, (src, dst, bandwidth, latency) in read_link_table(table):
        where = f"{table}:{line}"
        ends = (_npu(where, "src", src), _npu(where, "dst", dst))
        if ends[0] == ends[1]:
            raise ConfigError(f"{where}: the link leads from device {ends[0]} to itself, expected two devices")
        if ends in seen and not may_be_parallel:
            raise ConfigError(
                f"{where}: link {ends[0]} -> {ends[1]} was given in line {seen[ends]}, expected one (with the summed bandwidth)"
            )
        seen[ends] = line
        gibps, ns = _bandwidth(Value(where, bandwidth, "bandwidth")), _latency(Value(where, latency, "latency"))
        links.append(LinkSpec(*ends, gibps, ns))
    if not links:
        raise ConfigError(f"{table}: no links, expected a header and one link a line")
    return tuple(links)


def _forwarding(path: Path, extension: Value, given: _Extension, links: Sequence[LinkSpec]) -> tuple[ForwardingDevice, ...]:
    """The devices that only forward: the last ones, as many as `switches` says or the table `nodes` lists."""
    count = None if given.switches is UNSET else given.switches
    num_devices = 1 + max(max(link.src, link.dst) for link in links)
    if not given.nodes:
        if count is not None and count > num_devices - 2:
            raise ConfigError(f"{extension / 'switches'} is {count:,} of {num_devices:,} devices, expected at least 2 NPUs")
        return (ForwardingDevice(),) * (count or 0)
    forwarding = read_node_table(path.parent / given.nodes, num_devices)
    if count is not None and count != len(forwarding):
        count_text = f"{count:,}, but {given.nodes} lists {len(forwarding):,} that are no NPUs"
        raise ConfigError(f"{extension / 'switches'} is {count_text}, expected the same number")
    return forwarding


def _check_count(document: Value, links: Sequence[LinkSpec], num_forwarding: int, key: Value) -> None:
    """Check that the NPUs of the links, which a key gives, are those of `npus_count`, where it is given."""
    if "npus_count" not in document:
        return
    count, num_npus = (
        math.prod(_sizes(document / "npus_count")),
        1 + max(max(link.src, link.dst) for link in links) - num_forwarding,
    )
    if count != num_npus:
        hint = " (astra_tacos.switches says how many devices after the NPUs only forward)" if key.keys != _TOPOLOGY_FILE else ""
        raise ConfigError(f"{key} has NPUs 0 to {num_npus - 1}, npus_count gives {count:,}, expected the same NPUs in both{hint}")


def _npu(where: str, key: str, text: str) -> int:
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
