"""Rings through all NPUs that together use all links, and share links as little as possible."""

from __future__ import annotations

import numpy as np

from astra_tacos.network.network_config import Dimension
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.support.arrays import Ints, Ints32

_MOST_NESTED = 64


def find_rings(topology: Topology) -> Ints32:
    """int32[num_rings, num_npus], the NPUs of each ring in order.

    Nested rings over dimensions, in one direction or both, whichever load the busiest link least; of equals, the fewest. Rings
    with a missing link are dropped if at least as many are complete; otherwise the missing link is routed around. Without
    dimensions, or where no tour of a building block is known, one ring in the order of ids.
    """
    cycles = nested_cycles(topology.dimensions)
    if not cycles:
        return np.arange(topology.num_npus, dtype=np.int32)[None]
    one_way = np.stack(cycles)
    layouts = [_whole_ones(topology, rings) for rings in (one_way, np.concatenate((one_way, one_way[:, ::-1])))]
    return min(layouts, key=lambda rings: (_busiest(topology, rings), len(rings)))


def _whole_ones(topology: Topology, rings: Ints32) -> Ints32:
    is_closed = np.all(topology.channel_of(rings, np.roll(rings, -1, axis=1)) >= 0, axis=1)
    return rings[is_closed] if 2 * np.count_nonzero(is_closed) >= len(rings) else rings


def _busiest(topology: Topology, rings: Ints32) -> float:
    """The largest load of a link by all rings; twice that if links are missing, because other links replace them."""
    channel = topology.channel_of(rings, np.roll(rings, -1, axis=1)).ravel()
    there = channel[channel >= 0]
    down = topology.channel_down_link[there]
    links = np.concatenate((topology.channel_link[there], down[down != NO_LINK]))
    load = np.bincount(links, minlength=topology.num_links) / topology.link_bandwidth_gibps / len(rings)
    return float(load.max()) * (1 if len(there) == len(channel) else 2)


def nested_cycles(dimensions: tuple[Dimension, ...]) -> list[Ints32]:
    """Rings through all NPUs of the fastest dimension, then one step along the next dimension, and so on, as in NCCL.

    There is one ring per NPU of a node, so that the steps from node to node are spread over its NPUs. There are none without
    dimensions, or if no tour of a building block is known.
    """
    tours = [dimension.building_block.tour(dimension.size) for dimension in dimensions]
    if not tours or any(tour is None for tour in tours):
        return []
    strides = np.cumprod([1] + [dimension.size for dimension in dimensions[:-1]]).tolist()
    from_slow = sorted(range(len(dimensions)), key=lambda d: (dimensions[d].bandwidth_gibps, -d))
    rings = [np.zeros(1, np.int32)]
    for index in from_slow:
        dimension, tour = dimensions[index], tours[index]
        assert tour is not None
        starts = dimension.size if tour.is_closed and len(rings[0]) > 1 else 1
        is_free = dimension.size == 3 or not dimension.building_block.hops_through_members
        paths = [_paths(tour.order, start, len(rings[0]), is_free) for start in range(starts)]
        rings = [(ring[:, None] + path * strides[index]).ravel() for path in paths for ring in rings][:_MOST_NESTED]
    return [ring.astype(np.int32) for ring in rings]


def _paths(order: Ints, start: int, count: int, is_free: bool) -> Ints:
    """int64[count, size], a path through a dimension in each of so many places; each begins where the one before it ends.

    They go to and fro. With an odd number of places the last one ends where the first begins, if the dimension allows that.

    Parameters
    ----------
    order
        int64[size], a tour of the dimension.
    """
    size = len(order)
    forth = (start + np.arange(size)) % size
    paths = np.where(np.arange(count)[:, None] % 2, forth[::-1], forth)
    if count > 1 and count % 2 and size > 2 and is_free:
        paths[-2] = (start - 1 + np.arange(size)) % size
        paths[-1] = (start + np.array([-2, -1, *range(1, size - 2), 0])) % size
    return order[paths]
