# mypy: ignore-errors
"""Kernels: every packet of a run, in the order of events of ASTRA-sim's ns-3 backend.

A message is a queue pair of RDMA over converged Ethernet. Its packets leave the NPU's port in turn with those of the port's other
queue pairs, as long as the bytes on their way are fewer than the window. Acknowledgements go first. A switch has one queue for
each port. The message is over, at both ends, when its last acknowledgement is back. Rates do not change: the configurations
that change them are refused before (`replayer.packet_network`).

Upstream files, in `astra-network-ns3`: `src/point-to-point/model/qbb-net-device.cc` (`GetNextQindex`, `DequeueAndTransmit`,
`TransmitStart`: a transmission makes the event that ends it before the arrival), `rdma-hw.cc` (`ReceiveUdp` acknowledges every
packet; `ReceiveAck`), `rdma-queue-pair.cc` (`IsWinBound`), `switch-node.cc` and `switch-mmu.cc` (`CheckShouldPause`); in
`astra-sim`: `network_frontend/ns3/entry.h`.

All delays are short, so pending events stand in a wheel with a list for each ns, in the order in which they were made.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer._run_replay_kernels import ARRIVES, advance_until, push_event
from astra_tacos.replayer._run_table_kernels import (
    AHEAD,
    CULPRIT,
    DONE,
    HANDED_OVER,
    LATEST_NS,
    NEXT,
    NONE,
    NOW,
    OUT_HEAD,
    PAUSED,
    Code,
    Progress,
)
from astra_tacos.support.kernels.compiled import I32, I32_2D_OUT, I32_OUT, I64, I64_OUT, Layout, helper, inlined, kernel

# What `advance` returns besides, for packets: call again with more room for packets and queue pairs; a switch would pause a port.
CROWDED = 16
PAUSES = 17

# Entries of `Packets.scalar`.
CLOCK = 0
PENDING = 1
FREE_PACKET = 2
USED_PACKETS = 3
FREE_FLOW = 4
USED_FLOWS = 5
FREE_EVENT = 6
USED_EVENTS = 7
NUM_SCALARS = 8

BLOCK = 64
"""Slots of the wheel that are looked over at once where they are empty."""

ROOM = 4
"""Free packets and events that the next event may need."""
RESERVED_BYTES = 4096
"""Buffer that a port has of its own (`SwitchMmu::reserve`)."""

PACKET = np.dtype([("end", np.int64), ("flow", np.int32), ("hop", np.int32), ("size", np.int32), ("then", np.int32)], align=True)
"""A packet: the byte of the message after its last, the queue pair, entry of `Code.hop_link`, bytes, the next in a queue."""
_FLOW_BYTES = [(name, np.int64) for name in ("size", "sent", "acked", "window")]
FLOW = np.dtype([*_FLOW_BYTES, ("hop", np.int32), ("back", np.int32), ("message", np.int32)], align=True)
"""A queue pair: bytes of its message, bytes sent and acknowledged, bytes that may be on their way (0: any number), entries of
`Code.hop_link` for packets and acknowledgements, the message (the next free queue pair, where it is not in use)."""
_PORT_NUMBERS = [(name, np.int32) for name in ("tx_first", "head", "tail", "num_flows", "turn")]
PORT = np.dtype([*_PORT_NUMBERS, ("of_npu", np.bool_), ("busy", np.bool_)], align=True)
"""The sending end of a link: its first entry in `tx_ns`, the queue (of acknowledgements at an NPU), how many queue pairs it
has, the one that sent last, whether it is an NPU's, whether it sends."""
EVENT = np.dtype([("what", np.int32), ("then", np.int32)])

PACKETS = Annotated[NDArray[np.void], Layout(1, True, PACKET)]
FLOWS = Annotated[NDArray[np.void], Layout(1, True, FLOW)]
PORTS = Annotated[NDArray[np.void], Layout(1, True, PORT)]
EVENTS = Annotated[NDArray[np.void], Layout(1, True, EVENT)]


