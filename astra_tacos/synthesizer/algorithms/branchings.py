"""Branchings: a Broadcast along edge-disjoint arborescences, each chunk along one of a few; a Reduce is the mirror image.

On a hierarchy of switches this is what is known as rail-aware: the root gives every chunk once to a peer in its node, who sends
it along its rail, from node to node, and in each node the NPUs of the rails pass chunks on to all others.
See `parts.branchings` for the packing and its sources. As few trees repeat, the sends of a switch repeat, too, and its
ports are paired in the same way in every period. Chunks follow one another in their order.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.branchings import choose_branchings
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import backwards
from astra_tacos.synthesizer.parts.trees import Packing, send_graph_along_trees


def branchings(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Pack arborescences out of the root and schedule the sends of chunks along them.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize, one with a root.
    timing
        Delays of chunks on the links of the network.
    seed
        Recorded in the schedule; this algorithm makes no random choices.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached, or switches take in more or less than they give out.
    """
    if collective.gathers:
        return _spread(topology, collective, timing, seed)
    return backwards(_spread, topology, collective, timing, seed)


def _spread(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    assert collective.root is not None
    found = choose_branchings(topology, timing, collective.root, collective.num_chunks)
    trees = len(found.channel)
    periods = np.array([collective.num_chunks / trees * found.period_ns])
    roots, tree_of = np.full(trees, collective.root), np.arange(collective.num_chunks) % trees
    packing = Packing(np.zeros(1, np.bool_), roots, found.channel[None], (found.branches,), periods, tree_of)
    sends = send_graph_along_trees(collective, packing, stagger=1.0)
    return dispatch(topology, collective, timing, sends, "branchings", seed)
