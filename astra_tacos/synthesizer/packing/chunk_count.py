"""The number of chunks for collectives along trees: fewer chunks take longer to pass on, more chunks pay latency more often."""

from __future__ import annotations

import numpy as np

from astra_tacos.bounds.port import egress, ingress, volume
from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import MAX_CHUNKS
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.timing import LinkModel, compute_timing
from astra_tacos.support.errors import ConfigError, SynthesisError

_HANDING_ON = 0.01
"""Share of the whole time that chunks may take from one end of a tree to the other."""
_ROUND = np.array([1, 2, 3, 4, 6, 8, 12], np.int64)


def suggest_chunks(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
    """Chunks per NPU with which `trees` should come close to its best.

    Parameters
    ----------
    topology
        The network.
    name, size_bytes
        Of the collective, as `COLLECTIVES` takes them.
    link_model
        How long a chunk holds a link.
    max_sends
        Of the schedule.

    Raises
    ------
    ConfigError, SynthesisError
        If not even one chunk per NPU can be.
    """
    whole = COLLECTIVES[name](topology.num_npus, size_bytes, 1)
    timing = compute_timing(topology, whole, link_model)
    busy_ns = float(max(bound(topology, whole, timing).time_ns for bound in (ingress, egress, volume)))
    down = topology.channel_down_link
    second = np.where(down == NO_LINK, topology.channel_link, down)
    hop_ns = np.maximum(timing.link_hold_ns[topology.channel_link, 0], timing.link_hold_ns[second, 0])
    extra_ns = np.where(down == NO_LINK, 0.0, topology.link_latency_ns[down])
    latency_ns = topology.link_latency_ns[topology.channel_link] + extra_ns
    hops = whole.num_phases * _hops(topology)
    slowest = hop_ns >= hop_ns.max()
    alpha_ns = float(latency_ns[slowest].max())
    wanted_ns = wanted_chunk_ns(link_model, busy_ns, alpha_ns, hops, alpha_ns / 2)
    most = min(float(hop_ns.max()) / max(wanted_ns, 1.0), max_sends / whole.least_sends, MAX_CHUNKS / whole.num_chunks)
    options = (_ROUND[:, None] << np.arange(24)).ravel()
    for chunks in sorted(set(options[options <= max(most, 1)].tolist()), reverse=True):
        try:
            compute_timing(topology, COLLECTIVES[name](topology.num_npus, size_bytes, chunks), link_model)
        except (ConfigError, SynthesisError):
            continue
        return int(chunks)
    return 1


def wanted_chunk_ns(link_model: LinkModel, busy_ns: float, alpha_ns: float, hops: int, short_ns: float) -> float:
    """The transmission time of a chunk with which a collective along trees is about fastest.

    A chunk of transmission time t takes h hops of t + alpha to get everywhere, while the busiest links work for W. Where links
    are held for alpha with every chunk, W grows by alpha / t, and W alpha / t + h t is smallest at t = sqrt(W alpha / h). Where
    they are not, t is small enough when h t is a hundredth of W, or when t is short beside alpha.

    Parameters
    ----------
    link_model
        How long a chunk holds a link.
    busy_ns
        W.
    alpha_ns
        Latency of a hop.
    hops
        h, from the root to the last NPU.
    short_ns
        What is short beside alpha.
    """
    if link_model == "blocking":
        return float(np.sqrt(busy_ns * alpha_ns / hops))
    return max(_HANDING_ON * busy_ns / hops, short_ns)


def _hops(topology: Topology) -> int:
    """Channels from one NPU to the NPU farthest from it, the most over a few NPUs."""
    from scipy.sparse.csgraph import shortest_path

    graph = topology.channel_graph(np.ones(topology.num_channels))
    some = np.unique(np.linspace(0, topology.num_npus - 1, 16).astype(np.int64))
    return int(shortest_path(graph, unweighted=True, indices=some).max())
