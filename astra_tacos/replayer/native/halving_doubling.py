"""`halvingDoubling`: recursive halving and doubling (`HalvingDoubling.cc`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer.native.assembly import Phase, PhaseRequest
from astra_tacos.replayer.native.exchange import exchange, packets_reduced
from astra_tacos.support.errors import ConfigError


def halving_doubling(request: PhaseRequest) -> Phase:
    """Recursive halving and doubling.

    A Reduce-Scatter sends a half, a quarter ... of the data to partners at distance 1, 2 ...; an All-Gather takes the same steps
    backwards; an All-Reduce is a Reduce-Scatter and an All-Gather.

    Raises
    ------
    ConfigError
        For an All-to-All, at which ASTRA-sim stops; for a number of NPUs at which partners do not choose each other and
        ASTRA-sim stalls (powers of 2 run; for an All-Gather also 6, 12, 20 and others); and as in `PhaseRequest.check`.
    """
    num_members, pattern = request.num_members, request.pattern
    if pattern == "all-to-all":
        raise ConfigError(f"{request.title}: ASTRA-sim has none and stops; expected ring, direct or doubleBinaryTree")
    num_messages = int((2 if pattern == "all-reduce" else 1) * math.log2(num_members))
    distance, size, factor = 1, request.size_bytes // 2, 2.0
    if pattern == "all-gather":
        distance, size, factor = num_members // 2, request.size_bytes, 0.5
    sizes, partners = [size], []
    for _ in range(num_messages):
        partners.append(_partners(request, distance))
        # A halved odd size loses a byte, which doubling does not restore.
        distance, size = int(distance * factor), int(size / factor)
        if distance == num_members and pattern == "all-reduce":
            factor = 0.5
            distance, size = int(distance * factor), int(size / factor)
        sizes.append(size)
    size_bytes = np.array(sizes)
    request.check(4 * num_messages * len(request.member), size_bytes[:-1])
    # A quirk of `get_non_zero_latency_packets`: the last message of a Reduce-Scatter is not reduced.
    reduced = packets_reduced(request, num_messages + 1, 1, int(math.log2(num_members) - 1))
    partner = np.stack(partners, axis=1)[request.member]
    return exchange(request, size_bytes, reduced, partner, partner)


def _partners(request: PhaseRequest, distance: int) -> NDArray[np.int64]:
    member = np.arange(request.num_members)
    partner = (member + np.where(member // distance % 2 == 0, distance, -distance)) % request.num_members
    if np.any(partner[partner] != member):
        lost = int(np.argmax(partner[partner] != member))
        raise ConfigError(
            f"{request.title}: NPU {lost} waits for NPU {partner[lost]}, which sends to NPU {partner[partner[lost]]}, so that "
            "ASTRA-sim stalls; expected a power of 2"
        )
    return partner
