"""Bounds in whole chunks from the bandwidth of links: into one NPU, out of one NPU, and over the whole network.

An All-Gather brings all chunks of other NPUs into every NPU. A Reduce-Scatter, its mirror image, takes as many partial sums out
of every NPU. An All-Reduce brings at least one message per chunk into every NPU and takes one out of it. Spreading one chunk to
all NPUs, or summing it up, costs N-1 messages; doing both costs 2(N-1) (gossiping with one-way calls, see `partition`). A
personalised chunk costs one message out of its owner and one into its target.

Over the whole network, a personalised chunk crosses at least as many links as its shortest path has. For any set of links, take
the least number of them on a path from a chunk's owner to its target. Summed over chunks, that is the number of sends that the
set has to carry. The sets tried are all links, the links of each dimension, and the links of each speed. (Each set is a feasible
solution of the dual of the maximum concurrent flow problem; on tori the set of all links is the optimum.)
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from astra_tacos.bounds.amounts import chunks_of
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.delivery import deliveries, last_step_ns, smallest_time
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Ints

_MOST_SETS = 8
"""Dimensions, or bandwidths, whose links are tried as sets."""
_MOST_SOURCES = 1024
"""NPUs from which crossings are counted; those of others count for nothing, which only lowers the bound."""


def _way_volume(problem: Problem) -> Bound:
    """Time that all links together, or all links of one kind, need for all chunks of a personalised collective."""
    topology, collective = problem.topology, problem.collective
    bounds = []
    for where, links in link_sets(topology):
        messages = _crossings(topology, collective, links)
        time = smallest_time(problem, links, messages)
        bounds.append(Bound("volume", time, where, (), () if len(links) == topology.num_links else tuple(links.tolist())))
    return max(bounds, key=lambda bound: bound.time_ns)


def fewest_crossings(topology: Topology, collective: Collective) -> int:
    """Number of links that all chunks of a personalised collective cross together, if each takes a shortest path."""
    return _crossings(topology, collective, np.arange(topology.num_links))


def link_sets(topology: Topology) -> list[tuple[str, Ints]]:
    """The sets that are tried: what they are, in words, and their links."""
    sets = [("all links together", np.arange(topology.num_links))]
    kinds = (("dimension", topology.link_dimension), ("speed", topology.link_bandwidth_gibps))
    for kind_name, kind in kinds:
        values = np.unique(kind)
        if 1 < len(values) <= _MOST_SETS:
            names = [
                f"all links of {value:g} GiB/s" if kind_name == "speed" else f"all links of dimension {value}" for value in values
            ]
            sets += [(name, np.flatnonzero(kind == value)) for name, value in zip(names, values.tolist(), strict=True)]
    return sets


def _crossings(topology: Topology, collective: Collective, links: Ints) -> int:
    """Number of times that all chunks together must cross links of a set."""
    chunks = chunks_of(collective).pairs
    sources = np.flatnonzero(chunks.any(axis=1))[:_MOST_SOURCES]
    return int((chunks[sources] * _fewest(topology, sources.tobytes(), links.tobytes())).sum())


@lru_cache(maxsize=32)
def _fewest(topology: Topology, sources: bytes, links: bytes) -> Ints:
    """int64[len(sources), num_npus], the least number of links of the set on a path from each source to each NPU."""
    length = np.zeros(topology.num_links)
    length[np.frombuffer(links, np.int64)] = 1.0
    distance = topology.link_graph(length).distances(np.frombuffer(sources, np.int64))[:, : topology.num_npus]
    return np.where(np.isfinite(distance), distance, 0.0).astype(np.int64)  # nothing goes to devices that no way leads to


def ingress(problem: Problem) -> Bound:
    """Time that the links into the worst NPU need for the messages that it must receive."""
    return _worst_npu(problem, inward=True)


def egress(problem: Problem) -> Bound:
    """Time that the links out of the worst NPU need for the messages that it must send."""
    return _worst_npu(problem, inward=False)


def volume(problem: Problem) -> Bound:
    """Time that all links together need for all messages; a message through a switch uses one link into it and one out of it.

    For personalised chunks, see `_way_volume`.
    """
    topology, collective = problem.topology, problem.collective
    if collective.is_personalised:
        return _way_volume(problem)
    messages = collective.least_sends
    ends = (topology.link_src, topology.link_dst) if topology.has_switches else (topology.link_src,)
    ports = [np.flatnonzero(device < topology.num_npus) for device in ends]
    time = max(smallest_time(problem, links, messages) for links in ports)
    return Bound("volume", time, "all links together")


def _worst_npu(problem: Problem, *, inward: bool) -> Bound:
    topology, collective, timing = problem
    name, way = ("ingress", "into") if inward else ("egress", "out of")
    ends = topology.link_dst if inward else topology.link_src
    at_npus = np.flatnonzero(ends < topology.num_npus)
    messages = chunks_of(collective).at_npus(inward=inward).astype(np.int64)
    times = deliveries(problem).smallest_times(at_npus, ends[at_npus], messages)
    worst = int(times.argmax())
    time = int(times[worst]) + last_step_ns(collective, timing)
    return Bound(name, time, f"links {way} NPU {worst}", (worst,), tuple(np.flatnonzero(ends == worst).tolist()))
