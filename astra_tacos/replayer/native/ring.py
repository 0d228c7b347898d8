"""`ring`: every member forwards each message that it receives to its neighbour (`Ring.cc`)."""

from __future__ import annotations

import numpy as np

from astra_tacos.replayer.native.assembly import Phase, PhaseRequest
from astra_tacos.replayer.native.exchange import exchange, packets_reduced


def ring(request: PhaseRequest) -> Phase:
    """A ring algorithm: an All-Reduce takes 2 (n - 1) steps, Reduce-Scatter and All-Gather n - 1, All-to-All n (n - 1) / 2.

    Raises
    ------
    ConfigError
        As in `PhaseRequest.check`.
    """
    num_members = request.num_members
    steps = {"all-reduce": 2 * (num_members - 1), "all-to-all": num_members * (num_members - 1) // 2}
    num_messages = steps.get(request.pattern, num_members - 1)
    request.check(4 * num_messages * len(request.member), np.array([request.share_bytes]))
    size_bytes = np.full(num_messages + 1, request.share_bytes)
    reduced = packets_reduced(request, num_messages + 1, 1, num_members - 1)
    ahead = -1 if request.backwards else 1
    member, shape = request.member[:, None], (len(request.member), num_messages)
    receiver = np.broadcast_to((member + ahead) % num_members, shape)
    sender = np.broadcast_to((member - ahead) % num_members, shape)
    return exchange(request, size_bytes, reduced, receiver, sender)
