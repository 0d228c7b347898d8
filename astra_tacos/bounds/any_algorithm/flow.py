"""Personalised collectives: the least time in which a flow of all data along any routes, in any split, fits the links.

In the fluid limit this maximum concurrent flow is the optimum of an All-to-All, a Gather or a Scatter, groups and relays included
(Shahrokhi, Matula, "The maximum concurrent flow problem", Journal of the ACM, 1990). Data cannot be merged, so every algorithm
is such a flow.

The linear programme only proposes *lengths* of links (its dual solution). The bound is proven from these: if a byte from i to j
crosses links of a total length of at least dist(i, j), then all links together have to carry

    sum over links of length x bytes on it  >=  sum over pairs of bytes(i, j) x dist(i, j),

whatever the lengths are. So neither the solver's tolerance nor lengths that are not the best make it wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.any_algorithm.amounts import pair_bytes
from astra_tacos.bounds.any_algorithm.carrying import first_arrival_ns, rate_bytes_per_ns, smallest_time_ns, whole_ns
from astra_tacos.bounds.any_algorithm.flow_programme import best_lengths
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.grouping import is_transitive
from astra_tacos.bounds.way_volume import link_sets
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing

_MOST_SOURCES = 1024
_MOST_STEPS = 50_000_000
"""Sources times links, for each set of lengths; the data of other sources does not count."""
_LEAST_LENGTH = 1e-9
"""Of the longest: shortest paths in a sparse graph need lengths above 0."""


def flow(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """The best of several lengths: those of the linear programme if it is small enough; all equal; 1 for links of a kind."""
    if not collective.is_personalised:
        return Bound("flow", 0, "others may need the same data")
    amount = pair_bytes(collective)
    bounds = []
    # Parts of equal sizes may differ by a byte, which does not matter.
    wanted = (amount > 0).astype(np.float64) if collective.part_bytes is None else amount / amount.max()
    for where, length in _lengths(topology, wanted):
        length = np.maximum(length, _LEAST_LENGTH * length.max())
        links = np.flatnonzero(length > 2 * _LEAST_LENGTH * length.max())
        arrival = first_arrival_ns(topology)
        rate = rate_bytes_per_ns(topology, np.arange(topology.num_links)) * length
        time = whole_ns(
            smallest_time_ns(rate, arrival, _priced(topology, amount, length, is_equal=collective.part_bytes is None))
        )
        bounds.append(Bound("flow", time, where, (), () if len(links) == topology.num_links else tuple(links.tolist())))
    return max(bounds, key=lambda bound: bound.time_ns)


def _lengths(topology: Topology, wanted: NDArray[np.float64]) -> list[tuple[str, NDArray[np.float64]]]:
    """What they are, in words, and float64[num_links]."""
    kinds = [(where, np.isin(np.arange(topology.num_links), links).astype(np.float64)) for where, links in link_sets(topology)]
    best = best_lengths(topology, wanted)
    return kinds if best is None else [*kinds, ("maximum concurrent flow", best)]


def _priced(topology: Topology, amount: NDArray[np.float64], length: NDArray[np.float64], *, is_equal: bool) -> float:
    """Sum over pairs of bytes times the length of the shortest path, or a part of the sum where there are too many pairs.

    Where all NPUs have equal parts (`is_equal`) and are alike, so are the lengths that they see.
    """
    from scipy.sparse.csgraph import dijkstra

    graph = topology.link_graph(length)
    num_npus = topology.num_npus
    least = amount[~np.eye(num_npus, dtype=np.bool_)].min()
    if is_equal and least > 0 and is_transitive(topology):  # the lengths are the same from everywhere
        return float(num_npus * least * dijkstra(graph, indices=0)[:num_npus].sum())
    if np.count_nonzero(amount.any(axis=0)) < np.count_nonzero(amount.any(axis=1)):
        amount, graph = amount.T, graph.T
    sources = np.flatnonzero(amount.any(axis=1))[: max(1, min(_MOST_SOURCES, _MOST_STEPS // topology.num_links))]
    distance = dijkstra(graph, indices=sources)[:, :num_npus]
    wanted = amount[sources]
    return float((wanted * np.where(wanted > 0, distance, 0.0)).sum())  # no way may lead to devices that want nothing
