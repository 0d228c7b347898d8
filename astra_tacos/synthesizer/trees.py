"""Trees: every chunk goes along a tree of its own, packed so that no link has much more to do than it must, then scheduled.

An All-Gather or Broadcast is one tree out of each chunk's owner. A Reduce-Scatter or Reduce is the same on the mirror image of
the network, backwards. An All-Reduce sums every chunk up a tree and spreads it down another from the same root, any NPU, both at
once for different chunks: where links come in pairs that reaches the packing rate of spanning trees, which on meshes is up to
twice the rate of a Reduce-Scatter followed by an All-Gather. See `packing.pack` for the packing and its sources.

Of the sends that wait for a link, the one goes first that has to start first for its chunk to be everywhere when it is due. In
an All-Gather every chunk is due at the end: the send with the longest way ahead goes first. Where all chunks come down the same
links, chunk i of n is due after i/n of the time, so that chunks follow one another as in a pipeline (Jackson's rule for due
dates, with tails as in Carlier 1982).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.dispatch import dispatch
from astra_tacos.synthesizer.packing.justify import justify
from astra_tacos.synthesizer.packing.mirror import mirror, mirrored
from astra_tacos.synthesizer.packing.pack import Packing, pack
from astra_tacos.synthesizer.plan import Plan
from astra_tacos.topology.topology import Topology

_MOST_TREES = 2048
_MOST_PRICES = 1 << 22
"""Trees times channels: what a round of packing looks at."""
_BUSY_SHARE = 0.8
_BETA = 0.15


def trees(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Pack a tree for every chunk and schedule their sends.

    Parameters
    ----------
    seed
        In which order trees are packed; the same arguments give the same schedule.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    if collective.gathers:
        return _spread(topology, collective, timing, seed)
    image = mirror(topology, timing)
    return mirrored(_spread(image.topology, collective, image.timing, seed), image, topology, timing)


def _spread(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    tree_of, root = _assign(topology, collective, timing)
    copies = np.bincount(tree_of).astype(np.float64)
    sums_up = collective.reduces and collective.gathers
    inward = np.zeros(len(root), np.bool_)
    if sums_up:
        root, copies, inward = np.tile(root, 2), np.tile(copies, 2), np.repeat((True, False), len(root))
    packing = pack(topology, timing, root, inward, copies, seed)
    plan = _plan(topology, collective, timing, packing, tree_of)
    return justify(dispatch(topology, collective, timing, plan, "trees", seed, _BUSY_SHARE), _BUSY_SHARE)


def _assign(topology: Topology, collective: Collective, timing: Timing) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which tree each chunk goes along, and the trees' roots: the chunks' owners, or the NPUs in the middle."""
    most = int(np.clip(_MOST_PRICES // topology.num_channels, 1, _MOST_TREES))
    chunk = np.arange(collective.num_chunks)
    if collective.reduces and collective.gathers:
        middle = _middle(topology, timing)
        num_trees = min(max(most, len(middle)), collective.num_chunks)
        return chunk % num_trees, middle[np.arange(num_trees) % len(middle)]
    owner = collective.chunk_owner.astype(np.int64)
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=topology.num_npus)
    within = np.empty_like(chunk)
    within[order] = chunk - np.repeat(np.cumsum(count) - count, count)
    per_owner = max(1, most // np.count_nonzero(count))
    key, tree_of = np.unique(owner * per_owner + within % per_owner, return_inverse=True)
    return tree_of, key // per_owner


def _middle(topology: Topology, timing: Timing) -> NDArray[np.int64]:
    """The NPUs that chunks come from all others and reach all others soonest."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    delay = timing.channel_delay_ns[:, -1].astype(np.float64)
    graph = coo_array((delay, (topology.channel_src, topology.channel_dst)), shape=(topology.num_npus,) * 2).tocsr()
    distance = shortest_path(graph)
    farthest = distance.max(axis=0) + distance.max(axis=1)
    return np.flatnonzero(farthest <= farthest.min() * 1.34)


def _plan(
    topology: Topology, collective: Collective, timing: Timing, packing: Packing, tree_of: NDArray[np.int64]
) -> Plan:
    """Sends along the trees, ranked by when they have to start."""
    from astra_tacos.synthesizer.packing._packing_kernels import walk

    src, dst, num_npus = topology.channel_src, topology.channel_dst, topology.num_npus
    channel_ns = timing.channel_delay_ns[:, -1]
    away_ns, ahead_ns = np.empty((2, *packing.channel.shape), np.int64)
    space = np.empty((2, num_npus), np.int64)
    walk(packing.channel, packing.inward, src, dst, channel_ns, *space, away_ns, ahead_ns)
    entering = np.where(packing.channel >= 0, channel_ns[packing.channel], 0)
    outward = np.flatnonzero(~packing.inward)
    below_ns = ahead_ns[outward] + entering[outward]
    due_ns = np.zeros(len(tree_of))
    parts = [(outward, False, below_ns)]
    if len(outward) < len(packing.root):
        inward = np.flatnonzero(packing.inward)
        parts.append((inward, True, away_ns[inward] + ahead_ns[outward, packing.root[outward]][:, None]))
    if len(parts) == 2 or len(np.unique(packing.root)) == 1:
        due_ns = np.arange(len(tree_of)) / len(tree_of) * packing.link_ns.max() * _BETA
    chunks, channels, reduces, start_by = [], [], [], []
    for tree, is_sum, left_ns in parts:
        channel = packing.channel[tree][tree_of]
        chunk, npu = np.nonzero(channel >= 0)
        chunks.append(chunk)
        channels.append(channel[chunk, npu])
        reduces.append(np.full(len(chunk), is_sum))
        start_by.append(due_ns[chunk] - left_ns[tree_of[chunk], npu])
    rank = np.unique(np.rint(np.concatenate(start_by)), return_inverse=True)[1]
    return Plan(
        np.concatenate(chunks).astype(np.int32),
        np.concatenate(channels).astype(np.int32),
        np.concatenate(reduces),
        rank.astype(np.int32),
    )
