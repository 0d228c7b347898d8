"""Small networks for tests."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.support.errors import ConfigError

RING8 = (("Ring", 8, 50.0, 500.0),)
TORUS = (("Ring", 4, 50.0, 500.0), ("Ring", 3, 50.0, 500.0))
HETERO_TORUS = (("Ring", 4, 50.0, 500.0), ("Ring", 3, 25.0, 700.0))
MESH = (("Mesh", 3, 50.0, 500.0), ("Mesh", 4, 20.0, 30.0))
FULL = (("FullyConnected", 6, 37.5, 250.0),)
SWITCH = (("Switch", 7, 50.0, 500.0),)
SWITCHES = (("Switch", 4, 300.0, 500.0), ("Switch", 3, 25.0, 100.0))
MIXED = (("Ring", 2, 200.0, 50.0), ("FullyConnected", 3, 100.0, 250.0), ("Switch", 4, 50.0, 500.0))

ALL = {
    "ring8": RING8,
    "torus": TORUS,
    "hetero-torus": HETERO_TORUS,
    "mesh": MESH,
    "full": FULL,
    "switch": SWITCH,
    "switches": SWITCHES,
    "mixed": MIXED,
    "pair": (("Ring", 2, 12.5, 0.0),),
}


Row = tuple[str, int, float, float] | str
"""A dimension as (block, size, GiB/s, ns), or as text, where 50 GiB/s and 500 ns may be left out."""


def dimension_of(row: Row) -> Dimension:
    if not isinstance(row, str):
        return Dimension(*row)
    block, size, *rates = row.split()
    return Dimension(block, int(size), *map(float, rates or (50, 500)))


def config(*dimensions: Row, **extension: object) -> NetworkConfig:
    """A network of dimensions, or of those of one of `ALL`."""
    rows = ALL.get(dimensions[0], dimensions)
    return NetworkConfig("test.yml", tuple(map(dimension_of, rows)), **extension)  # type: ignore[arg-type]


def topology(*dimensions: Row, **extension: object) -> Topology:
    return build_topology(config(*dimensions, **extension))


def graph(*links: tuple[int, int, float, float]) -> Topology:
    """An arbitrary graph of (src, dst, GiB/s, ns)."""
    return build_topology(NetworkConfig("graph.yml", (), tuple(LinkSpec(*link) for link in links)))


def sizes_of(block: str, most: int) -> list[int]:
    """Sizes that a building block can have, up to a limit."""
    return [size for size in range(2, most + 1) if BUILDING_BLOCKS[block].expected_size(size) is None]


SMALL_BLOCKS = [(block, size) for block in BUILDING_BLOCKS for size in (sizes_of(block, 5) or sizes_of(block, 50)[:2])]
"""Every building block in its small sizes."""


@st.composite
def topologies(draw: st.DrawFn, most_npus: int = 18) -> Topology:
    """Connected networks of one to three dimensions, some with a link that is slower or gone."""
    dimensions = []
    npus = 1
    for _ in range(draw(st.integers(1, 3))):
        block, size = draw(st.sampled_from(SMALL_BLOCKS))
        if npus * size > most_npus:
            break
        npus *= size
        bandwidth = draw(st.sampled_from((12.5, 25.0, 50.0, 400.0)))
        latency = draw(st.sampled_from((0.0, 30.0, 500.0, 936.25)))
        dimensions.append((block, size, bandwidth, latency))
    if not dimensions:
        dimensions = [("Ring", 3, 50.0, 500.0)]
    whole = topology(*dimensions)
    if draw(st.booleans()):
        link = draw(st.integers(0, whole.num_links - 1))
        src, dst = int(whole.link_src[link]), int(whole.link_dst[link])
        return topology(*dimensions, link_overrides=(LinkSpec(src, dst, draw(st.sampled_from((5.0, 100.0))), None),))
    return whole


HIERARCHY = (("Ring", 2, 200.0, 500.0), ("FullyConnected", 4, 100.0, 500.0), ("Switch", 8, 50.0, 500.0))
TWO_SWITCHES = (("Switch", 8, 300.0, 500.0), ("Switch", 4, 25.0, 500.0))


def dgx1(bandwidth: float = 25.0, latency: float = 500.0) -> Topology:
    """The hybrid cube mesh of a DGX-1 with V100s: six NVLinks per NPU, two of them to each of two neighbours."""
    single = ((0, 1), (0, 2), (1, 3), (4, 5), (4, 6), (5, 7), (2, 6), (3, 7))
    double = ((0, 3), (1, 2), (2, 3), (4, 7), (5, 6), (6, 7), (0, 4), (1, 5))
    both_ways = [(a, b, lanes) for lanes, ends in ((1, single), (2, double)) for pair in ends for a, b in (pair, pair[::-1])]
    return graph(*((a, b, lanes * bandwidth, latency) for a, b, lanes in both_ways))


def hypercube(dimensions: int) -> Topology:
    npus = range(1 << dimensions)
    return graph(*((npu, npu ^ 1 << bit, 50.0, 500.0) for npu in npus for bit in range(dimensions)))


def broken_torus(side: int, failed: int, seed: int, **options: object) -> Topology:
    """A torus from which so many directed links are gone, chosen so that it stays strongly connected."""
    dimensions = (("Ring", side, 50.0, 500.0), ("Ring", side, 50.0, 500.0))
    whole = topology(*dimensions)
    links = list(zip(whole.link_src.tolist(), whole.link_dst.tolist(), strict=True))
    random = Random(seed)
    while True:
        try:
            return topology(*dimensions, failed_links=tuple(random.sample(links, failed)), **options)
        except ConfigError:
            continue
