"""ns-3's physical topology: read, and written.

Format (`astra-network-ns3`, `scratch/common.h`, `SetupNetwork`): numbers of nodes, switches and links; ids of switches; then of
each link both ends, rate, delay and error rate. A line is a link in both directions. Lines that give a pair of nodes again name
the same ports there, so they are one link here, and have to agree. SimAI's files (`gen_Topo_Template.py`) begin with numbers of
nodes, GPUs of a server, NVSwitches, other switches and links, and the type of the GPUs; NVSwitches are among the switches' ids.
"""

from __future__ import annotations

import re
from pathlib import Path

from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.draft import FabricDraft
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_writable, replaced_file
from astra_tacos.support.formats.numbers import short_number
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.support.formats.values import describe
from astra_tacos.support.units import GIB_PER_GB

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([GMk]?)bps")
_DELAY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|ms|us|ns)")
_BITS = {"G": 1e9, "M": 1e6, "k": 1e3, "": 1.0}
_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


def read_ns3_topology(path: Path) -> NetworkConfig:
    """The network of a physical topology; nodes that are no switches are NPUs, and have the lowest ids.

    Raises
    ------
    ConfigError
        If the file is none, in one line that says where.
    """
    lines = [(number, line.split()) for number, line in enumerate(read_text(path).splitlines(), 1) if line.split()]
    num_nodes, num_switches, num_links = _header(path, lines[0][1] if lines else [])
    if len(lines) < 2:
        raise ConfigError(f"{path}: no links, expected {num_links} as in line 1")
    words = lines[1][1] if num_switches else []
    rows = lines[2:] if num_switches else lines[1:]
    switches = {_node(path, lines[1][0], word, num_nodes) for word in words}
    if len(switches) != num_switches:
        raise ConfigError(f"{path}:{lines[1][0]}: {len(switches)} switches, expected {num_switches} as in line 1")
    if len(rows) != num_links:
        raise ConfigError(f"{path}: {len(rows)} links, expected {num_links} as in line 1")
    draft = FabricDraft(str(path))
    for node in range(num_nodes):
        draft.add("switch" if node in switches else "npu", f"node{node}" if node in switches else "")
    seen: dict[tuple[int, int], tuple[float, float]] = {}
    for number, fields in rows:
        if len(fields) != 5:
            raise ConfigError(f"{path}:{number}: {len(fields)} fields, expected source, destination, rate, delay and error rate")
        end, other = (_node(path, number, word, num_nodes) for word in fields[:2])
        rate, delay = _RATE.fullmatch(fields[2]), _DELAY.fullmatch(fields[3])
        if rate is None or delay is None or end == other:
            raise ConfigError(
                f"{path}:{number}: {describe(' '.join(fields))}, expected two nodes, a rate as 100Gbps and a delay as 1us"
            )
        if fields[4].strip("0.") != "":
            raise ConfigError(
                f"{path}:{number}: error rate {describe(fields[4])}, expected 0: links of astra_tacos lose no packets"
            )
        link = float(rate[1]) * _BITS[rate[2]] / 8e9, float(delay[1]) * _NS[delay[2]]
        pair = min(end, other), max(end, other)
        if seen.setdefault(pair, link) != link:
            raise ConfigError(f"{path}:{number}: nodes {end} and {other} again with another rate or delay, expected one link")
    for (end, other), (gbps, latency) in seen.items():
        draft.connect(end, other, gbps, latency)
    return draft.to_network()


def _header(path: Path, words: list[str]) -> tuple[int, int, int]:
    """Numbers of nodes, switches and links."""
    counts = words[:5] if len(words) == 6 else words
    if len(counts) not in (3, 5) or not all(word.isascii() and word.isdigit() for word in counts):
        header = describe(" ".join(words)) if words else "an empty file"
        simai = "SimAI's of nodes, GPUs of a server, NVSwitches, switches, links, and a type of GPU"
        raise ConfigError(f"{path}:1: found {header}, expected the numbers of nodes, switches and links, or {simai}")
    numbers = [int(word[:9]) for word in counts]
    return (numbers[0], numbers[2] + numbers[3], numbers[4]) if len(numbers) == 5 else (numbers[0], numbers[1], numbers[2])


def _node(path: Path, line: int, word: str, num_nodes: int) -> int:
    node = short_number(word)
    if not 0 <= node < num_nodes:
        raise ConfigError(f"{path}:{line}: node is {describe(word)}, expected 0 to {num_nodes - 1}")
    return node


def ns3_topology_text(network: NetworkConfig) -> str:
    """A graph with devices that forward as a physical topology.

    Raises
    ------
    ConfigError
        If links are parallel, or the two directions of one differ or are missing: a line of the format is a link both ways. Also
        if devices add, which the format cannot say.
    """
    if network.reducing:
        raise ConfigError(f"{network.source}: found devices that add (reducing), which ns-3's file does not have, expected none")
    if not network.links:
        raise ConfigError(f"{network.source}: found dimensions, expected a list of links")
    if network.failed_links or network.link_overrides:
        raise ConfigError(f"{network.source}: found failed or overridden links, expected none")
    links: dict[tuple[int, int], tuple[float | None, float | None]] = {}
    for link in network.links:
        if (link.src, link.dst) in links:
            raise ConfigError(f"{network.source}: {link.src} -> {link.dst} are parallel links, which ns-3's file does not have")
        links[link.src, link.dst] = link.bandwidth_gibps, link.latency_ns
    rows = []
    for (src, dst), (speed, latency) in links.items():
        if links.get((dst, src)) != (speed, latency):
            raise ConfigError(f"{network.source}: {src} -> {dst} has no equal link back, expected the same both ways")
        if src < dst:
            assert speed is not None and latency is not None
            rows.append(f"{src} {dst} {round(speed / GIB_PER_GB * 8e9)}bps {latency:.17g}ns 0")
    first = network.num_npus
    switches = range(first, first + len(network.forwarding))
    head = [f"{first + len(switches)} {len(switches)} {len(rows)}"]
    return "\n".join([*head, *([" ".join(map(str, switches))] if len(switches) else []), *rows]) + "\n"


def write_ns3_topology(network: NetworkConfig, output: Path) -> int:
    """Write that text to a file; returns the number of its links.

    Raises
    ------
    ConfigError
        If the file cannot be written, or the format cannot say what the network has.
    """
    check_writable(output)
    build_topology(network, may_forward=True)
    text = ns3_topology_text(network)
    with replaced_file(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return len(network.links) // 2
