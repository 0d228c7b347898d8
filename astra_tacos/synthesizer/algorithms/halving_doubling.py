"""Halving and doubling: log2 N steps, in which partners exchange half of the remaining data, or all that they have.

Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005), sections 4.1 and 4.3;
ASTRA-sim's `halvingDoubling`.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.blocks.routing import binomial_tree
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.routing.routing import Spread, make_send_graph


def halving_doubling(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Exchange data between partners, over log2 N steps.

    In step k of a gathering, NPUs whose ids differ only in bit k exchange all that they have. Reductions run backwards in time.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        Recorded in the schedule; this algorithm makes no random choices.
    """

    def spread_out(turned: bool) -> Spread:
        # Relative to the owner: every NPU that differs from it only below bit k sends to its partner in step k.
        num_chunks = collective.num_chunks
        src, dst, step = binomial_tree(topology.num_npus)
        chunk = np.repeat(np.arange(num_chunks, dtype=np.int32), len(dst))
        owner = collective.chunk_owner[chunk]
        first, second = (owner ^ np.tile(end, num_chunks) for end in (src, dst))
        return Spread(chunk, first, second, np.tile(step, num_chunks))

    sends = make_send_graph(topology, collective, timing, spread_out)
    return dispatch(topology, collective, timing, sends, "halving-doubling", seed)


def refuse_other_than_powers_of_two(topology: Topology, collective: Collective) -> str | None:
    """NPUs pair up in every step only if their number is a power of two."""
    if topology.num_npus & (topology.num_npus - 1):
        return f"has {topology.num_npus} NPUs, expected a power of two"
    return None
