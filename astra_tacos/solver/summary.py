"""Summaries of networks and of programs of collectives, as `inspect` shows them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import read_network
from astra_tacos.network.topology import Topology
from astra_tacos.support.units import format_size
from astra_tacos.verifier.msccl_file import STEP_TYPES, read_msccl_xml
from astra_tacos.verifier.mscclpp_file import read_mscclpp_plan
from astra_tacos.verifier.program import examine_msccl_file, examine_plan_file


def summarise_network(path: Path) -> dict[str, Any]:
    """The content of a network file."""
    network = read_network(path)
    topology = build_topology(network, may_forward=True)
    bandwidth, latency = topology.link_bandwidth_gibps, topology.link_latency_ns
    switches = [f"{topology.num_npus} to {topology.num_devices - 1}"] if topology.has_switches else []
    return {
        "topology": topology.describe_shape(),
        "npus": topology.num_endpoints,
        "switches": topology.num_switches,
        "switch_ids": switches,
        **(_fabric(topology) if topology.forwarding else {}),
        "links": topology.num_links,
        "channels": topology.num_channels,
        "dimensions": [
            f"{d.block} of {d.size}, {d.bandwidth_gibps:g} GB/s (2^30 B/s), {d.latency_ns:g} ns" for d in network.dimensions
        ],
        "bandwidth_gibps": {"least": float(bandwidth.min()), "most": float(bandwidth.max())},
        "latency_ns": {"least": float(latency.min()), "most": float(latency.max())},
        "failed_links": [f"{src} -> {dst}" for src, dst in network.failed_links],
        "overridden_links": [f"{link.src} -> {link.dst}" for link in network.link_overrides],
    }


def _fabric(topology: Topology) -> dict[str, Any]:
    """What there is to say of a graph with devices that only forward."""
    from astra_tacos.bounds.cut import bisection_gibps
    from astra_tacos.network.packet_links import hops_between_npus

    kinds = Counter(device.kind for device in topology.forwarding)
    hops, bisection = hops_between_npus(topology), bisection_gibps(topology)
    return {
        "forwarding": dict(sorted(kinds.items())),
        "forwarding_ids": f"{topology.num_endpoints} to {topology.num_npus - 1}",
        **({"reducing": _reducing(topology)} if topology.reducing else {}),
        "diameter_links": hops,
        "bisection_gibps": {"least found": bisection},
    }


def _reducing(topology: Topology) -> dict[str, str]:
    """The limits of devices that add, by their ids."""
    ids: dict[str, list[int]] = {}
    for device in topology.reducing:
        ids.setdefault(device.describe(), []).append(device.device)
    return {", ".join(map(str, devices)): limits for limits, devices in ids.items()}


def summarise_plan(path: Path) -> dict[str, Any]:
    """The content of an MSCCL++ plan, and the verdict on it."""
    file = read_mscclpp_plan(path)
    verdict = examine_plan_file(file).verdict
    chunks = zip(("input", "output", "scratch"), file.gpus[0].chunks, strict=True)
    ops = Counter(op.name for gpu in file.gpus for block in gpu.blocks for op in block)
    return {
        "collective": verdict.collective or file.coll,
        "protocol": file.protocol,
        "buffers": "in place" if file.in_place else "out of place",
        "npus": file.num_npus,
        "chunks": dict(chunks),
        "thread_blocks": sum(len(gpu.blocks) for gpu in file.gpus),
        "operations": dict(sorted(ops.items())),
        "messages": verdict.num_messages,
        "proven": verdict.proven,
        "unchecked": verdict.unchecked or "nothing",
        "violations": len(verdict.violations),
    }


def summarise_xml(path: Path) -> dict[str, Any]:
    """The content of an MSCCL XML, and the verdict on it."""
    file = read_msccl_xml(path)
    verdict = examine_msccl_file(file).verdict
    counts = np.bincount(file.kind, minlength=len(STEP_TYPES)).tolist()
    names = {True: "in place", False: "out of place"}
    return {
        "collective": verdict.collective or f"{file.coll} (unknown)",
        "dialect": "MSCCL" if file.original else "msccl-executor-nccl and RCCL",
        "protocol": file.protocol or "none",
        "buffers": [names[placement] for placement in file.placements],
        "npus": verdict.num_ranks,
        "chunks": file.num_chunks,
        "channels": file.num_channels,
        "thread_blocks": len(file.blocks),
        "steps": {kind: count for kind, count in zip(STEP_TYPES, counts, strict=True) if count},
        "copies": len(file.copies),
        "messages": verdict.num_messages,
        "proven": verdict.proven,
        "unchecked": f"result: {verdict.unchecked}" if verdict.unchecked else "nothing",
        "violations": len(verdict.violations),
        "size_of_file": format_size(path.stat().st_size),
    }