class Packets(NamedTuple):
    """A network of packets between two calls of `advance`. A port is the sending end of the link of `Code` of its number.

    An event is twice a port, which has sent, or twice a packet and 1, which arrives.
    """

    scalar: I64_OUT  # [NUM_SCALARS]
    payload_bytes: int
    header_bytes: int
    ack_bytes: int
    tx_ns: I32  # [...]: ns that a port takes for a packet of so many bytes
    delay_ns: I64  # [ports]
    window: I64  # [pairs]
    switch: I32  # [ports]: the switch at the end of the link, -1 if an NPU is there
    shift: I64  # [ports]: it may fill the switch's free buffer, divided by so many powers of two
    buffer_bytes: I64  # [switches]: what ports share
    queued: I64_OUT  # [ports]: bytes of its packets in the switch
    shared: I64_OUT  # [switches]: bytes of packets beyond what each port has of its own
    ports: PORTS  # [ports]
    flows_of: I32_2D_OUT  # [ports, ...]: queue pairs, in the order in which they were made
    flows: FLOWS  # [...]
    packets: PACKETS  # [...]
    events: EVENTS  # [...]
    slot_head: I32_OUT  # [power of two]: events at each ns
    slot_tail: I32_OUT  # [power of two]
    block: I32_OUT  # [slots / BLOCK]: events of so many ns that follow one another


def no_packets() -> Packets:
    """What `advance` takes for a network without packets."""
    none, of_32 = np.empty(0, np.int64), np.empty(0, np.int32)
    return Packets(
        scalar=none,
        payload_bytes=0,
        header_bytes=0,
        ack_bytes=0,
        tx_ns=of_32,
        delay_ns=none,
        window=none,
        switch=of_32,
        shift=none,
        buffer_bytes=none,
        queued=none,
        shared=none,
        ports=np.empty(0, PORT),
        flows_of=np.empty((0, 0), np.int32),
        flows=np.empty(0, FLOW),
        packets=np.empty(0, PACKET),
        events=np.empty(0, EVENT),
        slot_head=of_32,
        slot_tail=of_32,
        block=of_32,
    )


