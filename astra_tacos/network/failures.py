"""Random link failures that leave the network connected, and networks that are one under other numbers.

`find_renumbering` looks for a renumbering of NPUs that takes all links of one network to like links of the other. Colours of
devices are refined by the colours of their neighbours (Weisfeiler, Leman) until nothing changes. Where devices share a colour,
one of them is tried with each of the other network's (individualization). What is found is checked link by link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.rotations import mixed
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.graph import Graph

_MOST_DEVICES = 256
"""Of networks that are compared, in Python, for a renumbering."""
_MOST_TRIED = 512
"""Assignments of a device: networks that need more are taken as different."""
_Colours = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """Networks over the same NPUs as one graph: their other devices follow one another. `kind` tells links apart."""

    num_npus: int
    src: Ints
    dst: Ints
    kind: NDArray[np.uint64]
    colour: _Colours


def find_renumbering(
    first: Sequence[Topology], second: Sequence[Topology], marks: tuple[int | None, int | None] = (None, None)
) -> Ints | None:
    """int64[num_npus], the NPU of the second network that each NPU of the first one is; None if none is found.

    Parameters
    ----------
    first, second
        Networks over the same NPUs each: one renumbering has to do for all of them, pair by pair.
    marks
        An NPU of each that has to be the same, if there is one.
    """
    npus = {topology.num_npus for topology in (*first, *second)}
    shapes = [[(view.num_devices, view.num_links) for view in views] for views in (first, second)]
    devices = sum(count for count, _ in shapes[0])
    if len(npus) > 1 or shapes[0] != shapes[1] or devices > _MOST_DEVICES:
        return None
    if any(topology.forwarding or topology.reducing for topology in (*first, *second)):
        return None
    graph, other = (_graph(views, mark) for views, mark in zip((first, second), marks, strict=True))
    left = [_MOST_TRIED]
    renumbering = _match(graph, other, _refined(graph, graph.colour), _refined(other, other.colour), left)
    return None if renumbering is None else renumbering[: graph.num_npus]


def _graph(views: Sequence[Topology], mark: int | None) -> _Graph:
    num_npus = views[0].num_npus
    count, srcs, dsts, kinds = num_npus, [], [], []
    colours = [np.zeros(num_npus, np.uint64)]
    for number, view in enumerate(views):
        shift = count - num_npus
        src, dst = (np.where(ends < num_npus, ends, ends + shift) for ends in (view.link_src, view.link_dst))
        srcs.append(src.astype(np.int64))
        dsts.append(dst.astype(np.int64))
        rate, delay = (np.ascontiguousarray(column, np.float64) for column in (view.link_bandwidth_gibps, view.link_latency_ns))
        kinds.append(mixed(mixed(rate.view(np.uint64)) + delay.view(np.uint64)) + np.uint64(number))
        others = view.num_devices - num_npus
        colours.append(np.full(others, number + 1, np.uint64))
        count += others
    colour = np.concatenate(colours)
    if mark is not None:
        colour[mark] = len(views) + 1
    return _Graph(num_npus, np.concatenate(srcs), np.concatenate(dsts), np.concatenate(kinds), colour)


def _refined(graph: _Graph, colour: _Colours) -> _Colours:
    """Colours that tell apart what neighbours of different colours tell apart."""
    known = len(np.unique(colour))
    while True:
        fresh = mixed(colour)
        np.add.at(fresh, graph.src, mixed(mixed(colour[graph.dst]) + graph.kind))
        np.add.at(fresh, graph.dst, mixed(mixed(colour[graph.src]) ^ mixed(graph.kind)))
        colour = mixed(fresh)
        count = len(np.unique(colour))
        if count == known:
            return colour
        known = count


def _match(graph: _Graph, other: _Graph, here: _Colours, there: _Colours, left: list[int]) -> Ints | None:
    """Where each device goes, given colours of both graphs; `left` counts down what may still be tried."""
    values, counts = np.unique(here, return_counts=True)
    if not np.array_equal(np.sort(here), np.sort(there)):
        return None
    if counts.max() == 1:
        moved = np.empty(len(here), np.int64)
        moved[np.argsort(here)] = np.argsort(there)
        return moved if _is_same(graph, other, moved) else None
    several = np.flatnonzero(counts > 1)
    value = values[several[np.argmin(counts[several])]]
    device = int(np.argmax(here == value))
    marked = here.copy()
    marked[device] = mixed(value.reshape(1))[0]
    marked = _refined(graph, marked)
    for candidate in np.flatnonzero(there == value).tolist():
        if left[0] <= 0:
            return None
        left[0] -= 1
        with_mark = there.copy()
        with_mark[candidate] = mixed(value.reshape(1))[0]
        renumbering = _match(graph, other, marked, _refined(other, with_mark), left)
        if renumbering is not None:
            return renumbering
    return None


def _is_same(graph: _Graph, other: _Graph, moved: Ints) -> bool:
    columns = [(moved[graph.src], moved[graph.dst], graph.kind), (other.src, other.dst, other.kind)]
    ordered = [[column[np.lexsort(of_graph)] for column in of_graph] for of_graph in columns]
    return all(np.array_equal(*pair) for pair in zip(*ordered, strict=True))


def draw_failures(topology: Topology, fraction: float, seed: int) -> tuple[tuple[int, int], ...]:
    """Draw pairs of opposite links that fail: a fraction of all pairs, rounded to the nearest number.

    All devices can still reach one another, switches too. A smaller fraction of the same seed fails a part of the same links.
    Links without one in the opposite direction never fail.

    The pairs are put in random order and fail one after the other, except those without which the network would be disconnected.
    These do not depend on the number of failures: they are the spanning tree that prefers the last pairs (Kruskal 1956; his
    reverse-delete algorithm finds the same tree as his other one).

    Parameters
    ----------
    fraction
        0 to 1.
    seed
        0 or more; the same seed, the same links, whatever their bandwidths.

    Returns
    -------
    failed
        (src, dst) of each link, in ascending order.

    Raises
    ------
    ConfigError
        If the fraction is out of range, or so many cannot fail.
    """
    if not 0 <= fraction <= 1:
        raise ConfigError(f"failed links: found the fraction {fraction:g}, expected 0 to 1")
    if seed < 0:
        raise ConfigError(f"failed links: found the seed {seed}, expected 0 or more")
    low, high, both_ways = _pairs(topology)
    wanted = int(fraction * len(low) + 0.5)
    if not wanted:
        return ()
    order = np.argsort(np.random.PCG64(seed).random_raw(len(low)), kind="stable")
    may_fail = order[~_is_needed(topology, low, high, both_ways, order)[order]]
    if wanted > len(may_fail):
        raise ConfigError(
            f"failed links: found the fraction {fraction:g}, {wanted:,} of {len(low):,} pairs of links, expected at most "
            f"{len(may_fail):,}: with more the network falls apart"
        )
    failed = may_fail[:wanted]
    pairs = zip(low[failed].tolist(), high[failed].tolist(), strict=True)
    return tuple(sorted(ends for src, dst in pairs for ends in ((src, dst), (dst, src))))


def _pairs(topology: Topology) -> tuple[Ints, Ints, Bools]:
    """Ends of the pairs of opposite links, in ascending order; and bool[num_links], which links are in one."""
    src, dst = topology.link_src.astype(np.int64), topology.link_dst.astype(np.int64)
    forward, backward = src * topology.num_devices + dst, dst * topology.num_devices + src
    both_ways = np.isin(forward, backward)
    pairs = np.sort(forward[both_ways & (src < dst)])
    return pairs // topology.num_devices, pairs % topology.num_devices, both_ways


def _is_needed(
    topology: Topology,
    low: Ints,
    high: Ints,
    both_ways: Bools,
    order: Ints,
) -> Bools:
    """bool[num_pairs], the spanning forest that prefers pairs late in `order`.

    Devices that links of one direction connect, there and back, count as one.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    size = topology.num_devices
    one_way = ~both_ways
    group = Graph.of(size, topology.link_src[one_way], topology.link_dst[one_way]).strong_groups()[1]
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order), 0, -1)  # the last pair has rank 1, and is kept first
    first, second = np.minimum(group[low], group[high]), np.maximum(group[low], group[high])
    # Of pairs between the same groups one suffices, the one that would fail last; SciPy would add their ranks.
    by_rank = np.argsort(rank, kind="stable")
    _, kept = np.unique((first * size + second)[by_rank], return_index=True)
    kept = by_rank[kept]
    kept = kept[first[kept] != second[kept]]
    weights = coo_array((rank[kept].astype(np.float64), (first[kept], second[kept])), shape=(size, size))
    tree = minimum_spanning_tree(weights.tocsr())
    needed = np.zeros(len(low), np.bool_)
    pair_of_rank = np.empty(len(order) + 1, np.int64)
    pair_of_rank[rank] = np.arange(len(order))
    needed[pair_of_rank[tree.data.astype(np.int64)]] = True
    return needed
