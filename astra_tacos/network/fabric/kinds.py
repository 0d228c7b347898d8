"""Kinds of fabrics that are made from a few numbers. Bandwidths are decimal GB/s in each direction, latencies ns per link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from astra_tacos.network.devices import SWITCH_KIND, ReducingDevice
from astra_tacos.network.fabric.draft import FabricDraft
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.support.errors import ConfigError

Number = int | float
_MOST_NPUS = 65_536
"""Of a fabric, whose links are Python objects; and of each of its counts."""
LIMIT = 1e12
"""Of bandwidths, latencies and ratios."""


@dataclass(frozen=True, slots=True)
class FabricKind:
    """A kind of fabric.

    `summary`: what it is, in a line. `parameters`: default (an int is a count) and meaning of each. `make`: from their values.
    `npus_of_node`: how many NPUs a node has, where that is no parameter.
    """

    summary: str
    parameters: Mapping[str, tuple[Number, str]]
    make: Callable[..., FabricDraft]
    npus_of_node: int = 1


_SPEED = {"bandwidth": (50.0, "GB/s of an NPU's port"), "latency": (500.0, "ns of each link")}
_OVER = {"oversubscription": (1.0, "bandwidth of ports below a switch over that above it")}


class _Ports(NamedTuple):
    """Ports of a tree's switches: `_SPEED` and `_OVER`."""

    bandwidth: float
    oversubscription: float
    latency: float


def _tree(make: Callable[..., FabricDraft]) -> Callable[..., FabricDraft]:
    """`make` from its counts and the figures of its ports."""
    return lambda bandwidth, oversubscription, latency, **counts: make(_Ports(bandwidth, oversubscription, latency), **counts)


def _leaf_spine(ports: _Ports, leaves: int, npus: int, spines: int) -> FabricDraft:
    draft = FabricDraft("leaf-spine")
    top = draft.add_many(spines, "switch", "spine")
    for leaf in draft.add_many(leaves, "switch", "leaf"):
        for npu in draft.add_many(npus, "npu"):
            draft.connect(npu, leaf, ports.bandwidth, ports.latency)
        for spine in top:
            draft.connect(leaf, spine, npus * ports.bandwidth / ports.oversubscription / spines, ports.latency)
    return draft


def _fat_tree(ports: _Ports, pods: int, leaves: int, npus: int, aggregations: int, cores: int) -> FabricDraft:
    draft = FabricDraft("fat-tree")
    top = draft.add_many(cores, "switch", "core")
    up = npus * ports.bandwidth / ports.oversubscription
    for pod in range(pods):
        middle = draft.add_many(aggregations, "switch", f"pod{pod}.aggregation")
        for leaf in draft.add_many(leaves, "switch", f"pod{pod}.leaf"):
            for npu in draft.add_many(npus, "npu"):
                draft.connect(npu, leaf, ports.bandwidth, ports.latency)
            for switch in middle:
                draft.connect(leaf, switch, up / aggregations, ports.latency)
        for switch in middle:
            for core in top:
                draft.connect(switch, core, leaves * up / aggregations / ports.oversubscription / cores, ports.latency)
    return draft


def _rails(nodes: int, npus: int, bandwidth: float, rail: float, latency: float) -> FabricDraft:
    draft = FabricDraft("rails")
    rails = draft.add_many(npus, "switch", "rail") if nodes > 1 else []
    for node in range(nodes):
        inner = draft.add("switch", f"node{node}.switch")
        for place, npu in enumerate(draft.add_many(npus, "npu")):
            draft.connect(npu, inner, bandwidth, latency)
            if rails:
                draft.connect(npu, rails[place], rail, latency)
    return draft


def _nodes_of(name: str, switches: int, per_switch: float, nic: float) -> Callable[[int, int, float], FabricDraft]:
    """Nodes of NPUs that share some switches, each with a NIC to the switch of its rail."""

    def make(nodes: int, npus: int, latency: float) -> FabricDraft:
        draft = FabricDraft(name)
        rails = draft.add_many(npus, "switch", "rail") if nodes > 1 else []
        for node in range(nodes):
            inner = draft.add_many(switches, "switch", f"node{node}.nvswitch")
            for place, npu in enumerate(draft.add_many(npus, "npu")):
                for switch in inner:
                    draft.connect(npu, switch, per_switch, latency)
                if rails:
                    card = draft.add("nic", f"node{node}.nic{place}")
                    draft.connect(npu, card, nic, latency)
                    draft.connect(card, rails[place], nic, latency)
        return draft

    return make


