"""A slow, obvious twin of the packet level: objects that call one another, in the shape of ASTRA-sim's ns-3 backend.

Written from `astra-network-ns3` (`src/point-to-point/model/qbb-net-device.cc`, `rdma-hw.cc`, `rdma-queue-pair.cc`,
`switch-node.cc`, `scratch/common.h`) and `astra-sim` (`network_frontend/ns3/entry.h`). Switches have all the buffer they need.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from helpers.naive import naive_route

from astra_tacos.network.network_config import NetworkConfig

Action = Callable[[], None]


class EventQueue(Protocol):
    """What a simulation of ranks gives the network."""

    now: int

    def schedule_packet(self, delay_ns: int, action: Action) -> None:
        """Have something happen later, or now but after all else that happens now."""


@dataclass
class Packet:
    pair: QueuePair
    route: list[Port]
    size: int
    end: int
    hop: int = 0


@dataclass
class QueuePair:
    size: int
    route: list[Port]
    back: list[Port]
    window: int
    arrive: Action
    sent: int = 0
    acked: int = 0

    @property
    def may_send(self) -> bool:
        return self.sent < self.size and (self.window == 0 or self.sent - self.acked < self.window)


@dataclass
class Port:
    bits_per_s: int
    delay_ns: int
    at_npu: bool
    queue: deque[Packet] = field(default_factory=deque)
    pairs: list[QueuePair] = field(default_factory=list)
    turn: int = 0
    busy: bool = False

    def takes_ns(self, size: int) -> int:
        return int(Fraction(size * 8 * 10**9, self.bits_per_s) + Fraction(1, 2))


def over_switches(network: NetworkConfig, src: int, dst: int) -> list[Any]:
    """What `naive_route` returns, for the one way with the fewest links that passes no NPU: breadth first from the source."""
    links = {(link.src, link.dst): link for link in network.links}
    ways = {src: [src]}
    queue = [src]
    for here in queue:  # grows on the way
        for one, there in links:
            if one == here and there not in ways:
                ways[there] = [*ways[here], there]
                if there >= network.num_npus:
                    queue.append(there)
    hops = [links[pair] for pair in itertools.pairwise(ways[dst])]
    kind = {node: "switch" if node >= network.num_npus else "npu" for node in ways[dst]}
    return [
        (((kind[hop.src], hop.src), (kind[hop.dst], hop.dst)), float(hop.bandwidth_gibps or 0) * 2**30 / 1e9, hop.latency_ns)
        for hop in hops
    ]


class NaivePackets:
    """Ports, queue pairs and packets."""

    def __init__(self, events: EventQueue, network: NetworkConfig) -> None:
        self.events, self.network, self.ns3 = events, network, network.ns3
        self.ports: dict[Any, Port] = {}

    def route(self, src: int, dst: int) -> list[Port]:
        ports = []
        hops = over_switches(self.network, src, dst) if self.network.forwarding else naive_route(self.network, src, dst)
        for (here, there), bytes_per_ns, latency_ns in hops:
            kilobits = max(round(bytes_per_ns * 8e6), 1)
            at_npu = here[0] != "switch"
            ports.append(self.ports.setdefault((here, there), Port(1000 * kilobits, round(latency_ns), at_npu)))
        return ports

    def window(self, src: int, dst: int) -> int:
        route = self.route(src, dst)
        rate = min(port.bits_per_s for port in route)
        payload_ns = sum(self.ns3.payload_bytes * 8 * 10**9 // port.bits_per_s for port in route)
        return (2 * sum(port.delay_ns for port in route) + payload_ns) * rate // 10**9 // 8

    def transmit(self, src: int, dst: int, size: int, arrive: Action) -> None:
        route = self.route(src, dst)
        ends = [(src, dst)]
        if self.ns3.global_window:
            ends = list(itertools.permutations(range(self.network.num_npus), 2))
        window = max(self.window(*each) for each in ends) if self.ns3.has_window else 0
        pair = QueuePair(size, route, self.route(dst, src), window, arrive)
        # An application starts in an event of its own, which is made by another.
        self.events.schedule_packet(0, lambda: self.events.schedule_packet(0, lambda: self.open(pair)))

    def open(self, pair: QueuePair) -> None:
        pair.route[0].pairs.append(pair)
        self.send_next(pair.route[0])

    def send_next(self, port: Port) -> None:
        if port.busy:
            return
        packet = port.queue.popleft() if port.queue else self.next_packet(port) if port.at_npu else None
        if packet is None:
            return
        port.busy = True
        takes_ns = port.takes_ns(packet.size)

        def sent() -> None:
            port.busy = False
            self.send_next(port)

        self.events.schedule_packet(takes_ns, sent)
        self.events.schedule_packet(takes_ns + port.delay_ns, lambda: self.receive(packet))

    def next_packet(self, port: Port) -> Packet | None:
        count = len(port.pairs)
        places = [(port.turn + step) % count for step in range(1, count + 1)]
        chosen = next((place for place in places if port.pairs[place].may_send), None)
        seen = places if chosen is None else places[: places.index(chosen)]
        over = [place for place in seen if port.pairs[place].acked >= port.pairs[place].size]
        pair = None if chosen is None else port.pairs[chosen]
        if over:
            port.pairs = [each for place, each in enumerate(port.pairs) if place < min(over) or each.acked < each.size]
        if pair is None:
            return None
        port.turn = next(place for place, each in enumerate(port.pairs) if each is pair)
        payload = min(self.ns3.payload_bytes, pair.size - pair.sent)
        pair.sent += payload
        return Packet(pair, pair.route, payload + self.ns3.header_bytes, pair.sent)

    def receive(self, packet: Packet) -> None:
        pair = packet.pair
        packet.hop += 1
        if packet.hop < len(packet.route):
            port = packet.route[packet.hop]
            port.queue.append(packet)
            self.send_next(port)
        elif packet.route is pair.route:
            pair.back[0].queue.append(Packet(pair, pair.back, self.ns3.ack_bytes, packet.end))
            self.send_next(pair.back[0])
        else:
            pair.acked = packet.end
            if pair.acked >= pair.size:
                pair.arrive()
            self.send_next(pair.route[0])
