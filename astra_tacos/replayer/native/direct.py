"""`direct`: every member sends to every other member, with a limited number of messages at a time (`AllToAll.cc`)."""

from __future__ import annotations

import numpy as np

from astra_tacos.replayer.native.assembly import Phase, PhaseRequest
from astra_tacos.replayer.native.exchange import exchange, packets_reduced


def direct(request: PhaseRequest) -> Phase:
    """Every member sends to each of the others in turn, the next higher one first.

    An All-Reduce does so twice, with a barrier in between. Where a packet overtakes one that is being reduced, ASTRA-sim writes
    to freed memory (`PacketBundle::call`) and sometimes crashes; the phase is what ASTRA-sim computes if it does not crash.

    Raises
    ------
    ConfigError
        As in `PhaseRequest.check`.
    """
    num_members = request.num_members
    others = num_members - 1
    window = others if request.window is None else min(request.window, others)
    rounds = 2 if request.pattern == "all-reduce" else 1
    num_messages = rounds * others
    request.check(8 * num_messages * len(request.member), np.array([request.share_bytes]))
    size_bytes = np.full(num_messages + window, request.share_bytes)
    # A quirk of `get_non_zero_latency_packets`: but in groups of some NPUs, every other window of messages is not reduced.
    reduced = packets_reduced(request, num_messages + window, window, others * window if request.sub_group else window)
    step = np.tile(np.arange(1, num_members), rounds) * (-1 if request.backwards else 1)
    member = request.member[:, None]
    receiver, sender = (member + step) % num_members, (member - step) % num_members
    return exchange(request, size_bytes, reduced, receiver, sender, barrier=others if rounds == 2 else None)
