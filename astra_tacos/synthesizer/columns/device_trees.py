"""Trees that branch at reducing devices and at servers: sums up one, results down another, for prices of links.

Cheap trees that may branch at reducing devices: Steiner arborescences, by adding the nearest terminal again and again.

Takahashi and Matsuyama, "An approximate solution for the Steiner problem in graphs" (1980): in undirected graphs a tree costs
less than twice the cheapest. A linear programme that weighs many of them makes up for single ones that are not the cheapest.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.graph import Graph
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.columns.routes import Column, RouteFinder, Routes, Trip, column_of


class NearestPaths:
    """Cheapest paths between holders over other holders.

    Parameters
    ----------
    cost
        float64[n, n], of the edge from each holder to each other, without holders between them; infinite where there is none.
    """

    def __init__(self, cost: Floats) -> None:
        src, dst = np.nonzero(np.isfinite(cost))
        self.cost, self._before = Graph.of(len(cost), src, dst, cost[src, dst]).ways()

    def path(self, src: int, dst: int) -> list[int]:
        """The holders from `src` to `dst`, both included."""
        nodes = [dst]
        while nodes[-1] != src:
            nodes.append(int(self._before[src, nodes[-1]]))
        return nodes[::-1]


def steiner_tree(paths: NearestPaths, root: int, terminals: Ints) -> dict[int, int] | None:
    """The parent of every holder but the root in a tree out of it that reaches all terminals, each after its parent.

    None if a terminal cannot be reached.

    Parameters
    ----------
    terminals
        int64[m], holders that the tree has to reach.
    """
    waiting = np.zeros(len(paths.cost), np.bool_)
    waiting[terminals] = True
    waiting[root] = False
    nearest, origin = paths.cost[root].copy(), np.full(len(waiting), root)
    parent: dict[int, int] = {}
    while waiting.any():
        candidates = np.flatnonzero(waiting)
        target = int(candidates[nearest[candidates].argmin()])
        if not np.isfinite(nearest[target]):
            return None
        path = paths.path(int(origin[target]), target)
        known = max(at for at, holder in enumerate(path) if holder == root or holder in parent)
        for above, holder in zip(path[known:], path[known + 1 :], strict=False):
            parent[holder] = above
            waiting[holder] = False
            closer = paths.cost[holder] < nearest
            nearest = np.where(closer, paths.cost[holder], nearest)
            origin = np.where(closer, holder, origin)
    return parent


class DeviceTrees:
    """Trees of members of a collective, of reducing devices, and of servers: NPUs that are no members.

    A window of a device limits the rate of each sender into it: it has as many bytes under way as whole chunks fit, from the
    start of their trip until the result is back. So every pair of a sender and such a device counts as a link, after all links,
    of which a byte takes the time of the round trip over the bytes under way.

    Parameters
    ----------
    with_devices
        Whether devices add, or only servers.
    """

    def __init__(self, topology: Topology, collective: Collective, *, with_devices: bool) -> None:
        self._topology = topology
        self._chunk_bytes = int(collective.class_size_bytes[-1])
        gives_back = collective.num_phases == 2
        limits = {device.device: device for device in topology.reducing}
        self._holders = np.flatnonzero(topology.holds) if with_devices else np.arange(topology.num_endpoints)
        self._place = np.full(topology.num_npus, -1)
        self._place[self._holders] = np.arange(len(self._holders))
        self._members = self._place[collective.member_npus]
        self._passes = self._holders >= topology.num_endpoints
        self._is_extra = ~np.isin(self._holders, collective.member_npus)
        limits_here = [limits[holder] for holder in self._holders.tolist() if holder in limits]
        self._ports = {int(self._place[limit.device]): limit.ports for limit in limits_here if limit.ports is not None}
        # Where no result comes back, nothing tells a sender that it may go on.
        windows = {int(self._place[limit.device]): limit.window_bytes for limit in limits_here if limit.window_bytes is not None}
        self._may_add = np.ones(len(self._holders), np.bool_)
        self._under_way: dict[int, int] = {}
        for place, window in windows.items():
            self._under_way[place] = window // self._chunk_bytes * self._chunk_bytes
            self._may_add[place] = gives_back and self._under_way[place] > 0
        self._window = {
            (sender, place): topology.num_links + number
            for number, (place, sender) in enumerate((d, s) for d in windows for s in range(len(self._holders)) if s != d)
        }
        self.num_windows = len(self._window)
        self.roots = tuple(self._holders[self._is_extra & self._may_add].tolist())
        self._finder = RouteFinder(topology, ends=self._holders)
        self._delay = topology.link_latency_ns + self._chunk_bytes / bytes_per_ns(topology.link_bandwidth_gibps)

    def columns(self, price: Floats, number: int, roots: tuple[int, ...], phases: tuple[bool, ...]) -> list[Column | None]:
        """A cheap column for each root, None where there is none.

        Parameters
        ----------
        price
            float64[num_links + num_windows].
        """
        routes = self._finder.find(price[: self._topology.num_links])
        up = routes.cost.copy()
        for (sender, device), window in self._window.items():
            if self._under_way[device]:
                is_reached = np.isfinite(routes.cost[sender, device])
                least_ns = float(self._delay[routes.links(sender, device)].sum()) if is_reached else 0.0
                up[sender, device] += price[window] * 2 * least_ns / self._under_way[device]
        full = np.flatnonzero(~self._may_add)
        up[full], up[:, full] = np.inf, np.inf
        paths = {adds: NearestPaths(up.T if adds else routes.cost) for adds in set(phases)}
        return [self._column(routes, up, paths, number, int(self._place[root]), phases) for root in roots]

    def _column(
        self,
        routes: Routes,
        up: Floats,
        paths: dict[bool, NearestPaths],
        number: int,
        root: int,
        phases: tuple[bool, ...],
    ) -> Column | None:
        above: dict[int, int] = {}
        trips: list[Trip] = []
        terminals = self._members
        if True in phases:
            tree = self._in_tree(up, paths[True], root)
            if tree is None:
                return None
            above = tree
            senders = [sender for sender, device in above.items() if (sender, device) in self._window]
            terminals = np.union1d(self._members, np.array(senders, np.int64))
            trips += self._trips(routes, above, root, adds=True, kept=senders)
        if False in phases:
            below = steiner_tree(paths[False], root, terminals)
            if below is None:
                return None
            trips += self._trips(routes, below, root, adds=False, kept=terminals.tolist())
        return column_of(number, trips, self._times(trips, root))

    def _in_tree(self, up: Floats, paths: NearestPaths, root: int) -> dict[int, int] | None:
        """Whom each holder sends to; devices that would need more ports than they have are left out."""
        while True:
            tree = steiner_tree(paths, root, self._members)
            if tree is None:
                return None
            count = np.bincount(list(tree.values()), minlength=len(up))
            full = [place for place, ports in self._ports.items() if count[place] > ports]
            if not full:
                return tree
            if root in full:
                return None
            up = up.copy()
            up[full], up[:, full] = np.inf, np.inf
            paths = NearestPaths(up.T)

    def _trips(self, routes: Routes, above: dict[int, int], root: int, *, adds: bool, kept: list[int]) -> list[Trip]:
        """Trips along a tree, each after those it waits for; devices with one child are only passed, unless they are kept."""
        children: dict[int, list[int]] = {}
        for holder, parent in above.items():
            children.setdefault(parent, []).append(holder)
        links = {
            holder: tuple(routes.links(holder, parent) if adds else routes.links(parent, holder))
            for holder, parent in above.items()
        }
        stays = set(kept)
        parent_of = dict(above)
        for holder in above:
            children_here = children.get(holder, [])
            if not self._passes[holder] or len(children_here) != 1 or holder in stays:
                continue
            joined = (links[children_here[0]] + links[holder]) if adds else (links[holder] + links[children_here[0]])
            stops = [int(self._topology.link_src[joined[0]]), *self._topology.link_dst[list(joined)].tolist()]
            if len(set(stops)) < len(stops):  # it would visit one twice
                continue
            parent, child = parent_of.pop(holder), children_here[0]
            links[child], parent_of[child] = joined, parent
            children[parent][children[parent].index(holder)] = child
        order = [root]
        for holder in order:
            order += [child for child in children.get(holder, ()) if parent_of.get(child) == holder]
        return [Trip(links[holder], adds) for holder in (order[:0:-1] if adds else order[1:])]

    def _times(self, trips: list[Trip], root: int) -> dict[int, float]:
        """Of each window in use, the time that a byte takes of it."""
        if not self._window:
            return {}
        src, dst = self._topology.link_src, self._topology.link_dst
        ends = [
            (
                int(self._place[src[trip.links[0]]]),
                int(self._place[dst[trip.links[-1]]]),
                float(self._delay[list(trip.links)].sum()),
            )
            for trip in trips
        ]
        rise, fall = {root: 0.0}, {root: 0.0}
        for (sender, to, takes), trip in reversed(list(zip(ends, trips, strict=True))):
            if trip.adds:
                rise[sender] = rise[to] + takes + 1.0
        for (origin, to, takes), trip in zip(ends, trips, strict=True):
            if not trip.adds:
                fall[to] = fall[origin] + takes
        return {
            self._window[sender, to]: (rise[sender] + fall[sender]) / self._under_way[to]
            for (sender, to, _), trip in zip(ends, trips, strict=True)
            if trip.adds and (sender, to) in self._window
        }
