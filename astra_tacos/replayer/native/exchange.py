"""Sequences of messages, which `ring`, `direct` and `halvingDoubling` have in common.

A member creates packets: a window of packets at the start, and one for each message that it receives. A packet takes the endpoint
delay, and the time of a reduction if the algorithm asks for one. When its k-th packet completes, the member sends its k-th
message and posts the receive of the k-th message from others. The phase ends when all messages are sent and all packets have
completed (`Ring.cc` and similar files: `insert_packet`, `ready`, `iteratable`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer.collective_program import LocalKind
from astra_tacos.replayer.native.assembly import Phase, PhaseRequest, RoleBuilder
from astra_tacos.run.trace.schema import NodeType

_RECEIVED, _PASSED, _OPEN, _END = range(4)
"""Pools: messages received, packets completed, tokens that open the barrier, end of the phase (nothing waits for that one)."""


def exchange(
    request: PhaseRequest,
    size_bytes: NDArray[np.int64],
    reduced: NDArray[np.bool_],
    receiver: NDArray[np.int64],
    sender: NDArray[np.int64],
    barrier: int | None = None,
) -> Phase:
    """A phase in which every member sends the same number of messages.

    Parameters
    ----------
    request
        Members, chunk and settings of the phase.
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


def packets_reduced(request: PhaseRequest, num_packets: int, window: int, num_responses: int) -> NDArray[np.bool_]:
    """bool[num_packets], whether each packet takes a reduction.

    Two kinds of packets alternate: `window` packets of the first kind, which never take a reduction, then `num_responses` of the
    second kind, which take one in a Reduce-Scatter, and in an All-Reduce in every other turn from the first (`insert_packet`).

    Parameters
    ----------
    request
        The phase.
    num_packets
        Number of packets.
    window
        Number of packets of the first kind.
    num_responses
        Number of packets of the second kind.
    """
    turn, place = np.divmod(np.arange(num_packets), window + num_responses)
    second: NDArray[np.bool_] = place >= window
    if request.pattern == "reduce-scatter":
        return second
    return second & (turn % 2 == 0) if request.pattern == "all-reduce" else np.zeros(num_packets, np.bool_)
