"""The linear programme of a maximum concurrent flow, and the prices of links (lengths) in its dual solution.

One commodity is all that one NPU sends (or, where fewer NPUs receive than send, all that one receives): its flow on each link is
an unknown. Switches pass on, NPUs too. The load of the fullest link, over its bandwidth, is minimised. The dual variable of a
link's load says how much time a longer way over it costs.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.grouping import is_transitive, translation_classes
from astra_tacos.network.topology import Topology

MOST_UNKNOWNS = 60_000
"""HiGHS takes about 5 s for so many: random graphs of 128 NPUs with four links each, meshes of 11 x 11."""


def best_lengths(topology: Topology, wanted: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """float64[num_links], the prices for what each NPU has for each; None if there are too many unknowns, or no solution.

    Parameters
    ----------
    topology
        The network.
    wanted
        float64[num_npus, num_npus], how much an NPU has for another.
    """
    return _best_lengths(topology, np.ascontiguousarray(wanted, np.float64).tobytes())


@lru_cache(maxsize=16)
def _best_lengths(topology: Topology, amounts: bytes) -> NDArray[np.float64] | None:
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
    bandwidth: NDArray[np.float64],
    source: NDArray[np.integer],
    demand: NDArray[np.float64],
) -> NDArray[np.float64] | None:
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
