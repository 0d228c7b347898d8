"""Demands: the parts of a collective that each need a tree, a pair of trees, or a set of paths, and the cheapest ones.

The cheapest arborescence of a complete digraph (Chu and Liu 1965; Edmonds, "Optimum branchings", 1967), on a dense matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.rotations import Rotations, find_rotations
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.columns.device_trees import DeviceTrees
from astra_tacos.synthesizer.columns.routes import Column, RouteFinder, Routes, Trip


def cheapest_arborescence(cost: Floats, root: int) -> Ints:
    """int64[n], the parent of each node in a cheapest spanning tree out of `root`, which is its own parent.

    Parameters
    ----------
    cost
        float64[n, n], of the edge from each node to each other; infinite where there is none. The diagonal does not count.
    """
    cost = cost.copy()
    np.fill_diagonal(cost, np.inf)
    return _cheapest(cost, root)


def _cheapest(cost: Floats, root: int) -> Ints:
    """The same of costs with an infinite diagonal, which are overwritten."""
    from astra_tacos.synthesizer.columns._arborescence_kernels import contract, find_groups

    size = len(cost)
    parent, group = np.empty(size, np.int64), np.empty(size, np.int64)
    count = find_groups(cost, root, parent, group)
    if count == size:
        return parent
    between, tail, head = np.empty((count, count)), np.empty((count, count), np.int64), np.empty((size, count), np.int64)
    contract(cost, parent, group, between, tail, head)
    root_group = int(group[root])
    above = _cheapest(between, root_group)
    others = np.flatnonzero(np.arange(count) != root_group)
    source = tail[above[others], others]
    parent[head[source, others]] = source
    return parent


NOISE = 3e-4
"""By so much of their cost at most, routes count as dearer that lead from NPUs far from the root, so that trees are shallow,
and at random, so that trees differ."""


@dataclass(frozen=True, slots=True)
class _Demand:
    """Data that takes the same kind of way.

    `roots`: NPUs that trees may have as root, or the NPU that all paths leave, or lead to. `targets`: of paths.
    """

    roots: tuple[int, ...]
    targets: tuple[int, ...] = ()


class Demands:
    """The demands of a collective on a topology; of those that rotations of the fabric map onto one another, the first.

    All-Gather: a tree out of each NPU for its shard. Reduce-Scatter: a tree into each. All-Reduce: a tree into some NPU and one
    out of it, for everything. Broadcast, Reduce: trees from or to the root. All-to-All, Scatter, Gather: paths out of each NPU to
    all of its targets; a path may pass NPUs.

    Parameters
    ----------
    with_devices
        Whether trees may also branch at reducing devices and servers, and be rooted there, or (False) at servers only; None for
        members only. With others rotations do not count.

    Attributes
    ----------
    group
        The rotations that the collective, too, is the same under.
    rate, row_size
        float64[num_rows] and int64[num_rows]. For each orbit of links: bytes per ns of a link, and the number of its links; then
        for each window, whose loads are times, 1 and 1.
    copies
        How many demands each stands for.
    """

    def __init__(self, topology: Topology, collective: Collective, seed: int, with_devices: bool | None = None) -> None:
        self.topology = topology
        devices = None if with_devices is None else DeviceTrees(topology, collective, with_devices=with_devices)
        self._devices = devices
        self.phases = (True, False) if collective.num_phases == 2 else (collective.only_reduces,)
        self.is_personalised = collective.is_personalised
        is_alike = collective.root is None and collective.num_members == topology.num_endpoints
        turns = bool(topology.forwarding) and devices is None and is_alike
        self.group = find_rotations(topology) if turns else Rotations((), topology.num_links)
        self._orbit, orbit_size = self.group.link_orbits()
        self._finder = RouteFinder(topology, self.group, through_npus=collective.is_personalised)
        self._random = np.random.Generator(np.random.PCG64(seed))
        of_link = bytes_per_ns(topology.link_bandwidth_gibps)
        self._hold = 1.0 / of_link
        num_windows = 0 if devices is None else devices.num_windows
        self.row_size = np.concatenate((orbit_size, np.ones(num_windows, np.int64)))
        self.rate = np.ones(len(self.row_size))
        self.rate[self._orbit] = of_link
        away = RouteFinder(topology, self.group, through_npus=True).find(self._hold).cost
        self._far = away / away.max()
        self._members = collective.member_npus
        first, total = self.group.first_of(collective.member_npus), float(collective.chunk_size_bytes.sum())
        firsts = np.unique(first).tolist()
        owner = self.group.first_of(collective.chunk_owner.astype(np.int64))
        self.copies = 1 if collective.num_phases == 2 else self.group.order
        if collective.chunk_target is not None:
            owners = np.unique(owner).tolist()
            self.demands = [
                _Demand((owner,), tuple(np.unique(collective.chunk_target[collective.chunk_owner == owner]).tolist()))
                for owner in owners
            ]
            pairs = sum(len(demand.targets) for demand in self.demands) * self.copies
            self.share = np.full(len(self.demands), total / pairs)
            self.of_chunk = np.searchsorted(owners, owner)
        elif collective.num_phases == 2:
            self.demands = [_Demand((*firsts, *(devices.roots if devices is not None else ())))]
            self.share = np.array([total])
            self.of_chunk = np.zeros(collective.num_chunks, np.int64)
        else:
            owners, self.of_chunk = np.unique(owner, return_inverse=True)
            self.share = np.bincount(self.of_chunk, collective.chunk_size_bytes).astype(np.float64) / self.copies
            self.demands = [_Demand((owner,)) for owner in owners.tolist()]

    def __len__(self) -> int:
        return len(self.demands)

    @property
    def total(self) -> float:
        """Bytes of all demands, those of paths once for all targets."""
        return float(self.share.sum())

    def routes(self, price: Floats) -> Routes:
        """The cheapest ones for prices, float64[num_rows], of a nanosecond of all links of an orbit, or of a window."""
        return self._finder.find((price / self.row_size)[self._orbit])

    def target_in(self, collective: Collective) -> Ints | None:
        """int64[num_chunks], the target of each chunk as seen from the owner that its demand is of; None if it has none."""
        if collective.chunk_target is None:
            return None
        element = self.group.element_of(collective.chunk_owner.astype(np.int64))
        return self.group.back(element, collective.chunk_target.astype(np.int64))

    def cheapest(self, price: Floats, routes: Routes, number: int, roots: tuple[int, ...] | None = None) -> list[Column]:
        """A column of a demand for each of its roots, or of some, that is the cheapest with that root, but for ties.

        Trees that branch at devices are cheap, but need not be the cheapest.
        """
        demand = self.demands[number]
        if self.is_personalised:
            return [self._column(number, self._paths(routes, demand.roots[0], demand.targets))]
        wanted_roots = demand.roots if roots is None else roots
        members = set(self._members.tolist())
        column_of = {root: self._between_npus(routes, number, root) for root in wanted_roots if root in members}
        if self._devices is not None:
            for root, column in zip(wanted_roots, self._devices.columns(price, number, wanted_roots, self.phases), strict=True):
                if column is not None and (root not in column_of or column.cost(price) < column_of[root].cost(price)):
                    column_of[root] = column
        return list(column_of.values())

    def _between_npus(self, routes: Routes, number: int, root: int) -> Column:
        """The cheapest tree that branches at NPUs only, or the cheapest pair of them."""
        trips: list[Trip] = []
        for adds in self.phases:
            far = self._far.T[root] if adds else self._far[root]
            dearer = 0.5 * far[:, None] + 0.5 * self._random.random(routes.cost.shape)
            cost = (routes.cost.T if adds else routes.cost) * (1 + NOISE * dearer)
            trips += _tree(routes, cost[np.ix_(self._members, self._members)], self._members.tolist(), root, adds=adds)
        return self._column(number, trips)

    def load_of(self, trips: list[Trip]) -> tuple[Ints, Floats]:
        """The orbits of links that trips and their images use, and how often each link of these per byte of a demand."""
        orbits, times = np.unique(self._orbit[[link for trip in trips for link in trip.links]], return_counts=True)
        return orbits.astype(np.int64), times * (self.copies / self.row_size[orbits])

    def _column(self, demand: int, trips: list[Trip]) -> Column:
        return Column(demand, tuple(trips), *self.load_of(trips))

    def depth(self, column: Column) -> float:
        """Time per byte that the last target of a column waits for its data, if links never wait."""
        there: dict[tuple[int, int, bool], float] = {}
        last, complete_at = 0.0, 0.0
        for trip in column.trips:
            src, dst = int(self.topology.link_src[trip.links[0]]), int(self.topology.link_dst[trip.links[-1]])
            at = there.get((src, trip.target, trip.adds), 0.0 if trip.adds else complete_at) + float(
                self._hold[list(trip.links)].sum()
            )
            there[dst, trip.target, trip.adds] = max(there.get((dst, trip.target, trip.adds), 0.0), at)
            last = max(last, at)
            complete_at = last if trip.adds else complete_at
        return last

    def _paths(self, routes: Routes, source: int, targets: tuple[int, ...]) -> list[Trip]:
        trips = []
        head = self.topology.link_dst
        for target in targets:
            links = routes.links(source, target)
            stops = [at + 1 for at, link in enumerate(links) if head[link] < self.topology.num_endpoints]
            trips += [Trip(tuple(links[a:b]), False, target) for a, b in zip([0, *stops[:-1]], stops, strict=True)]
        return trips


def _tree(routes: Routes, cost: Floats, members: list[int], root: int, *, adds: bool) -> list[Trip]:
    """Trips down a cheapest tree from the root, or up one to it, in an order in which each comes after those it waits for.

    `cost`: float64[num_members, num_members], of the route between a parent and a child, whichever of them sends.
    """
    above = cheapest_arborescence(cost, members.index(root)).tolist()
    parent = {npu: members[at] for npu, at in zip(members, above, strict=True)}
    children: dict[int, list[int]] = {npu: [] for npu in members}
    for npu in members:
        if npu != root:
            children[parent[npu]].append(npu)
    order = [root]
    for npu in order:
        order += children[npu]
    if adds:
        return [Trip(tuple(routes.links(npu, parent[npu])), True) for npu in order[:0:-1]]
    return [Trip(tuple(routes.links(parent[npu], npu)), False) for npu in order[1:]]