def _dragonfly(
    groups: int, routers: int, npus: int, bandwidth: float, local: float, global_bandwidth: float, latency: float
) -> FabricDraft:
    draft = FabricDraft("dragonfly")
    of_group = []
    for group in range(groups):
        group_routers = draft.add_many(routers, "switch", f"group{group}.router")
        for at, router in enumerate(group_routers):
            for npu in draft.add_many(npus, "npu"):
                draft.connect(npu, router, bandwidth, latency)
            for other in group_routers[:at]:
                draft.connect(router, other, local, latency)
        of_group.append(group_routers)
    for group in range(groups):
        for other in range(group):
            # Every group's links go to its routers in turn.
            draft.connect(of_group[group][other % routers], of_group[other][(group - 1) % routers], global_bandwidth, latency)
    return draft


def _hxmesh(
    boards_x: int, boards_y: int, board_a: int, board_b: int, bandwidth: float, board_latency: float, latency: float
) -> FabricDraft:
    draft = FabricDraft("hxmesh")
    width, height = boards_x * board_a, boards_y * board_b
    npu = [[draft.add("npu") for _ in range(width)] for _ in range(height)]
    for y in range(height):
        for x in range(width):
            if (x + 1) % board_a:
                draft.connect(npu[y][x], npu[y][x + 1], bandwidth, board_latency)
            if (y + 1) % board_b:
                draft.connect(npu[y][x], npu[y + 1][x], bandwidth, board_latency)
    for y in range(height):
        switch = draft.add("switch", f"row{y}")
        for board in range(boards_x):
            for x in (board * board_a, board * board_a + board_a - 1):
                draft.connect(npu[y][x], switch, bandwidth, latency)
    for x in range(width):
        switch = draft.add("switch", f"column{x}")
        for board in range(boards_y):
            for y in (board * board_b, board * board_b + board_b - 1):
                draft.connect(npu[y][x], switch, bandwidth, latency)
    return draft


_MI250_LINKS = {
    200.0: ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15)),
    100.0: ((0, 4), (3, 7), (8, 12), (11, 15)),
    50.0: (
        *((0, 8), (1, 5), (1, 9), (1, 10), (2, 6), (2, 9), (2, 10), (3, 11)),
        *((4, 6), (5, 6), (5, 7), (9, 13), (10, 14), (12, 14), (13, 14), (13, 15)),
    ),
}
"""By GB/s, which dies of a node have Infinity Fabric links: four of 50 GB/s within a package, two or one between packages.

Each die has 350 GB/s. ForestColl is evaluated on this graph (Zhao et al.)."""


def _mi250(nodes: int, nic: float, latency: float) -> FabricDraft:
    draft = FabricDraft("mi250")
    above = draft.add("switch", "ib") if nodes > 1 else None
    for _ in range(nodes):
        dies = draft.add_many(16, "npu")
        for speed, pairs in _MI250_LINKS.items():
            for first, second in pairs:
                draft.connect(dies[first], dies[second], speed, latency)
        if above is not None:
            for die in dies:
                draft.connect(die, above, nic, latency)
    return draft


_LATENCY = {"latency": (500.0, "ns of each link")}

