"""Small networks for tests."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.support.errors import ConfigError

Rows = str | tuple[str, int, float, float]


def dims_of(text: str) -> tuple[tuple[str, int, float, float], ...]:
    """Dimensions in words: "Ring 4 25 700, Switch 2" has a ring of 25 GiB/s and 700 ns, and a switch of 50 GiB/s and 500 ns."""
    rows = [words + ["50", "500"][len(words) - 2 :] for words in map(str.split, text.split(","))]
    return tuple((block, int(size), float(gibps), float(ns)) for block, size, gibps, ns in rows)


RING8 = dims_of("Ring 8")
TORUS = dims_of("Ring 4, Ring 3")
HETERO_TORUS = dims_of("Ring 4, Ring 3 25 700")
MESH = dims_of("Mesh 3, Mesh 4 20 30")
FULL = dims_of("FullyConnected 6 37.5 250")
SWITCH = dims_of("Switch 7")
SWITCHES = dims_of("Switch 4 300, Switch 3 25 100")
MIXED = dims_of("Ring 2 200 50, FullyConnected 3 100 250, Switch 4")
ALL = {
    "ring8": RING8,
    "torus": TORUS,
    "hetero-torus": HETERO_TORUS,
    "mesh": MESH,
    "full": FULL,
    "switch": SWITCH,
    "switches": SWITCHES,
    "mixed": MIXED,
    "pair": dims_of("Ring 2 12.5 0"),
}


def config(*dimensions: Rows, **extension: object) -> NetworkConfig:
    """A network of dimensions given in words, as (block, size, GiB/s, ns), or by a name in `ALL`."""
    rows = [row for each in dimensions for row in (ALL.get(each) or dims_of(each) if isinstance(each, str) else [each])]
    return NetworkConfig("test.yml", tuple(Dimension(*row) for row in rows), **extension)  # type: ignore[arg-type]


def topology(*dimensions: Rows, **extension: object) -> Topology:
    return build_topology(config(*dimensions, **extension))


def graph(*links: str | tuple[int, int, float, float]) -> Topology:
    """An arbitrary graph of (src, dst, GiB/s, ns), or of these in words: "0 1 50 5, 1 0 25 5"."""
    rows = [row for each in links for row in (map(str.split, each.split(",")) if isinstance(each, str) else [each])]
    specs = tuple(LinkSpec(int(src), int(dst), float(gibps), float(ns)) for src, dst, gibps, ns in rows)
    return build_topology(NetworkConfig("graph.yml", (), specs))


def ends_of(topology: Topology) -> list[tuple[int, int]]:
    """Source and destination of every link."""
    return list(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))


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


def some_dimensions(most: int) -> st.SearchStrategy[list[tuple[str, int, float, float]]]:
    """One to three dimensions of ASTRA-sim's blocks and meshes, of up to so many NPUs each."""
    blocks = st.sampled_from(("Ring", "FullyConnected", "Switch", "Mesh"))
    row = st.tuples(blocks, st.integers(2, most), st.sampled_from((25.0, 100.0)), st.sampled_from((0.0, 500.0)))
    return st.lists(row, min_size=1, max_size=3)


HIERARCHY = dims_of("Ring 2 200, FullyConnected 4 100, Switch 8")
TWO_SWITCHES = dims_of("Switch 8 300, Switch 4 25")


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
    dimensions = f"Ring {side}, Ring {side}"
    whole = topology(dimensions)
    random = Random(seed)
    while True:
        try:
            return topology(dimensions, failed_links=tuple(random.sample(ends_of(whole), failed)), **options)
        except ConfigError:
            continue
