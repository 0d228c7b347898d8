"""Windows of reducing devices: how much each sender may have under way in one at a time.

A sender is an NPU, or another reducing device, from which trips lead to a device to be added there. With a window of W bytes it
has n = W / chunk size chunks under way at most, whatever order they go in: of its chunks for that device, by number, each waits
at the sender until all of the chunk n places before it has come back to the sender. So the sender itself keeps the window, by
what arrives there, as SwitchML's workers do (Sapio et al., NSDI 2021), and so can a trace.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.trips import stop_keys


def awaited_results(topology: Topology, collective: Collective, sends: Sends) -> NDArray[np.int64] | None:
    """int64[num_sends], the chunk of which everything has to have come to a row's source before the row starts; -1 for none.

    None if no device has a window.
    """
    limits = {device.device: device.window_bytes for device in topology.reducing if device.window_bytes is not None}
    if not limits or sends.trip is None:
        return None
    awaited = np.full(len(sends.chunk), -1, np.int64)
    dst = topology.channel_dst[sends.channel]
    into, out_of = stop_keys(topology, sends.channel, sends.trip)
    last = np.flatnonzero(sends.reduces & (into < 0) & np.isin(dst, list(limits)))
    first_of = np.full(int(sends.trip.max(initial=0)) + 1, -1, np.int64)
    begins = np.flatnonzero(out_of < 0)
    first_of[sends.trip[begins]] = begins
    first = first_of[sends.trip[last]]
    first, last = first[first >= 0], last[first >= 0]
    src = topology.channel_src[sends.channel[first]].astype(np.int64)
    flow, chunk = src * topology.num_npus + dst[last], sends.chunk[first].astype(np.int64)
    order = np.lexsort((chunk, flow))
    first, flow, chunk = first[order], flow[order], chunk[order]
    for device, window in limits.items():
        at = np.flatnonzero(flow % topology.num_npus == device)
        room = max(window // int(collective.class_size_bytes[-1]), 1)
        if len(at) > room:
            same = flow[at[room:]] == flow[at[:-room]]
            awaited[first[at[room:][same]]] = chunk[at[:-room][same]]
    return awaited
