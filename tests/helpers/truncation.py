"""How far ASTRA-sim's truncation may take a prediction below the bound over all algorithms.

ASTRA-sim truncates the time of each chunk on each link to whole nanoseconds. A chunk of 1.6 ns counts as 1 ns: to its clock, the
link is 1.6 times as fast as it is. Let k be the least share that is left of any chunk's serialisation on any link. Then no link
brings more by a time than it would with 1/k times its bandwidth, and latencies of whole nanoseconds stay. So

    predicted time  >=  k x bound - 1 ns,

where the bound has exact serialisation and latencies rounded down. (The 1 ns is for the fraction of the last chunk under
`blocking`, where latency and serialisation are truncated together.) A message of several chunks loses no larger share than one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.units import bytes_per_ns


def kept_by_truncation(topology: Topology, timing: Timing, size_bytes: NDArray[np.int64]) -> float:
    """The least share of a chunk's serialisation that is left when ASTRA-sim truncates it, at most 1.

    Parameters
    ----------
    topology
        The network.
    timing
        Truncated delays of the chunks.
    size_bytes
        int64[classes], their sizes, in the order of the timing's classes.
    """
    serialisation = size_bytes / bytes_per_ns(topology.link_bandwidth_gibps)[:, None]
    if timing.is_blocking:
        held = np.floor(np.floor(topology.link_latency_ns)[:, None] + serialisation)  # no more than what holds a channel
    else:
        held = timing.link_hold_ns.astype(np.float64)
    return float(min(1.0, (held / serialisation).min()))
