"""Personalised collectives: the least time in which a flow of all data along any routes, in any split, fits the links.

In the fluid limit this maximum concurrent flow is the optimum of an All-to-All, a Gather or a Scatter, groups and relays included
(Shahrokhi, Matula, "The maximum concurrent flow problem", Journal of the ACM, 1990). Data cannot be merged, so every algorithm
is such a flow.

The linear programme only proposes *lengths* of links (its dual solution). The bound is proven from these: if a byte from i to j
crosses links of a total length of at least dist(i, j), then all links together have to carry

    sum over links of length x bytes on it  >=  sum over pairs of bytes(i, j) x dist(i, j),

whatever the lengths are. So neither the solver's tolerance nor lengths that are not the best make it wrong.

In the programme, one commodity is all that one NPU sends (or, where fewer NPUs receive than send, all that one receives): its
flow on each link is an unknown. Switches pass on, NPUs too. The load of the fullest link, over its bandwidth, is minimised. The
dual variable of a link's load says how much time a longer way over it costs.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.amounts import bytes_of
from astra_tacos.bounds.any_algorithm.carrying import first_arrival_ns, rate_bytes_per_ns, smallest_time_ns, whole_ns
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.partition import is_transitive, translation_classes
from astra_tacos.bounds.port import link_sets
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Floats

MOST_UNKNOWNS = 60_000
"""HiGHS takes about 5 s for so many: random graphs of 128 NPUs with four links each, meshes of 11 x 11."""
_MOST_STEPS = 50_000_000
"""Sources times links, for each set of lengths; the data of other sources does not count."""
_LEAST_LENGTH = 1e-9
"""Of the longest: shortest paths in a sparse graph need lengths above 0."""


def best_lengths(topology: Topology, wanted: Floats) -> Floats | None:
    """float64[num_links], the prices for what each NPU has for each; None if there are too many unknowns, or no solution.

    Parameters
    ----------
    wanted
        float64[num_npus, num_npus], how much an NPU has for another.
    """
    return _best_lengths(topology, np.ascontiguousarray(wanted, np.float64).tobytes())


@lru_cache(maxsize=16)
def _best_lengths(topology: Topology, amounts: bytes) -> Floats | None:
    num_npus = topology.num_npus
    wanted = np.frombuffer(amounts, np.float64).reshape(num_npus, num_npus)
    src, dst, load = topology.link_src, topology.link_dst, np.arange(topology.num_links)
    is_equal = wanted.sum() == num_npus * (num_npus - 1) and wanted.max() == 1.0
    if is_equal and is_transitive(topology):
        # All NPUs send alike, and NPU 0's flow on all links of a class is that of all NPUs on each of them.
        source, load = np.array([0]), translation_classes(topology)
    else:
        if np.count_nonzero(wanted.any(axis=0)) < np.count_nonzero(wanted.any(axis=1)):
            wanted, src, dst = wanted.T, dst, src
        source = np.flatnonzero(wanted.any(axis=1))
    if len(source) * topology.num_links > MOST_UNKNOWNS:
        return None
    demand = np.zeros((len(source), topology.num_devices))
    demand[:, :num_npus] = wanted[source]
    price = _solve(src, dst, load, topology.link_bandwidth_gibps, source, demand)
    return None if price is None or not price.max() > 0 else price[load]


def _solve(
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    load: NDArray[np.integer],
    bandwidth: Floats,
    source: NDArray[np.integer],
    demand: Floats,
) -> Floats | None:
    """The prices of loads, float64[num_loads].

    Parameters
    ----------
    src, dst
        int[num_links], ends of each link.
    load
        int[num_links], the load that its flow is part of.
    bandwidth
        float64[num_links], equal for all links of a load.
    source
        int[num_commodities], where each commodity begins.
    demand
        float64[num_commodities, num_devices], what it has to bring to each device.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array, csr_array, eye_array, kron

    count, links = len(source), np.arange(len(src))
    devices, loads = demand.shape[1], int(load.max()) + 1
    ends, sign = np.concatenate((dst, src)), np.repeat((1.0, -1.0), len(src))
    arrives = coo_array((sign, (ends, np.tile(links, 2))), shape=(devices, len(src)))
    # What leaves a source follows from the rest.
    rest = np.flatnonzero((np.arange(devices) != source[:, None]).ravel())
    balance = csr_array(kron(eye_array(count), arrives, format="csr"))[rest]
    capacity = np.zeros(loads)
    capacity[load] = bandwidth / bandwidth.max()
    loaded = coo_array((np.ones(len(src)), (load, links)), shape=(loads, len(src)))
    carried = kron(np.ones((1, count)), loaded, format="csr")
    unknowns = count * len(src) + 1
    objective = np.zeros(unknowns)
    objective[-1] = 1.0
    best = linprog(
        objective,
        block_array([[carried, -capacity[:, None]]], format="csr"),
        np.zeros(loads),
        block_array([[balance, coo_array((len(rest), 1))]], format="csr"),
        demand.ravel()[rest] / demand.sum() * count,
        (0, None),
        method="highs-ipm",  # random graphs of 64 NPUs: 0.8 s, and 7 s by the simplex method
    )
    return None if best.x is None else np.maximum(-best.ineqlin.marginals, 0.0)


def flow(problem: Problem) -> Bound:
    """The best of several lengths: those of the linear programme if it is small enough; all equal; 1 for links of a kind."""
    topology, collective = problem.topology, problem.collective
    if not collective.is_personalised:
        return Bound("flow", 0, "others may need the same data")
    amount = bytes_of(collective).pairs
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


def _lengths(topology: Topology, wanted: Floats) -> list[tuple[str, Floats]]:
    """What they are, in words, and float64[num_links]."""
    kinds = [(where, np.isin(np.arange(topology.num_links), links).astype(np.float64)) for where, links in link_sets(topology)]
    best = best_lengths(topology, wanted)
    return kinds if best is None else [*kinds, ("maximum concurrent flow", best)]


def _priced(topology: Topology, amount: Floats, length: Floats, *, is_equal: bool) -> float:
    """Sum over pairs of bytes times the length of the shortest path, or a part of the sum where there are too many pairs.

    Where all NPUs have equal parts (`is_equal`) and are alike, so are the lengths that they see.
    """
    graph = topology.link_graph(length)
    num_npus = topology.num_npus
    least = amount[~np.eye(num_npus, dtype=np.bool_)].min()
    if is_equal and least > 0 and is_transitive(topology):  # the lengths are the same from everywhere
        return float(num_npus * least * graph.from_nearest([0])[:num_npus].sum())
    if np.count_nonzero(amount.any(axis=0)) < np.count_nonzero(amount.any(axis=1)):
        amount, graph = amount.T, graph.turned
    sources = np.flatnonzero(amount.any(axis=1))[: max(1, _MOST_STEPS // topology.num_links)]
    distance = graph.distances(sources)[:, :num_npus]
    wanted = amount[sources]
    return float((wanted * np.where(wanted > 0, distance, 0.0)).sum())  # no way may lead to devices that want nothing
