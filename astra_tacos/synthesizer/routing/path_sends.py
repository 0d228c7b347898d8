"""The sends of personalised chunks along their paths, and which of them are more urgent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.dispatch.send_graph import SendGraph
from astra_tacos.synthesizer.routing.paths import Paths


def send_graph_along_paths(topology: Topology, collective: Collective, timing: Timing, paths: Paths) -> SendGraph:
    """Sends along the paths; those with the longest way ahead have priority.

    Parameters
    ----------
    topology, collective, timing
        What the paths are of.
    paths
        As `find_paths` finds them.
    """
    from astra_tacos.synthesizer.routing._path_kernels import Channels, Hops, sends_of_paths
    from astra_tacos.synthesizer.routing._path_kernels import Paths as PathTables

    assert collective.chunk_target is not None
    channel_first = np.searchsorted(topology.channel_src, np.arange(topology.num_npus + 1))
    channels = Channels(channel_first, topology.channel_dst, timing.channel_delay_ns[:, -1])
    tables = PathTables(paths.bundle, collective.chunk_owner, collective.chunk_target, paths.last)
    room = 0
    while True:
        columns = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
        count = sends_of_paths(tables, topology.num_npus, topology.link_src, channels, Hops(*columns))
        if count <= room:
            break
        room = count
    chunk, channel, ahead_ns, _ = columns
    way = np.unique(-ahead_ns, return_inverse=True)[1]
    turn = _turns(collective)
    rank = way * (turn.max() + 1) + turn[chunk]
    if rank.max() > np.iinfo(np.int32).max:
        rank = np.unique(rank, return_inverse=True)[1]
    return SendGraph(chunk, channel, np.zeros(count, np.bool_), rank.astype(np.int32))


def _turns(collective: Collective) -> NDArray[np.int64]:
    """int64[num_chunks], order among equally urgent chunks: one chunk of every pair, the next higher NPU first.

    Otherwise all NPUs would send their chunks for NPU 0 first, and these would queue there.
    """
    assert collective.chunk_target is not None
    owner, target = collective.chunk_owner.astype(np.int64), collective.chunk_target.astype(np.int64)
    pair = owner * collective.num_npus + target
    order = np.argsort(pair, kind="stable")
    begins = np.flatnonzero(np.concatenate(([True], np.diff(pair[order]) != 0)))
    within = np.empty_like(pair)
    within[order] = np.arange(len(pair)) - np.repeat(begins, np.diff(np.append(begins, len(pair))))
    turns: NDArray[np.int64] = within * collective.num_npus + (target - owner) % collective.num_npus
    return turns
