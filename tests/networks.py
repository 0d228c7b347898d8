"""Small networks for tests."""

from __future__ import annotations

from hypothesis import strategies as st

from astra_tacos.config.network import Dimension, LinkSpec, NetworkConfig
from astra_tacos.topology.composition import build_topology
from astra_tacos.topology.topology import Topology

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


def config(*dimensions: tuple[str, int, float, float], **extension: object) -> NetworkConfig:
    """A network of dimensions given as (block, size, GiB/s, ns)."""
    return NetworkConfig("test.yml", tuple(Dimension(*d) for d in dimensions), **extension)  # type: ignore[arg-type]


def topology(*dimensions: tuple[str, int, float, float], **extension: object) -> Topology:
    return build_topology(config(*dimensions, **extension))


def graph(*links: tuple[int, int, float, float]) -> Topology:
    """An arbitrary graph of (src, dst, GiB/s, ns)."""
    return build_topology(NetworkConfig("graph.yml", (), tuple(LinkSpec(*link) for link in links)))


@st.composite
def topologies(draw: st.DrawFn, most_npus: int = 18) -> Topology:
    """Connected networks of one to three dimensions, some with a link that is slower or gone."""
    dimensions = []
    npus = 1
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(2, 5))
        if npus * size > most_npus:
            break
        npus *= size
        block = draw(st.sampled_from(("Ring", "FullyConnected", "Switch", "Mesh")))
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
