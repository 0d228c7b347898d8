"""Native algorithms whose members each send a sequence of messages: `ring`, `direct` and `halvingDoubling`.

A member creates packets: a window of packets at the start, and one for each message that it receives. A packet takes the endpoint
delay, and the time of a reduction if the algorithm asks for one. When its k-th packet completes, the member sends its k-th
message and posts the receive of the k-th message from others. The phase ends when all messages are sent and all packets have
completed (`Ring.cc`, `AllToAll.cc`, `HalvingDoubling.cc`: `insert_packet`, `ready`, `iteratable`).
"""

from __future__ import annotations

import math

import numpy as np

from astra_tacos.replayer.collective_program import LocalKind
from astra_tacos.replayer.native.assembly import Phase, PhaseRequest, RoleBuilder
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError

_RECEIVED, _PASSED, _OPEN, _END = range(4)
"""Pools: messages received, packets completed, tokens that open the barrier, end of the phase (nothing waits for that one)."""


def _exchange(
    request: PhaseRequest,
    size_bytes: Ints,
    reduced: Bools,
    receiver: Ints,
    sender: Ints,
    barrier: int | None = None,
) -> Phase:
    """A phase in which every member sends the same number of messages.

    Parameters
    ----------
    size_bytes
        int64[num_messages + window], sizes of packets; packets past the last message only end the phase.
    reduced
        bool[num_messages + window], whether each packet takes a reduction.
    receiver, sender
        int64[num_members, num_messages], the member that message i goes to, and the source of the i-th posted receive.
    barrier
        Messages from this number on wait for the first packet that completes after all earlier messages have been received.
    """
    num_messages = receiver.shape[1]
    packet = np.arange(len(reduced))
    message, window = packet[:num_messages], len(packet) - num_messages
    # With one message in flight, or none left to send after the first window, the order of arrival does not matter.
    by_arrival = 1 < window < num_messages
    plan = RoleBuilder(request.member)

    let_go = plan.add(packet[window:], LocalKind.TAKE, pool=_RECEIVED) if by_arrival else None
    begun = plan.add(packet, NodeType.COMP, delay_ns=request.endpoint_ns)
    passed = begun.copy()
    reduction_ns = request.reduction_ns(size_bytes[reduced])
    passed[reduced] = plan.add(packet[reduced], NodeType.COMP, delay_ns=reduction_ns, after=begun[reduced])
    if by_arrival and len(np.unique(reduced[window:])) > 1:
        # A packet without a reduction overtakes one with a reduction: the first to complete releases the next message.
        plan.add(packet, LocalKind.PUT, pool=_PASSED, after=passed)
        passed = plan.add(packet, LocalKind.TAKE, pool=_PASSED)
    if barrier is not None and by_arrival:
        opening = slice(barrier, barrier + window)
        plan.add(packet[opening], LocalKind.PULSE, pool=_OPEN, after=passed[opening])
    send = plan.add(message, NodeType.COMM_SEND, size_bytes=size_bytes[message], peer=receiver, after=passed[message])
    receive = plan.add(message, NodeType.COMM_RECV, size_bytes=size_bytes[message], peer=sender, after=passed[message])
    if let_go is None:
        plan.wait(begun[window:], receive)
    else:
        plan.wait(begun[window:], let_go)
        plan.add(message, LocalKind.PUT, pool=_RECEIVED, after=receive)
    if barrier is not None and by_arrival:
        gate = plan.add(packet[-1:] + 1, LocalKind.TAKE, pool=_OPEN)
        plan.wait(gate, receive[:barrier])
        plan.wait(np.stack((send, receive))[:, opening], gate)
    last = passed[-1:]
    if window > 1:
        last = plan.add(packet[-1:] + 1, LocalKind.PULSE, pool=_END)
        plan.wait(last, passed[-window:])
    return Phase((plan.finish(last),), request.final_bytes)


def _packets_reduced(request: PhaseRequest, num_packets: int, window: int, num_responses: int) -> Bools:
    """bool[num_packets], whether each packet takes a reduction.

    Two kinds of packets alternate: `window` packets of the first kind, which never take a reduction, then `num_responses` of the
    second kind, which take one in a Reduce-Scatter, and in an All-Reduce in every other turn from the first (`insert_packet`).
    """
    turn, place = np.divmod(np.arange(num_packets), window + num_responses)
    second: Bools = place >= window
    if request.pattern == "reduce-scatter":
        return second
    return second & (turn % 2 == 0) if request.pattern == "all-reduce" else np.zeros(num_packets, np.bool_)


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
    reduced = _packets_reduced(request, num_messages + 1, 1, num_members - 1)
    ahead = -1 if request.backwards else 1
    member, shape = request.member[:, None], (len(request.member), num_messages)
    receiver = np.broadcast_to((member + ahead) % num_members, shape)
    sender = np.broadcast_to((member - ahead) % num_members, shape)
    return _exchange(request, size_bytes, reduced, receiver, sender)


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
    reduced = _packets_reduced(request, num_messages + window, window, others * window if request.sub_group else window)
    step = np.tile(np.arange(1, num_members), rounds) * (-1 if request.backwards else 1)
    member = request.member[:, None]
    receiver, sender = (member + step) % num_members, (member - step) % num_members
    return _exchange(request, size_bytes, reduced, receiver, sender, barrier=others if rounds == 2 else None)


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
    reduced = _packets_reduced(request, num_messages + 1, 1, int(math.log2(num_members) - 1))
    partner = np.stack(partners, axis=1)[request.member]
    return _exchange(request, size_bytes, reduced, partner, partner)


def _partners(request: PhaseRequest, distance: int) -> Ints:
    member = np.arange(request.num_members)
    partner = (member + np.where(member // distance % 2 == 0, distance, -distance)) % request.num_members
    if np.any(partner[partner] != member):
        lost = int(np.argmax(partner[partner] != member))
        raise ConfigError(
            f"{request.title}: NPU {lost} waits for NPU {partner[lost]}, which sends to NPU {partner[partner[lost]]}, so that "
            "ASTRA-sim stalls; expected a power of 2"
        )
    return partner