@inlined
def _push(ns, what, net):
    """Put an event into the wheel."""
    event = net.scalar[FREE_EVENT]
    if event == NONE:
        event = net.scalar[USED_EVENTS]
        net.scalar[USED_EVENTS] += 1
    else:
        net.scalar[FREE_EVENT] = net.events[event].then
    net.events[event].what = what
    net.events[event].then = NONE
    slot = ns & (len(net.slot_head) - 1)
    if net.slot_head[slot] == NONE:
        net.slot_head[slot] = event
    else:
        net.events[net.slot_tail[slot]].then = event
    net.slot_tail[slot] = event
    net.block[slot // BLOCK] += 1
    net.scalar[PENDING] += 1


@inlined
def _next_instant(net):
    """When the next event comes; `LATEST_NS` if there is none."""
    if net.scalar[PENDING] == 0:
        return np.int64(LATEST_NS)
    now = net.scalar[CLOCK]
    mask = len(net.slot_head) - 1
    while True:
        slot = now & mask
        if net.block[slot // BLOCK] == 0:
            now += BLOCK - slot % BLOCK
        elif net.slot_head[slot] == NONE:
            now += 1
        else:
            return now


@inlined
def _has_room(net):
    """Whether the next event finds what it may need."""
    packets = net.scalar[FREE_PACKET] != NONE or net.scalar[USED_PACKETS] + ROOM <= len(net.packets)
    return packets and net.scalar[USED_EVENTS] + ROOM <= len(net.events)


@helper
def _next_flow(port, ports, flows_of, flows, scalar):
    """The queue pair whose turn it is at an NPU's port, -1 if none may send; those before it that are over are dropped.

    As upstream does it: the turn is a place in the list, and stays there when the list shrinks and nothing is sent.
    """
    count = np.int64(ports[port].num_flows)
    at = np.int64(ports[port].turn) % max(count, 1)
    found = np.int64(NONE)
    first_over = count
    for _ in range(count):
        at = at + 1 if at + 1 < count else np.int64(0)
        flow = flows_of[port, at]
        sent = flows[flow].sent
        if sent < flows[flow].size:
            if flows[flow].window == 0 or sent - flows[flow].acked < flows[flow].window:
                found = at
                break
        elif flows[flow].acked >= sent and at < first_over:
            first_over = at
    if first_over < count:
        kept = first_over
        for at in range(first_over, count):
            flow = flows_of[port, at]
            if flows[flow].acked >= flows[flow].size:
                flows[flow].message = scalar[FREE_FLOW]
                scalar[FREE_FLOW] = flow
            else:
                if at == found:
                    found = kept
                flows_of[port, kept] = flow
                kept += 1
        ports[port].num_flows = kept
    if found == NONE:
        return np.int64(NONE)
    ports[port].turn = found
    return np.int64(flows_of[port, found])


@inlined
def _occupy(into, size, net):
    """Count bytes from a port in or out of a switch's buffer; returns whether the switch would pause the port."""
    switch = np.int64(net.switch[into])
    before = max(net.queued[into] - RESERVED_BYTES, 0)
    net.queued[into] += size
    after = max(net.queued[into] - RESERVED_BYTES, 0)
    net.shared[switch] += after - before
    return after >= (net.buffer_bytes[switch] - net.shared[switch]) >> net.shift[into]


@inlined
def _next_packet(port, net):
    """The packet that a port sends next, -1 if there is none."""
    packet = np.int64(net.ports[port].head)
    if packet != NONE:
        net.ports[port].head = net.packets[packet].then
        return packet
    if not net.ports[port].of_npu:
        return packet
    flow = _next_flow(port, net.ports, net.flows_of, net.flows, net.scalar)
    if flow == NONE:
        return flow
    packet = net.scalar[FREE_PACKET]
    if packet == NONE:
        packet = net.scalar[USED_PACKETS]
        net.scalar[USED_PACKETS] += 1
    else:
        net.scalar[FREE_PACKET] = net.packets[packet].then
    payload = min(net.payload_bytes, net.flows[flow].size - net.flows[flow].sent)
    net.flows[flow].sent += payload
    net.packets[packet].end = net.flows[flow].sent
    net.packets[packet].flow = flow
    net.packets[packet].hop = net.flows[flow].hop
    net.packets[packet].size = payload + net.header_bytes
    return packet


@inlined
def _send_next(port, now, code, state, net):
    """Have a port send its next packet, if it sends nothing; returns when a message is over by it, `LATEST_NS` if none is."""
    if net.ports[port].busy:
        return np.int64(LATEST_NS)
    packet = _next_packet(port, net)
    if packet == NONE:
        return np.int64(LATEST_NS)
    size = np.int64(net.packets[packet].size)
    hop = np.int64(net.packets[packet].hop)
    flow = np.int64(net.packets[packet].flow)
    back = np.int64(net.flows[flow].back)
    takes = np.int64(net.tx_ns[net.ports[port].tx_first + size])
    arrival = now + takes + net.delay_ns[port]
    net.ports[port].busy = True
    state.link_busy_ns[port] += takes
    if not net.ports[port].of_npu:
        _occupy(np.int64(code.hop_link[hop - 1]), -size, net)
    _push(now + takes, 2 * port, net)
    _push(arrival, 2 * packet + 1, net)
    if hop < back:
        state.link_bytes[port] += size - net.header_bytes
    elif code.hop_link[hop + 1] == NONE and net.packets[packet].end == net.flows[flow].size:
        # Made now, the event has its place among others of that instant. The replay takes the message to have crossed its links.
        message = np.int64(net.flows[flow].message)
        state.messages[message].hop = back - 2
        push_event(arrival, 4 * message + ARRIVES, state.scalar[NOW], state)
        return arrival
    return np.int64(LATEST_NS)


@inlined
def _enqueue(port, packet, net):
    """Put a packet into a port's queue."""
    net.packets[packet].then = NONE
    if net.ports[port].head == NONE:
        net.ports[port].head = packet
    else:
        net.packets[net.ports[port].tail].then = packet
    net.ports[port].tail = packet


@inlined
def _arrive(packet, code, state, net):
    """A packet is at the end of a link: returns the port that may send now."""
    hop = np.int64(net.packets[packet].hop)
    flow = np.int64(net.packets[packet].flow)
    port = np.int64(code.hop_link[hop + 1])
    back = np.int64(net.flows[flow].back)
    if port != NONE:  # at a switch
        net.packets[packet].hop = hop + 1
        into = np.int64(code.hop_link[hop])
        if _occupy(into, np.int64(net.packets[packet].size), net):
            state.scalar[CULPRIT] = into
        _enqueue(port, packet, net)
    elif hop < back:  # at the destination, which acknowledges it
        net.packets[packet].hop = back
        net.packets[packet].size = net.ack_bytes
        port = np.int64(code.hop_link[back])
        _enqueue(port, packet, net)
    else:
        net.flows[flow].acked = max(net.flows[flow].acked, net.packets[packet].end)
        net.packets[packet].then = net.scalar[FREE_PACKET]
        net.scalar[FREE_PACKET] = packet
        port = np.int64(code.hop_link[net.flows[flow].hop])
    return port


@inlined
def _open_flow(message, code, state, net):
    """Make the queue pair of a message; returns its port, -1 if there is no room."""
    pair = code.address[state.messages[message].place].pair
    hop = code.pair_hop[pair]
    port = np.int64(code.hop_link[hop])
    count = np.int64(net.ports[port].num_flows)
    flow = net.scalar[FREE_FLOW]
    if not _has_room(net) or count == net.flows_of.shape[1] or (flow == NONE and net.scalar[USED_FLOWS] == len(net.flows)):
        return np.int64(NONE)
    if flow == NONE:
        flow = net.scalar[USED_FLOWS]
        net.scalar[USED_FLOWS] += 1
    else:
        net.scalar[FREE_FLOW] = net.flows[flow].message
    back = hop
    while code.hop_link[back] != NONE:
        back += 1
    net.flows[flow].size = state.messages[message].size
    net.flows[flow].sent = 0
    net.flows[flow].acked = 0
    net.flows[flow].window = net.window[pair]
    net.flows[flow].message = message
    net.flows[flow].hop = hop
    net.flows[flow].back = back + 1
    net.flows_of[port, count] = flow
    net.ports[port].num_flows += 1
    return port


@kernel
def advance(code: Code, state: Progress, net: Packets, max_events: int):
    """Replay up to about `max_events` events, packet by packet if the network has packets.

    Both kinds of networks have one kernel, as most of its code is theirs in common, and takes long to compile.

    Returns
    -------
    status
        DONE (nothing is left to happen), PAUSED, FULL (call again with more room for messages and events), CROWDED, PAUSES, or
        what went wrong. ENDS_AT_ZERO leaves the message in `scalar[CULPRIT]` of the state, or -1 - the rank that waits 0 ns, and
        PAUSES the port that a switch would pause. Nodes that stall are not FINISHED, and their ranks keep `rank_finish_ns` -1.
        MISNUMBERED leaves the collective whose messages no other rank will meet.
    """
    if len(net.slot_head) == 0:
        return advance_until(LATEST_NS, code, state, max_events)
    state.scalar[CULPRIT] = NONE
    mask = len(net.slot_head) - 1
    num_events = 0
    port = np.int64(NONE)  # may send
    opens = state.scalar[OUT_HEAD] != NONE  # of an instant that found no room
    until = np.int64(NONE)  # packets may go on until then; what else happens is asked for after that
    while True:
        slot = net.scalar[CLOCK] & mask
        if port != NONE:
            until = min(until, _send_next(port, net.scalar[CLOCK], code, state, net))
            port = np.int64(NONE)
        elif opens:
            message = state.scalar[OUT_HEAD]
            following = np.int64(state.messages[message].then)
            port = _open_flow(message, code, state, net)
            if port == NONE:
                return CROWDED
            state.scalar[OUT_HEAD] = following
            opens = following != NONE
        elif until >= 0 and net.slot_head[slot] != NONE:
            if not _has_room(net):
                return CROWDED
            num_events += 1
            event = np.int64(net.slot_head[slot])
            what = np.int64(net.events[event].what)
            net.slot_head[slot] = net.events[event].then
            net.events[event].then = net.scalar[FREE_EVENT]
            net.scalar[FREE_EVENT] = event
            net.block[slot // BLOCK] -= 1
            net.scalar[PENDING] -= 1
            port = what >> 1
            if what & 1:
                port = _arrive(port, code, state, net)
            else:
                net.ports[port].busy = False
        elif state.scalar[CULPRIT] != NONE:
            return PAUSES
        elif num_events >= max_events:
            return PAUSED
        else:
            now = _next_instant(net)
            if now <= until:
                net.scalar[CLOCK] = now
                continue
            status = advance_until(now - 1, code, state, max_events)
            if status == HANDED_OVER:
                opens = True
                net.scalar[CLOCK] = state.scalar[NOW]
                until = np.int64(NONE)
            elif status == AHEAD:
                until = state.scalar[NEXT]
            elif status == DONE and net.scalar[PENDING] > 0:
                until = np.int64(LATEST_NS) - 1
            else:
                return status
