"""The sends of chunks along trees, and their priorities.

Of the sends that wait for a link, the one goes first that has the earliest latest-start time: the time at which it has to start
for its chunk to be everywhere when it is due. In an All-Gather every chunk is due at the end, so the send with the longest path
ahead goes first. Where chunks share their roots, their due dates are staggered, so that they follow one another as in a pipeline
(Jackson's rule for due dates, with tails as in Carlier 1982). Because some links have more work than others, the due dates are
closer together than the chunks can be finished; the spacing was found by measurement.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.synthesizer.dispatch.send_graph import SendGraph
from astra_tacos.synthesizer.packing.pack import Packing

_STAGGER = 0.15
"""Share of the busiest link's time over which the chunks of an All-Reduce, Broadcast or Reduce are due, where trees differ."""


def send_graph_along_trees(
    collective: Collective, packing: Packing, tree_of: NDArray[np.int64], stagger: float = _STAGGER
) -> SendGraph:
    """Sends along the trees, in the order of their latest start times.

    Parameters
    ----------
    collective
        The collective to synthesize.
    packing
        The trees.
    tree_of
        int64[num_chunks], the tree of each chunk.
    stagger
        Share of the busiest link's time over which chunks that share roots are due; 1 for one after another.
    """
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
