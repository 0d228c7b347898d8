"""The sends of chunks along trees, and which of them are more urgent.

Of the sends that wait for a link, the one goes first that has to start first for its chunk to be everywhere when it is due. In
an All-Gather every chunk is due at the end: the send with the longest way ahead goes first. Where chunks share their roots they
are due one after another, so that they follow one another as in a pipeline (Jackson's rule for due dates, with tails as in
Carlier 1982); as some links have more to do than others, they are due closer together than they can be done: how close was
measured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.synthesizer.dispatch.send_graph import SendGraph
from astra_tacos.synthesizer.packing.pack import Packing

_STAGGER = 0.15
"""Share of the busiest link's time over which the chunks of an All-Reduce, Broadcast or Reduce are due."""


def send_graph_along_trees(collective: Collective, packing: Packing, tree_of: NDArray[np.int64]) -> SendGraph:
    """Sends along the trees, ranked by when they have to start.

    Parameters
    ----------
    tree_of
        int64[num_chunks], the tree of each chunk.
    """
    due_ns = np.zeros(len(tree_of))
    if len(packing.inward) == 2 or collective.root is not None:
        due_ns = np.arange(len(tree_of)) / len(tree_of) * packing.link_ns.max() * _STAGGER
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
