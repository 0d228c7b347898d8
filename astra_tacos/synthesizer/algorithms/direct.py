"""Direct: every NPU sends what it owns straight to every other NPU; pairs without a channel use shortest paths.

Source: ASTRA-sim's `direct` (`astra-sim/system/collective/AllToAll.cc` as it uses it for other collectives): one step, all
pairs at once.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.routing.routing import Spread, make_send_graph


def direct(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Send each chunk straight from its owner to every other NPU (or to its target), to the next higher NPU first.

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
        num_npus = topology.num_npus
        if collective.chunk_target is not None:
            chunk = np.arange(collective.num_chunks, dtype=np.int32)
            distance = (collective.chunk_target - collective.chunk_owner) % np.int32(num_npus)
        else:
            distance = np.tile(np.arange(1, num_npus, dtype=np.int32), collective.num_chunks)
            chunk = np.repeat(np.arange(collective.num_chunks, dtype=np.int32), num_npus - 1)
        src = collective.chunk_owner[chunk]
        dst = (src + (-distance if turned else distance)) % np.int32(num_npus)
        ends = (dst, src) if turned else (src, dst)
        # A send with a channel of its own uses it, even if there is a faster path, and goes before relayed sends.
        passed_on = topology.channel_of(*ends) < 0
        return Spread(chunk, src, dst, distance - 1 + passed_on * np.int32(num_npus))

    sends = make_send_graph(topology, collective, timing, spread_out)
    return dispatch(topology, collective, timing, sends, "direct", seed)
