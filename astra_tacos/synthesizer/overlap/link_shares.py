"""Division of every link's time between the two overlapping phases of an All-Reduce, and how much each NPU reduces.

In an All-Reduce of C chunks in time T, every set A of one NPU or of two neighbours must send a partial sum of each chunk that is
reduced elsewhere, and must receive a copy of it. With r(e) the share of link e's time that partial sums get, R(v) the chunks
reduced at v, and t(e) the time of a send:

    sum over links e out of A of r(e) T / t(e) >= C - R(A)      and     sum over links e into A of (1 - r(e)) T / t(e) >= C - R(A)

What is reduced at v must also come in, and go out again: the links into v carry at least R(v) partial sums, those out of v at
least R(v) copies. The smallest T is a linear programme. Of the solutions that are at most 1% slower, the one is taken whose
shares differ least from one half and whose R are most equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.grouping import distinct

_SLACK = 0.01


@dataclass(frozen=True, slots=True)
class LinkShares:
    """A division of the time of links between two phases.

    Parameters
    ----------
    reducing
        float64[num_links], 0 to 1: the share of a link's time that is for partial sums.
    root
        float64[num_npus], the share of chunks that are reduced at each NPU; adds up to 1.
    """

    reducing: NDArray[np.float64]
    root: NDArray[np.float64]


def link_shares(topology: Topology, timing: Timing) -> LinkShares | None:
    """Solve the linear programme for a network without switches; None if the solver gives up."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, coo_array, eye_array

    num_npus, num_links = topology.num_npus, topology.num_links
    period = np.empty(num_links)
    period[topology.channel_link] = timing.channel_delay_ns[:, 0]
    if not timing.is_blocking:
        period = timing.link_hold_ns[:, 0].astype(np.float64)
    rate = period.min() / period
    member, out, into = _node_sets(topology, rate)
    nodes = num_npus
    num_sets = member.shape[0]
    alone_out, alone_into = out[:nodes], into[:nodes]

    # Unknowns: r, R, and R's total, which is C over T in units of the fastest link.
    every = np.ones((num_sets, 1))
    same = eye_array(num_npus)
    needs = [[-out, -member, every], [into, -member, every], [-alone_into, same, None], [alone_out, same, None]]
    limits = np.concatenate((np.zeros(num_sets), into.sum(axis=1), np.zeros(nodes), alone_out.sum(axis=1)))
    total = block_array([[coo_array((1, num_links)), np.ones((1, num_npus)), -np.ones((1, 1))]], format="csr")
    objective = np.zeros(num_links + num_npus + 1)
    objective[-1] = -1
    bounds: list[Any] = [(0, 1)] * num_links + [(0, None)] * (num_npus + 1)
    best = linprog(objective, block_array(needs, format="csr"), limits, total, [0], bounds, method="highs")
    if best.x is None:
        return None

    # Unknowns: r, R, and how far r is from 1/2 and R from its mean.
    rate_of_all = best.x[-1] * (1 - _SLACK)
    limits[:num_sets] -= rate_of_all
    limits[num_sets : 2 * num_sets] -= rate_of_all
    half, mean = np.full(num_links, 0.5), np.full(num_npus, rate_of_all / num_npus)
    links = eye_array(num_links)
    needs = [[-out, -member, None, None], [into, -member, None, None], [-alone_into, same, None, None]]
    needs += [[alone_out, same, None, None], [links, None, -links, None], [-links, None, -links, None]]
    needs += [[None, same, None, -same], [None, -same, None, -same]]
    limits = np.concatenate((limits, half, -half, mean, -mean))
    width = num_links + num_npus
    total = block_array([[coo_array((1, num_links)), np.ones((1, num_npus)), coo_array((1, width))]], format="csr")
    objective = np.concatenate((np.zeros(width), np.ones(width)))
    bounds = [(0, 1)] * num_links + [(0, None)] * (num_npus + width)
    even = linprog(objective, block_array(needs, format="csr"), limits, total, [rate_of_all], bounds, method="highs")
    if even.x is None:
        return None
    root = np.maximum(even.x[num_links:width], 0)
    return LinkShares(np.clip(even.x[:num_links], 0, 1), root / root.sum())


def _node_sets(topology: Topology, rate: NDArray[np.float64]) -> tuple[Any, Any, Any]:
    """All sets of one NPU or two neighbours: their members, and the rates of the links out of and into each (sparse, by link)."""
    from scipy.sparse import coo_array, csr_array

    num_npus, num_links = topology.num_npus, topology.num_links
    src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    pairs = distinct(np.minimum(src, dst) * num_npus + np.maximum(src, dst))
    ends = np.concatenate((pairs // num_npus, pairs % num_npus))
    first_pair = np.tile(np.arange(num_npus, num_npus + len(pairs)), 2)
    npus, links = np.arange(num_npus), np.arange(num_links)
    sets = np.concatenate((npus, first_pair))
    shape = (num_npus + len(pairs), num_npus)
    member = csr_array(coo_array((np.ones(len(sets)), (sets, np.concatenate((npus, ends)))), shape=shape))
    leaves = member @ csr_array(coo_array((np.ones(num_links), (src, links)), shape=(num_npus, num_links)))
    enters = member @ csr_array(coo_array((np.ones(num_links), (dst, links)), shape=(num_npus, num_links)))
    inside = leaves.multiply(enters)
    scale = csr_array(coo_array((rate, (links, links)), shape=(num_links, num_links)))
    return member, csr_array((leaves - inside) @ scale), csr_array((enters - inside) @ scale)
