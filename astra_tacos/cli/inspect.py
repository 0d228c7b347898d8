"""`astra-tacos inspect`: a summary of any file that this package reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.command import command
from astra_tacos.cli.console import compile_ahead, print_json, print_rows, print_table
from astra_tacos.cli.inputs import Kind, identify
from astra_tacos.cli.options import json_option
from astra_tacos.solver.first_use import INSPECTING
from astra_tacos.support.units import format_size

if TYPE_CHECKING:
    from astra_tacos.network.topology import Topology

_LISTED = 16


@command()
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def inspect(path: Path, as_json: bool) -> None:
    """Show the content of PATH: a network, trace (file or prefix), schedule, MSCCL XML, MSCCL++ plan or run directory.

    Also a trace of PyTorch, as JSON, compressed, or in an archive: collectives, time of computation, critical path.
    """
    kind, target = identify(path)
    if kind is Kind.NETWORK:
        result = _network(target)
    elif kind is Kind.TRACE:
        result = _trace(target)
    elif kind is Kind.MSCCL_XML:
        result = _xml(target)
    elif kind is Kind.MSCCLPP_PLAN:
        result = _plan(target)
    elif kind is Kind.SYMMETRIC:
        result = _symmetric(target)
    elif kind is Kind.PYTORCH:
        result = _pytorch(target)
    else:
        result = _schedule(target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target)
    result = {"path": str(path), "kind": str(kind), **result}
    if as_json:
        print_json(result)
        return
    collectives = result.pop("collectives", [])
    print_rows((key.replace("_", " "), _text(value)) for key, value in result.items())
    if collectives:
        from astra_tacos.report.trace_summary import COLLECTIVES_HEADER, collective_rows

        title, rows = collective_rows(collectives)
        print_table(title, COLLECTIVES_HEADER, rows)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        more = [f"and {len(value) - _LISTED:,} more"] if len(value) > _LISTED else []
        return "; ".join([*map(_text, value[:_LISTED]), *more]) if value else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return str(value)


def _network(path: Path) -> dict[str, Any]:
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import read_network

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
    from collections import Counter

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


def _trace(prefix: Path) -> dict[str, Any]:
    from astra_tacos.report.trace_summary import summarise_trace
    from astra_tacos.run.trace.reader import read_trace

    compile_ahead(*INSPECTING)
    return summarise_trace(read_trace(prefix, workload=True))


def _pytorch(path: Path) -> dict[str, Any]:
    from astra_tacos.workload.importer.summary import summarise_files

    return summarise_files((path,))


def _schedule(path: Path) -> dict[str, Any]:
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.schedule.schedule import check_rows
    from astra_tacos.schedule.storage import load_schedule

    schedule = load_schedule(path)
    check_rows(schedule)
    return certify(schedule)


def _symmetric(path: Path) -> dict[str, Any]:
    from astra_tacos.bounds.symmetric import certify_symmetric
    from astra_tacos.schedule.symmetric_schedule import load_symmetric_schedule

    return certify_symmetric(load_symmetric_schedule(path))


def _plan(path: Path) -> dict[str, Any]:
    from collections import Counter

    from astra_tacos.verifier.mscclpp_file import read_mscclpp_plan
    from astra_tacos.verifier.program import judge_plan_file

    file = read_mscclpp_plan(path)
    verdict = judge_plan_file(file)
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


def _xml(path: Path) -> dict[str, Any]:
    import numpy as np

    from astra_tacos.verifier.msccl_file import STEP_TYPES, read_msccl_xml
    from astra_tacos.verifier.program import judge_msccl_file

    file = read_msccl_xml(path)
    verdict = judge_msccl_file(file)
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