KINDS: dict[str, FabricKind] = {
    "leaf-spine": FabricKind(
        "two levels of switches: every leaf has a link to every spine",
        {"leaves": (4, "leaf switches"), "npus": (4, "NPUs of a leaf"), "spines": (2, "spine switches"), **_SPEED, **_OVER},
        _tree(_leaf_spine),
    ),
    "fat-tree": FabricKind(
        "three levels of switches: pods of leaves and aggregation switches, below cores",
        {
            "pods": (2, "pods"),
            "leaves": (2, "leaf switches of a pod"),
            "npus": (2, "NPUs of a leaf"),
            "aggregations": (2, "aggregation switches of a pod"),
            "cores": (2, "core switches"),
            **_SPEED,
            **_OVER,
        },
        _tree(_fat_tree),
    ),
    "rails": FabricKind(
        "nodes with a switch inside; the k-th NPUs of all nodes share the k-th rail's switch",
        {
            "nodes": (4, "nodes"),
            "npus": (8, "NPUs of a node"),
            "bandwidth": (450.0, "GB/s of an NPU to its node's switch"),
            "rail": (50.0, "GB/s of an NPU to its rail"),
            **_LATENCY,
        },
        _rails,
    ),
    "dragonfly": FabricKind(
        "groups of routers, all linked within a group; one link between each two groups (Kim et al., ISCA 2008)",
        {
            "groups": (5, "groups"),
            "routers": (2, "routers of a group"),
            "npus": (2, "NPUs of a router"),
            "bandwidth": (50.0, "GB/s of an NPU's port"),
            "local": (50.0, "GB/s between routers of a group"),
            "global_bandwidth": (50.0, "GB/s between groups"),
            **_LATENCY,
        },
        _dragonfly,
    ),
    "hxmesh": FabricKind(
        "HammingMesh: boards that are meshes; switches join the ends of rows and of columns (Hoefler et al., SC 2022)",
        {
            "boards_x": (2, "boards in a row"),
            "boards_y": (2, "boards in a column"),
            "board_a": (2, "NPUs in a row of a board"),
            "board_b": (2, "NPUs in a column of a board"),
            "bandwidth": (50.0, "GB/s of a link"),
            "board_latency": (100.0, "ns of a link on a board"),
            "latency": (500.0, "ns of a link to a switch"),
        },
        _hxmesh,
    ),
    "dgx-a100": FabricKind(
        "nodes of 8 NPUs on 6 NVSwitches (12 NVLinks of 25 GB/s an NPU), each with a NIC of 25 GB/s to the switch of its rail",
        {"nodes": (2, "nodes"), "npus": (8, "NPUs of a node"), **_LATENCY},
        _nodes_of("dgx-a100", 6, 50.0, 25.0),
    ),
    "dgx-h100": FabricKind(
        "nodes of 8 NPUs on 4 NVSwitches (450 GB/s an NPU), each with a NIC of 50 GB/s to the switch of its rail",
        {"nodes": (2, "nodes"), "npus": (8, "NPUs of a node"), **_LATENCY},
        _nodes_of("dgx-h100", 4, 112.5, 50.0),
    ),
    "mi250": FabricKind(
        "nodes of 8 MI250 packages, each two dies (NPUs), joined by Infinity Fabric links; every die has a port to one switch",
        {"nodes": (2, "nodes of 16 NPUs"), "nic": (16.0, "GB/s of an NPU to the switch"), **_LATENCY},
        _mi250,
        16,
    ),
    "nvl72": FabricKind(
        "racks of 72 NPUs on 18 NVSwitches (50 GB/s to each), each with a NIC of 50 GB/s to the switch of its rail",
        {"nodes": (1, "racks"), "npus": (72, "NPUs of a rack"), **_LATENCY},
        _nodes_of("nvl72", 18, 50.0, 50.0),
    ),
}
"""Kinds by the names that the command line gives them."""


def make_fabric(kind: str, **values: Number) -> NetworkConfig:
    """The network of a kind in `KINDS`; parameters that are not given have their defaults.

    Raises
    ------
    ConfigError
        If there is no such kind or parameter, a count is less than 1, a number is not above 0 (a latency: 0 or more), or there
        are more than 65,536 NPUs.
    """
    if kind not in KINDS:
        raise ConfigError(f"fabric: found {kind!r}, expected {', '.join(KINDS)}")
    parameters = KINDS[kind].parameters
    for name, value in values.items():
        if name not in parameters:
            raise ConfigError(f"{kind}: found {name!r}, expected {', '.join(parameters)}")
        if isinstance(parameters[name][0], int) and (not isinstance(value, int) or not 1 <= value <= _MOST_NPUS):
            raise ConfigError(f"{kind}: {name} is {value}, expected a whole number of 1 to {_MOST_NPUS:,}")
        if not (0 <= value < LIMIT if "latency" in name else 0 < value < LIMIT):
            least = "of 0 or more" if "latency" in name else "above 0"
            raise ConfigError(f"{kind}: {name} is {value}, expected a number {least} and below {LIMIT:g}")
    chosen = {name: values.get(name, default) for name, (default, _) in parameters.items()}
    counts = [chosen[name] for name in ("pods", "leaves", "groups", "routers", "nodes", "npus") if name in chosen]
    npus = KINDS[kind].npus_of_node
    for count in (*counts, *(chosen[name] for name in chosen if name.startswith("board") and "latency" not in name)):
        npus *= int(count)
    if npus > _MOST_NPUS:
        raise ConfigError(f"{kind}: found {npus:,} NPUs, expected at most {_MOST_NPUS:,}")
    return KINDS[kind].make(**chosen).to_network()


def with_reducing_switches(network: NetworkConfig) -> NetworkConfig:
    """The network in which all devices of kind `switch` add and copy, without limits."""
    ids = [network.num_npus + at for at, device in enumerate(network.forwarding) if device.kind == SWITCH_KIND]
    return replace(network, reducing=tuple(ReducingDevice(device) for device in ids))
