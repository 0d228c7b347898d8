"""Routes with the fewest links between NPUs over devices that forward: fixed ones, as networks with static routing have.

A route passes as few NPUs as possible, and of such routes it has the fewest links. Where several links lead on equally well, the
destination's number decides, digit by digit, so that the flows to different NPUs are spread over all of them: destination-modulo
routing, as InfiniBand's subnet managers route fat trees (Zahavi, "D-Mod-K routing providing non-blocking traffic for shift
permutations on real life fat trees", 2010).

Numbers of links between NPUs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.support.grouping import group_by, members_of


def hops_between_npus(topology: Topology) -> int:
    """The most links on a path with the fewest links from one NPU to another; paths pass switches and NPUs."""
    from scipy.sparse.csgraph import dijkstra

    graph = topology.link_graph(np.ones(topology.num_links))
    npus = topology.num_endpoints
    return int(max(dijkstra(graph, indices=npu, unweighted=True)[:npus].max() for npu in range(npus)))


_RELAY = float(1 << 24)
"""What leaving an NPU counts, in links."""
_ENTRIES_AT_A_TIME = 1 << 24
_WIDEST = 1 << 40


class DeviceRoutes:
    """Finds routes on one topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        leaves_npu = topology.link_src < topology.num_endpoints
        self._length = np.where(leaves_npu, _RELAY + 1.0, 1.0)
        self._first, self._out = group_by(topology.link_src, np.arange(topology.num_links), topology.num_devices)

    def relays(self) -> NDArray[np.int64]:
        """int64[num_endpoints, num_endpoints], how many NPUs a route passes between each NPU and each other; 0 to itself."""
        npus = self._topology.num_endpoints
        return np.maximum(self._distance(np.arange(npus))[:, :npus].T // _RELAY - 1, 0).astype(np.int64)

    def find(
        self, src: NDArray[np.integer], dst: NDArray[np.integer], choice: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The links of the routes of some pairs of NPUs.

        Parameters
        ----------
        src, dst
            The ends of each pair.
        choice
            Numbers of 0 or more by which one of several equally good routes is chosen; by default the destinations.

        Returns
        -------
        first, link
            int64[len(src) + 1] and int64[...]: the route of pair p is `link[first[p]:first[p + 1]]`, in order.
        """
        here, there = src.astype(np.int64), dst.astype(np.int64)
        wanted = there if choice is None else choice.astype(np.int64)
        targets, which = np.unique(there, return_inverse=True)
        at_a_time = max(1, _ENTRIES_AT_A_TIME // self._topology.num_devices)
        owners, links = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for begin in range(0, len(targets), at_a_time):
            own = np.flatnonzero((which >= begin) & (which < begin + at_a_time))
            distance = self._distance(targets[begin : begin + at_a_time])
            for owner, link in self._walk(here[own], there[own], wanted[own], distance, which[own] - begin):
                owners.append(own[owner])
                links.append(link)
        owner, link = np.concatenate(owners), np.concatenate(links)
        order = np.argsort(owner, kind="stable")  # links of a route were found in order
        count = np.bincount(owner, minlength=len(src))
        return np.concatenate(([0], np.cumsum(count))).astype(np.int64), link[order]

    def _distance(self, targets: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64[len(targets), num_devices], from each device to each target."""
        from scipy.sparse.csgraph import dijkstra

        distance: NDArray[np.float64] = dijkstra(self._topology.link_graph(self._length).T.tocsr(), indices=targets)
        return distance

    def _walk(
        self,
        src: NDArray[np.int64],
        dst: NDArray[np.int64],
        choice: NDArray[np.int64],
        distance: NDArray[np.float64],
        row: NDArray[np.int64],
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Step by step, the pairs that are on their way, and the link that each takes."""
        steps = []
        pair, at, span = np.flatnonzero(src != dst), src.copy(), np.ones(len(src), np.int64)
        while len(pair):
            begin, place = members_of(self._first, at[pair])
            link = self._out[place]
            of = np.repeat(np.arange(len(pair)), np.diff(begin))
            head = self._topology.link_dst[link]
            here = row[pair][of]
            is_good = distance[here, head] + self._length[link] == distance[here, at[pair][of]]
            good, of = link[is_good], of[is_good]
            count = np.bincount(of, minlength=len(pair))
            taken = good[np.cumsum(count) - count + (choice[pair] // span[pair]) % count]
            steps.append((pair, taken))
            span[pair] = np.minimum(span[pair] * count, _WIDEST)
            at[pair] = self._topology.link_dst[taken]
            pair = pair[at[pair] != dst[pair]]
        return steps
