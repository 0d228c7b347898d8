"""The network of ASTRA-sim's ns-3 backend: packets, acknowledgements and windows on full-duplex links.

Limits, which are refused where they would count: packets that get lost, links that fail during a run, ports that a switch pauses
(priority flow control), and congestion control that changes rates, which happens at switches only.

The files that the backend reads besides those of a run are written here, too: links, configuration, shape for native algorithms.
Formats: `astra-network-ns3`, `scratch/common.h` (`ReadConf`, `SetupNetwork`); `astra-sim`,
`network_frontend/ns3/AstraSimNetwork.cc`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.ns3 import Ns3Config
from astra_tacos.network.packet_links import PacketLinks, check_timed, transmission_ns
from astra_tacos.replayer import _packet_kernels as kernels
from astra_tacos.replayer import _run_table_kernels as tables
from astra_tacos.replayer.compilation import Compiled
from astra_tacos.replayer.routes import END, Engine, Routes, TopologyLinks
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError, ReplayError

_MOST_MESSAGE_BYTES = (1 << 31) - 1
_ROOM = 1024
_FLOWS_OF_PORT = 8


class PacketNetwork(TopologyLinks):
    """Every packet takes its port for its bytes at the link's rate, rounded to ns, and arrives after the link's delay.

    NPUs do not relay: messages go to neighbours, or through switches, by the routes of `PacketLinks`.

    Raises
    ------
    ConfigError
        If a link has no reverse like it, or the ns-3 configuration asks for what cannot be timed.
    """

    hands_over = True

    def __init__(self, network: NetworkConfig) -> None:
        super().__init__(network)
        self._ns3 = network.ns3
        check_timed(network.source, self._topology, self._ns3)
        self._links = PacketLinks(network.source, self._topology, self._ns3)

    def routes(self, src: Ints, dst: Ints) -> Routes:
        """See `NetworkModel.routes`. After the end of a route comes that of its acknowledgements.

        Raises
        ------
        ConfigError
            If two NPUs that exchange messages are no neighbours and no way between them passes switches only.
        """
        ways = [self._links.routes(*ends) for ends in ((src, dst), (dst, src))]
        count = np.stack([np.diff(first) for first, _ in ways], axis=1).ravel()  # of links, there and back in turn
        begin = np.cumsum(count + 1) - count - 1
        hops = np.full(int((count + 1).sum()), END, np.int32)
        for way, (first, link) in enumerate(ways):
            hops[np.repeat(begin[way::2] - first[:-1], np.diff(first)) + np.arange(len(link))] = link
        return Routes(begin[::2].astype(np.int64), hops, np.empty(0), np.empty(0))

    def engine(self, compiled: Compiled) -> Engine:
        """See `NetworkModel.engine`.

        Raises
        ------
        ConfigError
            If a message is larger than ns-3 can count.
        """
        nodes = compiled.code.nodes[:-1]
        size = nodes["amount"][np.isin(nodes["action"], (tables.SEND, tables.POST))].max(initial=0)
        if size > _MOST_MESSAGE_BYTES:
            raise ConfigError(
                f"{self._network.source}: a message of {size:,} bytes, expected at most {_MOST_MESSAGE_BYTES:,}, which is what "
                "ASTRA-sim's ns-3 backend counts"
            )
        return PacketEngine(self._packets(compiled), self._describe_port(compiled))

    def _describe_port(self, compiled: Compiled) -> list[str]:
        return [f"{self._network.source}: {self._topology.describe_link(int(link))}" for link in compiled.used_links]

    def _packets(self, compiled: Compiled) -> kernels.Packets:
        topology, ns3, links = self._topology, self._ns3, compiled.used_links
        rates, rate_of = np.unique(self._links.bits_per_s[links], return_inverse=True)
        largest = max(ns3.payload_bytes + ns3.header_bytes, ns3.ack_bytes)
        tx_ns = np.array([[transmission_ns(size, int(rate)) for size in range(largest + 1)] for rate in rates], np.int32)
        ports = np.zeros(len(links), kernels.PORT)
        ports["tx_first"] = rate_of * (largest + 1)
        ports["head"] = -1
        ports["of_npu"] = self.link_src[links] < topology.num_endpoints
        switch = self.link_dst[links].astype(np.int64) - topology.num_endpoints
        delay_ns = self._links.delay_ns[links]
        horizon = int(tx_ns.max(initial=0)) + int(delay_ns.max(initial=0)) + 1
        slots = max(1 << horizon.bit_length(), kernels.BLOCK)
        buffers, shift = self._links.buffers(kernels.RESERVED_BYTES)
        scalar = np.zeros(kernels.NUM_SCALARS, np.int64)
        scalar[[kernels.FREE_PACKET, kernels.FREE_FLOW, kernels.FREE_EVENT]] = -1
        return kernels.Packets(
            scalar=scalar,
            payload_bytes=ns3.payload_bytes,
            header_bytes=ns3.header_bytes,
            ack_bytes=ns3.ack_bytes,
            tx_ns=tx_ns.ravel(),
            delay_ns=delay_ns,
            window=self._links.windows(compiled.pair_src, compiled.pair_dst),
            switch=np.maximum(switch, -1).astype(np.int32),
            shift=shift[links],
            buffer_bytes=buffers,
            queued=np.zeros(len(links), np.int64),
            shared=np.zeros(topology.num_devices - topology.num_endpoints, np.int64),
            ports=ports,
            flows_of=np.empty((len(links), _FLOWS_OF_PORT), np.int32),
            flows=np.empty(_ROOM, kernels.FLOW),
            packets=np.empty(_ROOM, kernels.PACKET),
            events=np.empty(2 * _ROOM, kernels.EVENT),
            slot_head=np.full(slots, -1, np.int32),
            slot_tail=np.empty(slots, np.int32),
            block=np.zeros(slots // kernels.BLOCK, np.int32),
        )


class PacketEngine:
    """Replays a run packet by packet."""

    def __init__(self, packets: kernels.Packets, port_names: list[str]) -> None:
        self._packets, self._port_names = packets, port_names

    def __call__(self, code: tables.Code, state: tables.Progress, max_events: int, /) -> int:
        """Replay up to about `max_events` events.

        Raises
        ------
        ReplayError
            If a switch would pause a port.
        """
        while True:
            status: int = kernels.advance(code, state, self._packets, max_events)
            if status == kernels.PAUSES:
                port = self._port_names[int(state.scalar[tables.CULPRIT])]
                raise ReplayError(
                    f"{port}: the switch's buffer fills up and it would pause the link (priority flow control), which the packet "
                    "backend does not time: expected fewer or smaller messages at once, or a larger BUFFER_SIZE"
                )
            if status != kernels.CROWDED:
                return status
            self._packets = _with_room(self._packets)


def _with_room(packets: kernels.Packets) -> kernels.Packets:
    """The network with room for twice as many of everything."""
    return packets._replace(
        flows_of=np.concatenate((packets.flows_of, np.empty_like(packets.flows_of)), axis=1),
        flows=np.concatenate((packets.flows, np.empty_like(packets.flows))),
        packets=np.concatenate((packets.packets, np.empty_like(packets.packets))),
        events=np.concatenate((packets.events, np.empty_like(packets.events))),
    )


CONFIG_FILE = "ns3_config.txt"
TOPOLOGY_FILE = "ns3_topology.txt"
LOGICAL_FILE = "logical.json"
_FLOW_FILE, _TRACE_FILE = "flow.txt", "trace.txt"
FILES = (CONFIG_FILE, TOPOLOGY_FILE, LOGICAL_FILE, _FLOW_FILE, _TRACE_FILE)
"""All files that `write_ns3_files` writes."""
WRITTEN = ("mix.tr", "fct.txt", "pfc.txt", "qlen.txt")
"""Files that the backend writes."""
_MARKING_KB = ((25, 400), (40, 800), (100, 1600), (200, 2400), (400, 3200))
"""In Gbit/s and kB: the queue of a port of such a rate from which on every packet is marked (KMAX_MAP of the repository)."""
_MARKED = 0.2


def write_ns3_files(links: PacketLinks, directory: Path, *, absolute: bool = False) -> None:
    """Write the files of a network into a directory, with paths relative to the directory, or absolute paths."""
    place = f"{directory.absolute()}/" if absolute else ""
    topology = links.topology
    shape = [str(dimension.size) for dimension in topology.dimensions] or [str(topology.num_npus)]
    texts = {
        CONFIG_FILE: _configuration(links.ns3, links.rates, place),
        TOPOLOGY_FILE: links.describe(),
        LOGICAL_FILE: json.dumps({"logical-dims": shape}) + "\n",
        _FLOW_FILE: "0\n",
        _TRACE_FILE: "0\n",
    }
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")


def _configuration(ns3: Ns3Config, rates: list[int], place: str) -> str:
    """The settings of the repository's configuration, but for those that the network has, with marks for each rate.

    Paths of files begin with `place`.
    """
    highest = [_marked_kb(rate) for rate in rates]
    maps = {
        "KMAX_MAP": [f"{rate} {high}" for rate, high in zip(rates, highest, strict=True)],
        "KMIN_MAP": [f"{rate} {high // 4}" for rate, high in zip(rates, highest, strict=True)],
        "PMAX_MAP": [f"{rate} {_MARKED}" for rate in rates],
    }
    settings: dict[str, object] = {
        "ENABLE_QCN": 1,
        "USE_DYNAMIC_PFC_THRESHOLD": 1,
        "PACKET_PAYLOAD_SIZE": ns3.payload_bytes,
        "TOPOLOGY_FILE": place + TOPOLOGY_FILE,
        "FLOW_FILE": place + _FLOW_FILE,
        "TRACE_FILE": place + _TRACE_FILE,
        "TRACE_OUTPUT_FILE": place + WRITTEN[0],
        "FCT_OUTPUT_FILE": place + WRITTEN[1],
        "PFC_OUTPUT_FILE": place + WRITTEN[2],
        "SIMULATOR_STOP_TIME": 40000000000000,
        "CC_MODE": ns3.cc_mode,
        "ALPHA_RESUME_INTERVAL": 1,
        "RATE_DECREASE_INTERVAL": 4,
        "CLAMP_TARGET_RATE": 0,
        "RP_TIMER": 900,
        "EWMA_GAIN": 0.00390625,
        "FAST_RECOVERY_TIMES": 1,
        "RATE_AI": "50Mb/s",
        "RATE_HAI": "100Mb/s",
        "MIN_RATE": "100Mb/s",
        "DCTCP_RATE_AI": "1000Mb/s",
        "ERROR_RATE_PER_LINK": f"{ns3.error_rate:g}",
        "L2_CHUNK_SIZE": 4000,
        "L2_ACK_INTERVAL": ns3.ack_interval,
        "L2_BACK_TO_ZERO": 0,
        "HAS_WIN": ns3.has_window,
        "GLOBAL_T": ns3.global_window,
        "VAR_WIN": 1,
        "FAST_REACT": 1,
        "U_TARGET": 0.95,
        "MI_THRESH": 0,
        "INT_MULTI": 1,
        "MULTI_RATE": 0,
        "SAMPLE_FEEDBACK": 0,
        "PINT_LOG_BASE": 1.05,
        "PINT_PROB": 1.0,
        "NIC_TOTAL_PAUSE_TIME": ns3.nic_pauses,
        "RATE_BOUND": 1,
        "ACK_HIGH_PRIO": 0,
        "LINK_DOWN": "0 0 0",
        "ENABLE_TRACE": 0,
        **{name: f"{len(rates)} {' '.join(entries)}" for name, entries in maps.items()},
        "BUFFER_SIZE": ns3.buffer_mib,
        "QLEN_MON_FILE": place + WRITTEN[3],
        "QLEN_MON_START": 0,
        "QLEN_MON_END": 20000,
    }
    return "".join(f"{name} {value}\n" for name, value in settings.items())


def _marked_kb(bits_per_s: int) -> int:
    """The marking of the largest listed rate that is no larger; of the smallest one below it."""
    gigabits = np.array([rate for rate, _ in _MARKING_KB])
    return _MARKING_KB[max(int(np.searchsorted(gigabits, bits_per_s / 1e9, side="right")) - 1, 0)][1]
