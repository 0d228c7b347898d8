"""The files that ASTRA-sim's ns-3 backend reads besides those of a run: links, configuration, shape for native algorithms.

Formats: `astra-network-ns3`, `scratch/common.h` (`ReadConf`, `SetupNetwork`); `astra-sim`,
`network_frontend/ns3/AstraSimNetwork.cc`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from astra_tacos.network.ns3 import Ns3Config
from astra_tacos.network.packet_links import PacketLinks

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
    """Write the files for a network into a directory, with paths from there, or absolute ones for starts from elsewhere."""
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
