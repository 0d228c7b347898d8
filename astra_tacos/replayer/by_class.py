"""Networks on which a link stands for all links that translations move it to, and outcomes of all ranks from those of some."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from astra_tacos.network.network_config import NetworkConfig, check_block_sizes
from astra_tacos.replayer.routes import CongestionAware, Routes, WholeMessages, crossed_pairs, listed_routes
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.grouping import members_of
from astra_tacos.support.units import bytes_per_ns

_UP, _DOWN, _DIRECT = range(3)


class TranslatedLinks(WholeMessages):
    """`CongestionAware` on a network of whole dimensions, for messages whose sources are representatives."""

    def __init__(self, network: NetworkConfig, lattice: Lattice) -> None:
        check_block_sizes(network.source, network.dimensions)
        self._network, self._lattice = network, lattice
        self.link_src, self.link_dst = np.empty((2, 0), np.int32)
        self.link_latency_ns, self.link_bytes_per_ns = np.empty((2, 0))
        self.keys = np.empty(0, np.int64)

    def routes(self, src: Ints, dst: Ints) -> Routes:
        """See `NetworkModel.routes`; sets the links of this model, which are those on these routes."""
        lattice, dimensions = self._lattice, self._network.dimensions
        owner, source, target = crossed_pairs(self._network, src, dst)
        dimension = np.argmax(lattice.digits(source) != lattice.digits(target), axis=0) if len(owner) else owner
        switched = np.array([entry.building_block.num_switches(entry.size) > 0 for entry in dimensions], np.bool_)[dimension]
        hops = np.repeat(_link_keys(lattice, dimension, source, target, np.where(switched, _UP, _DIRECT))[:, None], 2, axis=1)
        hops[:, 1] = _link_keys(lattice, dimension, source, target, np.full(len(owner), _DOWN))
        used = np.stack((np.ones(len(owner), np.bool_), switched), axis=1)
        self.keys, number = np.unique(hops[used], return_inverse=True)
        of_link = np.empty(len(self.keys), np.int64)
        of_link[number] = np.repeat(dimension, used.sum(axis=1))
        latency = np.array([entry.latency_ns for entry in dimensions], np.float64)
        self.link_latency_ns = latency[of_link]
        self.link_bytes_per_ns = bytes_per_ns(np.array([entry.bandwidth_gibps for entry in dimensions], np.float64))[of_link]
        self.link_src, self.link_dst = self._ends()
        num_hops = np.bincount(owner, used.sum(axis=1), minlength=len(src)).astype(np.int64)
        return listed_routes(np.concatenate(([0], np.cumsum(num_hops))), number.ravel())

    def _ends(self) -> tuple[Ints32, Ints32]:
        """The devices at the ends of the links that stand for others; switches are numbered as `build_topology` does."""
        lattice, dimensions = self._lattice, self._network.dimensions
        count = lattice.num_ranks
        of_dimension, ends = np.divmod(self.keys, count * count)
        dimension, way = np.divmod(of_dimension, 3)
        stride, size, _ = (column[dimension] for column in lattice.columns)
        switches = [count // dimension.size * dimension.building_block.num_switches(dimension.size) for dimension in dimensions]
        first = count + np.concatenate(([0], np.cumsum(switches)))[dimension]
        switch = first + ends // (stride * size) * stride + ends % stride
        source, target = np.where(way == _DIRECT, ends // count, ends), np.where(way == _DIRECT, ends % count, ends)
        return np.where(way == _DOWN, switch, source).astype(np.int32), np.where(way == _UP, switch, target).astype(np.int32)

    def of_all_links(self, outcome: RunOutcome, all_links: CongestionAware) -> RunOutcome:
        """The outcome with all links of the network, each with the figures of the link that stands for it."""
        return replace(
            outcome,
            link_src=all_links.link_src,
            link_dst=all_links.link_dst,
            link_bytes=self.of_whole(all_links, outcome.link_bytes),
            link_busy_ns=self.of_whole(all_links, outcome.link_busy_ns),
        )

    def of_whole(self, all_links: CongestionAware, figures: Ints) -> Ints:
        """int64[num_links], the figures of all links of a network."""
        lattice, src, dst = self._lattice, all_links.link_src.astype(np.int64), all_links.link_dst.astype(np.int64)
        way = np.where(dst >= lattice.num_ranks, _UP, np.where(src >= lattice.num_ranks, _DOWN, _DIRECT))
        source, target = np.where(way == _DOWN, dst, src), np.where(way == _UP, src, dst)
        key = _link_keys(lattice, all_links.link_dimension.astype(np.int64), source, target, way)
        place = np.minimum(np.searchsorted(self.keys, key), max(len(self.keys) - 1, 0))
        return np.where(self.keys[place] == key, figures[place], 0) if len(self.keys) else np.zeros(len(key), np.int64)


def _link_keys(lattice: Lattice, dimension: Ints, source: Ints, target: Ints, way: Ints) -> Ints:
    """Numbers of links, equal for those that translations move to one another.

    A link leads from the source up to a switch, from a switch down to the target, or from one to the other.
    """
    count = lattice.num_ranks
    here, there = lattice.canonical(source, target)
    ends = np.where(way == _UP, here, np.where(way == _DOWN, lattice.canonical(target)[0], here * count + there))
    return (dimension * 3 + way) * count * count + ends


def of_all_ranks(outcome: RunOutcome, some: Trace, full_trace: Trace, lattice: Lattice) -> RunOutcome:
    """The outcome of a run, given that of the representatives; links stay as they are.

    Where what led to a node's end began on a rank of another class, the outcome names that class's representative.
    """
    representatives = lattice.representatives
    place = lattice.places(np.arange(lattice.num_ranks))
    rows, rank = members_of(some.rank_first, place)[1], full_trace.rank
    shift = full_trace.rank_first[:-1][rank] - some.rank_first[:-1][place[rank]]
    at = np.repeat(full_trace.rank_first[representatives] - some.rank_first[:-1], np.diff(some.rank_first))
    origin = outcome.node_origin[rows]
    is_own = (origin >= 0) & (some.rank[origin] == place[rank])
    moved = origin + np.where(is_own, shift, at[origin])
    cause = outcome.node_cause[rows]
    return replace(
        outcome,
        ranks=np.arange(len(place)),
        finish_ns=outcome.finish_ns[place],
        compute_ns=outcome.compute_ns[place],
        sent_bytes=outcome.sent_bytes[place],
        node_issue_ns=outcome.node_issue_ns[rows],
        node_finish_ns=outcome.node_finish_ns[rows],
        node_cause=np.where(cause < 0, cause, cause + shift).astype(np.int32),
        node_origin=np.where(origin < 0, origin, moved).astype(np.int32),
        collective=outcome.collective[rows],
        replaced=np.flatnonzero(np.isin(rows, outcome.replaced)),
    )
