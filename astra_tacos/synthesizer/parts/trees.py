"""Trees that chunks travel along: their roots, the loads that they put on links, the lengths of their branches, and the sends.

Of the sends that wait for a link, the one goes first that has the earliest latest-start time: the time at which it has to start
for its chunk to be everywhere when it is due. In an All-Gather every chunk is due at the end, so the send with the longest path
ahead goes first. Where chunks share their roots, their due dates are staggered, so that they follow one another as in a pipeline
(Jackson's rule for due dates, with tails as in Carlier 1982). Because some links have more work than others, the due dates are
closer together than the chunks can be finished; the spacing was found by measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Bools, Floats, Ints, Ints32
from astra_tacos.support.grouping import count_before, distinct
from astra_tacos.synthesizer.parts.send_graph import SendGraph


@dataclass(frozen=True, slots=True)
class Branches:
    """Times of a chunk along trees without congestion; in trees that lead into their roots, against the links' direction.

    Parameters
    ----------
    away_ns
        int64[num_trees, num_npus], from the root to the NPU.
    ahead_ns
        int64[num_trees, num_npus], from the NPU to the last one behind it.
    entry_ns
        int64[num_trees, num_npus], over the channel that joins the NPU to the tree; 0 for the root.
    """

    away_ns: Ints
    ahead_ns: Ints
    entry_ns: Ints


def measure(topology: Topology, timing: Timing, channel: Ints32, inward: bool) -> Branches:
    """Measure trees.

    Parameters
    ----------
    channel
        int32[num_trees, num_npus], the channel that joins each NPU to the tree, -1 for the root.
    """
    channel_ns = timing.channel_delay_ns[:, -1] + (timing.reduction_ns[-1] if inward else 0)
    away_ns, ahead_ns = lengths(channel, topology.channel_dst if inward else topology.channel_src, channel_ns)
    return Branches(away_ns, ahead_ns, np.where(channel >= 0, channel_ns[channel], 0))


def lengths(channel: Ints32, end: Ints32, of_channel: Ints) -> tuple[Ints, Ints]:
    """int64[num_trees, num_npus] twice: the way from the root to each NPU, and on from there to the last NPU behind it.

    Parameters
    ----------
    channel
        int32[num_trees, num_npus], the channel that joins each NPU to the tree, -1 for the root.
    end, of_channel
        Of channels: the end that is nearer to the root, and the length.
    """
    from astra_tacos.synthesizer.parts._tree_kernels import walk

    away, ahead = np.empty((2, *channel.shape), np.int64)
    walk(channel, end, of_channel, away, ahead)
    return away, ahead


@dataclass(frozen=True, slots=True)
class Packing:
    """Trees, and the loads that they put on links.

    Parameters
    ----------
    inward
        bool[num_kinds]: of each kind of tree, whether it leads into its root (to sum up) rather than out of it.
    root
        int64[num_trees], of the trees of every kind.
    channel
        int32[num_kinds, num_trees, num_npus], the channel that joins each NPU to the tree, from its root's side; -1 for the root.
    link_ns
        float64[num_links], how long each link is busy with all chunks.
    tree_of
        int64[num_chunks], the tree of each chunk.
    """

    inward: Bools
    root: Ints
    channel: Ints32
    branches: tuple[Branches, ...]
    link_ns: Floats
    tree_of: Ints


_NEAR_THE_MIDDLE = 1.34


def share_trees(root: NDArray[np.integer], most: int) -> tuple[Ints, Ints]:
    """Assignment of chunks with given roots to about `most` trees in all: equally many per root, used by its chunks in turn.

    Returns
    -------
    tree_of, tree_root
        int64[num_chunks], the tree of each chunk; int64[num_trees], where each begins.
    """
    root = root.astype(np.int64)
    per_root = max(1, most // len(distinct(root)))
    key, tree_of = np.unique(root * per_root + count_before(root) % per_root, return_inverse=True)
    return tree_of, key // per_root


def spread_evenly(root: Ints) -> Ints:
    """An order in which trees of every root follow one another at even distances.

    Parameters
    ----------
    root
        int64[num_trees], the root of each.

    Returns
    -------
    order
        int64[num_trees], numbers of trees.
    """
    return np.argsort((count_before(root) + 0.5) / np.bincount(root)[root], kind="stable")


@lru_cache(maxsize=16)
def middle_npus(topology: Topology, timing: Timing, member_npus: tuple[int, ...]) -> Ints:
    """The central members: those with the smallest distance, or nearly so, from and to all other members."""
    members = np.array(member_npus, np.int64)
    graph = topology.channel_graph(timing.channel_delay_ns[:, -1])
    distance = graph.distances(members)[:, members]
    farthest = distance.max(axis=0) + distance.max(axis=1)
    middle: Ints = members[farthest <= farthest.min() * _NEAR_THE_MIDDLE]
    return middle


_STAGGER = 0.15
"""Share of the busiest link's time over which the chunks of an All-Reduce, Broadcast or Reduce are due, where trees differ."""


def send_graph_along_trees(collective: Collective, packing: Packing, stagger: float = _STAGGER) -> SendGraph:
    """Sends along the trees, in the order of their latest start times.

    Parameters
    ----------
    stagger
        Share of the busiest link's time over which chunks that share roots are due; 1 for one after another.
    """
    tree_of = packing.tree_of
    due_ns = np.zeros(len(tree_of))
    if len(packing.inward) == 2 or collective.root is not None:
        due_ns = np.arange(len(tree_of)) / len(tree_of) * packing.link_ns.max() * stagger
    outward = packing.branches[-1]
    chunks, channels, start_by = [], [], []
    for is_sum, along, trees in zip(packing.inward, packing.branches, packing.channel, strict=True):
        left_ns = along.away_ns + outward.away_ns.max(axis=1)[:, None] if is_sum else along.ahead_ns + along.entry_ns
        channel = trees[tree_of]
        chunk, npu = np.nonzero(channel >= 0)
        chunks.append(chunk)
        channels.append(channel[chunk, npu])
        start_by.append(due_ns[chunk] - left_ns[tree_of[chunk], npu])
    reduces = np.repeat(packing.inward, [len(chunk) for chunk in chunks]) | collective.only_reduces
    rank = np.unique(np.rint(np.concatenate(start_by)), return_inverse=True)[1].astype(np.int32)
    return SendGraph(np.concatenate(chunks).astype(np.int32), np.concatenate(channels), reduces, rank)
