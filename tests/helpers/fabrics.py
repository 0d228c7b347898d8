"""Graphs with devices that forward, and some that add."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from astra_tacos.network.composition import build_topology
from astra_tacos.network.devices import ForwardingDevice, ReducingDevice
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology


def fabric(num_forwarding: int, *links: tuple[int, int, float, float], name: str = "fabric") -> Topology:
    """The last devices of the links forward."""
    network = NetworkConfig(
        name, links=tuple(LinkSpec(*link) for link in links), forwarding=(ForwardingDevice(),) * num_forwarding
    )
    return build_topology(network, may_forward=True)


def both_ways(*links: tuple[int, int, float, float]) -> list[tuple[int, int, float, float]]:
    """Every link, and the one against it."""
    return [each for src, dst, *rest in links for each in ((src, dst, *rest), (dst, src, *rest))]


TWO_LEVELS = fabric(
    3, *both_ways(*((npu, 4 + npu // 2, 100.0, 500.0) for npu in range(4)), (4, 6, 50.0, 300.0), (5, 6, 50.0, 300.0))
)
"""Two pairs of NPUs, each below a switch, and a switch between them."""
PARALLEL = fabric(1, *both_ways(*((npu, 3, 25.0, 100.0) for npu in (0, 1, 2, 0))))
"""Three NPUs and a switch, to which NPU 0 has two links."""
WITH_DIRECT = fabric(
    2, *both_ways((0, 1, 100.0, 50.0), (2, 3, 100.0, 50.0), *((npu, 4 + npu % 2, 25.0, 700.0) for npu in range(4)))
)
"""Two pairs of NPUs with a link, and rails: NPU 0 reaches NPU 3 over another NPU only."""
ONE_WAY = fabric(
    2, (0, 2, 50.0, 5.0), (2, 1, 25.0, 6.0), (1, 3, 12.5, 7.0), (3, 0, 50.0, 1.0), (0, 3, 10.0, 2.0), (3, 1, 10.0, 0.0)
)
FABRICS = {"two-levels": TWO_LEVELS, "parallel": PARALLEL, "with-direct": WITH_DIRECT, "one-way": ONE_WAY}


@st.composite
def fabrics(draw: st.DrawFn, most_npus: int = 5, latency_ns: float | None = None, may_be_parallel: bool = True) -> Topology:
    """Random ones: a random tree over all devices, of links both ways, and more links, one-way and parallel ones among them."""
    npus, devices = draw(st.integers(2, most_npus)), draw(st.integers(1, 4))
    count = npus + devices
    speed = st.sampled_from((10.0, 25.0, 50.0, 100.0))
    latency = st.sampled_from((0.0, 10.0, 500.0)) if latency_ns is None else st.just(latency_ns)
    # Forwarding devices make the trunk, so that no NPU is cut off.
    trunk = [(npus + d, npus + draw(st.integers(0, d - 1))) for d in range(1, devices)]
    trunk += [(npu, npus + draw(st.integers(0, devices - 1))) for npu in range(npus)]
    links = both_ways(*((*ends, draw(speed), draw(latency)) for ends in trunk))
    for _ in range(draw(st.integers(0, 6))):
        src = draw(st.integers(0, count - 1))
        dst = draw(st.integers(0, count - 2))
        ends = src, dst + (dst >= src)
        if may_be_parallel or ends not in {link[:2] for link in links}:
            links.append((*ends, draw(speed), draw(latency)))
    return fabric(devices, *links)


@st.composite
def nodes_behind_routers(
    draw: st.DrawFn, most_npus: int = 12, latency_ns: float | None = None, alike: bool = True
) -> tuple[Topology, list[list[int]]]:
    """Nodes with a switch inside and a router outside, far from a core; and the NPUs of each node, numbered in random order.

    Nodes are alike in size unless told otherwise. NPUs of a node are nearer to one another than to any other, by latency or, with
    one latency everywhere, by bandwidth.
    """
    nodes = draw(st.integers(2, max(2, most_npus // 2)))
    size = draw(st.integers(2, max(2, most_npus // nodes)))
    sizes = [size] * nodes if alike else [size + node for node in range(nodes)]
    count = sum(sizes)
    number = draw(st.permutations(range(count)))
    far = st.sampled_from((10_000.0, 317_000.0, 562_000.0)) if latency_ns is None else st.just(latency_ns)
    near = st.sampled_from((0.0, 150.0, 500.0)) if latency_ns is None else st.just(latency_ns)
    speed = st.sampled_from((10.0, 25.0, 50.0))
    groups, links = [], []
    for node, members in enumerate(sizes):
        switch, router = count + 2 * node, count + 2 * node + 1
        groups.append(sorted(number[sum(sizes[:node]) : sum(sizes[:node]) + members]))
        inside = draw(near)
        for npu in groups[-1]:
            links += [(npu, switch, 600.0, inside), (npu, router, draw(speed), 500.0 if latency_ns is None else latency_ns)]
        links.append((router, count + 2 * nodes, draw(speed), draw(far)))
    return fabric(2 * nodes + 1, *both_ways(*links)), groups


@st.composite
def tree_networks(draw: st.DrawFn) -> NetworkConfig:
    """Random trees over switches with NPUs below any of them, and links between some NPUs: one way of the fewest links each."""
    npus, switches = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    speed, latency = st.sampled_from((3.3, 11.7, 46.5)), st.sampled_from((3.0, 250.0, 500.0))
    ends = [(npus + d, npus + draw(st.integers(0, d - 1))) for d in range(1, switches)]
    ends += [(npu, npus + draw(st.integers(0, switches - 1))) for npu in range(npus)]
    ends += sorted(draw(st.sets(st.sampled_from([(one, npus - 1) for one in range(npus - 1)]), max_size=2)))
    links = both_ways(*((*pair, draw(speed), draw(latency)) for pair in ends))
    return NetworkConfig("tree", links=tuple(LinkSpec(*link) for link in links), forwarding=(ForwardingDevice(),) * switches)


def adding(topology: Topology, *devices: int, **limits: int) -> Topology:
    """The same fabric with devices that add and copy: some, or all that forward, with these limits."""
    chosen = devices or range(topology.num_endpoints, topology.num_npus)
    return replace(topology, reducing=tuple(ReducingDevice(device, **limits) for device in chosen))


def star(num_npus: int, gibps: float = 100.0, latency_ns: float = 500.0, **limits: int) -> Topology:
    """NPUs around a switch that adds."""
    return adding(fabric(1, *both_ways(*((npu, num_npus, gibps, latency_ns) for npu in range(num_npus)))), **limits)


def racks(num_racks: int, npus: int, up_gibps: float = 100.0, **limits: int) -> Topology:
    """Racks of NPUs, each with a switch, and a spine above them; all of them add. NPUs have 100 GiB/s, all links 500 ns."""
    first = num_racks * npus
    links = [(npu, first + npu // npus, 100.0, 500.0) for npu in range(first)]
    links += [(first + rack, first + num_racks, up_gibps, 500.0) for rack in range(num_racks)]
    return adding(fabric(num_racks + 1, *both_ways(*links)), **limits)


@st.composite
def adding_fabrics(draw: st.DrawFn, most_npus: int = 5, latency_ns: float | None = None) -> Topology:
    """Random fabrics of which some devices add, with and without limits."""
    network = draw(fabrics(most_npus, latency_ns, may_be_parallel=False))
    ids = st.sampled_from(range(network.num_endpoints, network.num_npus))
    chosen = sorted(draw(st.sets(ids, min_size=1)))
    window, ports = st.sampled_from((None, 40_000, 120_000, 1 << 20)), st.sampled_from((None, None, 2, 3))
    takes = st.sampled_from((0, 1, 3000))
    return replace(network, reducing=tuple(ReducingDevice(each, draw(window), draw(ports), draw(takes)) for each in chosen))
