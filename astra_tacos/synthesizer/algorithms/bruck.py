"""Bruck's algorithm: ceil(log2 N) steps for any number N of NPUs, which stand on a circle.

Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
Systems" (1997), section 4 (concatenation) and, for personalised chunks, section 3 (index).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.blocks.routing import binomial_tree
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.routing.routing import Spread, make_send_graph


def bruck(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Synthesize with Bruck's algorithm.

    In step k of a gathering, NPU v sends to NPU v - 2**k everything that v has and the other lacks. Reductions run backwards in
    time. In step k of an All-to-All, NPU v sends to NPU v + 2**k all chunks for NPUs whose distance from the owner has bit k.

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
        # As seen from the owner: after k steps the 2**k NPUs before it have the chunk.
        num_npus, num_chunks = np.int32(topology.num_npus), collective.num_chunks
        if collective.chunk_target is not None:
            return _bit_by_bit(collective.chunk_owner, collective.chunk_target, num_npus)
        src, dst, step = binomial_tree(topology.num_npus)
        chunk = np.repeat(np.arange(num_chunks, dtype=np.int32), len(dst))
        owner = collective.chunk_owner[chunk]
        first, second = ((owner - np.tile(end, num_chunks)) % num_npus for end in (src, dst))
        return Spread(chunk, first, second, np.tile(step, num_chunks))

    sends = make_send_graph(topology, collective, timing, spread_out)
    return dispatch(topology, collective, timing, sends, "bruck", seed)


def _bit_by_bit(owner: NDArray[np.int32], target: NDArray[np.int32], num_npus: np.int32) -> Spread:
    distance = (target - owner) % num_npus
    step, chunk = np.nonzero(distance >> np.arange(int(num_npus).bit_length())[:, None] & 1)
    src = (owner[chunk] + distance[chunk] % (1 << step)) % num_npus
    columns = (chunk, src, (src + (1 << step)) % num_npus, step)
    return Spread(*(column.astype(np.int32) for column in columns))
