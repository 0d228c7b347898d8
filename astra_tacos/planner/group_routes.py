"""Routes between members of a group through NPUs outside the group. Each chosen route becomes a link of the group's network."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.replayer.routes import crossed_pairs

Reach = Literal["needed", "disjoint", "all"]
REACHES: tuple[Reach, ...] = ("needed", "disjoint", "all")
"""Which routes become links: those needed to connect all members, those that share no links (`disjoint`), all in small groups."""
_ALL_PAIRS_UP_TO = 16
_SEARCHED_UP_TO = 256


def choose_routes(
    network: Topology, config: NetworkConfig, members: NDArray[np.int64], kept: NDArray[np.int64], own: Topology, reach: Reach
) -> list[tuple[int, int, float, float]]:
    """Choose the routes that become links between the members of a group.

    The choice takes short routes first, and routes that share no link with earlier ones if possible.

    Returns a tuple per route: source and destination as positions in `members`, the lowest bandwidth of its links in GiB/s, and
    the sum of their latencies in ns.

    Parameters
    ----------
    network
        The whole network.
    config
        The network's configuration, which determines the routes.
    members
        int64[n], the ranks of the group.
    kept
        int64[...], links of the network that the group uses directly, without a route.
    own
        The topology of the kept links alone; its NPUs are positions in `members`.
    reach
        Which routes become links, one of `REACHES`.
    """
    if len(members) > _SEARCHED_UP_TO:
        near = _chosen(network, config, members, kept, own, reach, near_pairs(len(members)))
        src = np.array([*own.channel_src.tolist(), *(route[0] for route in near)], np.int64)
        dst = np.array([*own.channel_dst.tolist(), *(route[1] for route in near)], np.int64)
        if len(np.unique(components(len(members), src, dst))) == 1:
            return near
    grid = np.indices((len(members), len(members))).reshape(2, -1)
    return _chosen(network, config, members, kept, own, reach, grid[:, grid[0] != grid[1]])


def _chosen(
    network: Topology,
    config: NetworkConfig,
    members: NDArray[np.int64],
    kept: NDArray[np.int64],
    own: Topology,
    reach: Reach,
    pairs: NDArray[np.int64],
) -> list[tuple[int, int, float, float]]:
    """The chosen routes among those between `pairs`, int64[2, num_pairs], positions."""
    num = len(members)
    pairs = pairs[:, own.channel_of(pairs[0], pairs[1]) < 0]
    owner, source, target = crossed_pairs(config, members[pairs[0]], members[pairs[1]])
    channel = network.channel_of(source, target)
    is_member = np.zeros(network.num_npus, np.bool_)
    is_member[members] = True
    # A route through another member is left out, as it consists of two routes.
    into_member = np.bincount(owner[is_member[target]], minlength=pairs.shape[1])
    missing = np.bincount(owner[channel < 0], minlength=pairs.shape[1])
    length = np.bincount(owner, minlength=pairs.shape[1])
    first = np.concatenate(([0], np.cumsum(length)))
    usable = np.flatnonzero((into_member == 1) & (missing == 0))
    usable = usable[np.lexsort((pairs[1, usable], pairs[0, usable], length[usable]))]
    taken = np.zeros(network.num_links, np.bool_)
    taken[kept] = True
    component = components(num, own.channel_src, own.channel_dst)
    edges = [list(own.channel_src), list(own.channel_dst)]
    routes: list[tuple[int, int, float, float]] = []
    left: list[int] = []

    def links_of(pair: int) -> NDArray[np.int64]:
        crossed = channel[first[pair] : first[pair + 1]]
        both = np.concatenate((network.channel_link[crossed], network.channel_down_link[crossed]))
        links: NDArray[np.int64] = both[both != NO_LINK].astype(np.int64)
        return links

    def take(pair: int) -> None:
        links = links_of(pair)
        taken[links] = True
        src, dst = int(pairs[0, pair]), int(pairs[1, pair])
        bandwidth, latency = network.link_bandwidth_gibps[links].min(), network.link_latency_ns[links].sum()
        routes.append((src, dst, float(bandwidth), float(latency)))
        edges[0].append(src)
        edges[1].append(dst)

    for pair in usable.tolist():
        apart = component[pairs[0, pair]] != component[pairs[1, pair]]
        everything = reach == "all" and num <= _ALL_PAIRS_UP_TO
        if everything or (not taken[links_of(pair)].any() and (apart or reach == "disjoint")):
            take(pair)
        else:
            left.append(pair)
    component = components(num, np.array(edges[0], np.int64), np.array(edges[1], np.int64))
    for pair in left:
        if len(np.unique(component)) == 1:
            break
        if component[pairs[0, pair]] != component[pairs[1, pair]]:
            take(pair)
            component = components(num, np.array(edges[0], np.int64), np.array(edges[1], np.int64))
    return routes


def near_pairs(num: int) -> NDArray[np.int64]:
    """int64[2, num_pairs], pairs of positions that differ by a power of two, for large groups, as all pairs are too many."""
    steps = 1 << np.arange((num - 1).bit_length())
    src = np.repeat(np.arange(num), len(steps))
    dst = (src + np.tile(steps, num)) % num
    pairs = np.stack((np.concatenate((src, dst)), np.concatenate((dst, src))))
    return np.unique(pairs, axis=1)


def components(num: int, src: NDArray[np.integer], dst: NDArray[np.integer]) -> NDArray[np.int32]:
    """int32[num], the strongly connected component of each position in the graph of edges `src` to `dst`."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(src), np.int8), (src, dst)), shape=(num, num))
    labels: NDArray[np.int32] = connected_components(graph, connection="strong")[1]
    return labels
