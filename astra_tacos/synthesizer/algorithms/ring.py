"""Ring: chunks travel round rings through all NPUs, several rings at once, as in NCCL.

Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009); NCCL's `Ring`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.rings import find_rings, rings_of_fabric
from astra_tacos.synthesizer.routing.routing import Spread, make_send_graph


def ring(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Send every chunk all the way round one of several rings, which chunks use in turn; reductions go in the same direction.

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
    return _along(find_rings(topology), topology, collective, timing, seed)


def ring_on_pairs(fabric: Topology, pairs: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """The same on the pairs of NPUs of a fabric, round rings that load the links of the fabric least.

    Parameters
    ----------
    fabric, pairs
        The fabric, and its `network_of_pairs`.
    collective, timing, seed
        As for `ring`.
    """
    return _along(rings_of_fabric(fabric, pairs), pairs, collective, timing, seed)


def _along(rings: NDArray[np.int32], topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    def spread_out(turned: bool) -> Spread:
        num_npus, num_chunks = topology.num_npus, collective.num_chunks
        place = np.empty_like(rings)
        np.put_along_axis(place, rings, np.arange(num_npus, dtype=np.int32)[None], axis=1)
        chunk = np.arange(num_chunks, dtype=np.int32)
        on = chunk % len(rings)
        step = np.arange(num_npus - 1, dtype=np.int32)
        start = place[on, collective.chunk_owner][:, None]
        one = np.int32(-1 if turned else 1)
        src, dst = (rings[on[:, None], (start + one * hops) % num_npus].ravel() for hops in (step, step + 1))
        return Spread(np.repeat(chunk, num_npus - 1), src, dst, np.tile(step, num_chunks))

    sends = make_send_graph(topology, collective, timing, spread_out)
    return dispatch(topology, collective, timing, sends, "ring", seed)
