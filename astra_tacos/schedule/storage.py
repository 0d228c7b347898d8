"""Schedules on disk: one `.npz` that holds the sends, the topology's links and the collective."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from astra_tacos.collective import PERSONALISED, ROOTED, UNEQUAL, make_collective
from astra_tacos.collective.all_to_allv import check_parts, of_chunks
from astra_tacos.collective.collective import MAX_CHUNKS, Collective
from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.devices import FORWARDING_KINDS, ForwardingDevice, ReducingDevice, check_reducing
from astra_tacos.network.network_config import MAX_BANDWIDTH_GIBPS, MAX_LATENCY_NS, MAX_NPUS, MIN_BANDWIDTH_GIBPS, Dimension
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.partial_sums import NO_NPU, PartialSums
from astra_tacos.schedule.schedule import LINK_ORDERS, Schedule
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel, compute_timing
from astra_tacos.support.archive import Archive, opened_archive, text, whole, write_archive
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import is_number
from astra_tacos.support.formats.values import are_texts, describe
from astra_tacos.support.units import MAX_SIZE_BYTES

FORMAT = "astra_tacos schedule 1"
_SENDS = {"chunk": np.int32, "channel": np.int32, "reduces": np.bool_, "start_ns": np.int64, "end_ns": np.int64}
_SUMS = {"chunk": np.int32, "npu": np.int32, "part_first": np.int64, "part": np.int32, "total": np.int32}
LINKS = {
    "link_src": np.int32,
    "link_dst": np.int32,
    "link_bandwidth_gibps": np.float64,
    "link_latency_ns": np.float64,
    "link_dimension": np.int16,
}
_UNEQUAL = {"part_bytes": np.int64, "chunk_size_bytes": np.int64, "chunk_owner": np.int32, "chunk_target": np.int32}
"""Columns of a collective whose parts have sizes of their own; `part_bytes` row by row."""
_TRACES = ("link_order", "in_flight")
_LAST_NS = 1 << 60
"""Times in a file, of either sign: sums fit int64."""
_LIMITS = ((MIN_BANDWIDTH_GIBPS, MAX_BANDWIDTH_GIBPS), (0, MAX_LATENCY_NS))
"""Of the bandwidth and latency of a link, as for network files."""
_FEW_CHUNKS = 1 << 20
"""So many chunks take little memory, whatever the number of sends."""


def save_schedule(schedule: Schedule, path: str | Path) -> None:
    """Write a schedule, with everything needed to read it back, through a temporary file beside it.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, load_schedule, save_schedule, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> save_schedule(schedule, "ring.npz")
    >>> load_schedule("ring.npz").num_sends == schedule.num_sends
    True
    """
    header = _describe(schedule)
    arrays: dict[str, NDArray[Any]] = {name: getattr(schedule, name) for name in _SENDS}
    arrays |= {name: getattr(schedule.topology, name) for name in LINKS}
    if schedule.message_first is not None:
        arrays["message_first"] = schedule.message_first
    if schedule.sums is not None and schedule.value is not None:
        arrays["value"] = schedule.value
        arrays |= {f"sums_{name}": getattr(schedule.sums, name) for name in _SUMS}
    if schedule.trip is not None:
        arrays["trip"] = schedule.trip
    if schedule.collective.part_bytes is not None:
        arrays |= {name: getattr(schedule.collective, name).ravel() for name in _UNEQUAL}
    header["messages"], header["sums"] = schedule.message_first is not None, schedule.sums is not None
    header |= {name: getattr(schedule, name) for name in _TRACES if getattr(schedule, name) is not None}
    write_archive(Path(path), np.array(json.dumps(header)), arrays)


def load_schedule(path: str | Path) -> Schedule:
    """Read a schedule. Its sends are not checked: `verify` decides whether they are legal.

    Raises
    ------
    ConfigError
        If the file is not a schedule, or its parts do not fit one another.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, load_schedule, save_schedule
    >>> from astra_tacos import synthesize, verify
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> save_schedule(schedule, "ring.npz")
    >>> verify(load_schedule("ring.npz"))
    ()
    """
    path = Path(path)
    with opened_archive(path, "schedule") as archive:
        header = archive.header(FORMAT)
        sends = columns_of_sends(archive, _SENDS)
        links = archive.columns(LINKS)
        unequal = archive.columns(_UNEQUAL) if header.get("collective") in UNEQUAL else None
        topology = _topology(header, links)
        collective = _collective(header, len(sends["chunk"])) if unequal is None else _unequal(header, unequal)
        timing = compute_timing(topology, collective, *timing_model(header))
        more: dict[str, Any] = {"synthesizer": text(header, "synthesizer"), "seed": whole(header, "seed", (1 << 64) - 1)}
        if header.get("messages"):
            more |= archive.columns({"message_first": np.int64})
        if header.get("sums"):
            more |= archive.columns({"value": np.int32})
            more["sums"] = _sums(archive.columns(_SUMS, "sums_"), collective)
        if topology.forwarding:
            more |= archive.columns({"trip": np.int32})
            if len(more["trip"]) != len(sends["chunk"]) or more["trip"].min(initial=0) < 0:
                raise ValueError("the trips of its sends do not fit")
        return Schedule(topology, collective, timing, **sends, **more, **_of_traces(header))


def _of_traces(header: dict[str, Any]) -> dict[str, Any]:
    """How traces keep the order of sends on a link."""
    link_order, in_flight = (header.get(name) for name in _TRACES)
    if link_order is not None and link_order not in LINK_ORDERS:
        raise ValueError(f"link_order is {describe(link_order)}")
    if in_flight is not None:
        whole(header, "in_flight", _LAST_NS)
    return {"link_order": link_order, "in_flight": in_flight}


def _sums(columns: dict[str, NDArray[Any]], collective: Collective) -> PartialSums:
    """Values that make sense: of existing chunks and NPUs, parts before their sum."""
    chunk, npu, first, part, total = (columns[name] for name in _SUMS)
    if len(chunk) != len(npu) or len(first) != len(chunk) + 1 or len(total) != collective.num_chunks:
        raise ValueError("the columns of its partial sums do not fit one another")
    if first[0] != 0 or first[-1] != len(part) or np.any(np.diff(first) < 0):
        raise ValueError("the parts of its partial sums do not fit")
    if chunk.min(initial=0) < 0 or chunk.max(initial=-1) >= collective.num_chunks:
        raise ValueError("a partial sum is of no chunk")
    if npu.min(initial=0) < NO_NPU or npu.max(initial=-1) >= collective.num_npus:
        raise ValueError("a contribution is of no NPU")
    whole = np.repeat(np.arange(len(chunk)), np.diff(first))
    if np.any((part < 0) | (part >= whole)) or total.min(initial=0) < 0 or total.max(initial=-1) >= len(chunk):
        raise ValueError("a partial sum has a part that does not come before it")
    return PartialSums(chunk, npu, first, part, total)


def _describe(schedule: Schedule) -> dict[str, Any]:
    """Everything that a schedule refers to except its links: the header of its file, ready for JSON."""
    topology, collective = schedule.topology, schedule.collective
    return {
        "format": FORMAT,
        "network": topology.name,
        "num_npus": topology.num_npus,
        "num_switches": topology.num_switches,
        **({"forwarding": [[device.kind, device.name] for device in topology.forwarding]} if topology.forwarding else {}),
        **({"reducing": [list(astuple(device)) for device in topology.reducing]} if topology.reducing else {}),
        "dimensions": [list(astuple(dimension)) for dimension in topology.dimensions],
        "collective": collective.name,
        "size_bytes": collective.size_bytes,
        "chunks_per_npu": collective.chunks_per_npu,
        "owners": _owners(collective),
        "root": collective.root,
        "members": None if collective.members is None else collective.members.tolist(),
        "link_model": schedule.timing.link_model,
        "reduce_bandwidth_gbps": schedule.timing.reduce_bandwidth_gbps,
        "synthesizer": schedule.synthesizer,
        "seed": schedule.seed,
    }


def columns_of_sends(archive: Archive, kinds: Mapping[str, DTypeLike]) -> dict[str, Any]:
    """Columns of equal length, with times that are small enough to be added up, else ValueError."""
    columns = archive.columns(kinds)
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("the columns of its sends differ in length")
    for column in (columns["start_ns"], columns["end_ns"]):
        if column.min(initial=0) < -_LAST_NS or column.max(initial=0) > _LAST_NS:
            raise ValueError(f"a send is later than {_LAST_NS} ns, or as much too early")
    return columns


def _topology(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Topology:
    num_npus, num_switches = whole(header, "num_npus", MAX_NPUS), whole(header, "num_switches", 64 * MAX_NPUS)
    links = [arrays[name] for name in LINKS]
    if len({len(column) for column in links}) != 1 or not len(links[0]):
        raise ValueError("the columns of its links differ in length or are empty")
    if num_npus < 2 or num_npus + num_switches > 2 * len(links[0]):
        raise ValueError(f"{num_npus} NPUs and {num_switches} switches with {len(links[0])} links")
    for ends in links[:2]:
        if ends.min() < 0 or ends.max() >= num_npus + num_switches:
            raise ValueError("a link leads to no device")
    if np.any(links[0] == links[1]):
        raise ValueError("a link leads from a device to itself")
    for column, (least, most), unit in zip(links[2:4], _LIMITS, ("GiB/s", "ns"), strict=True):
        wrong = ~((column >= least) & (column <= most))
        if wrong.any():
            raise ValueError(f"a link has {column[wrong][0]:g} {unit}, expected {least:g} to {most:g}")
    dimensions = tuple(dimension(*entry) for entry in header["dimensions"])
    if dimensions and not (links[4].min() >= 0 and links[4].max() < len(dimensions)):
        raise ValueError("a link belongs to no dimension")
    columns = {name: arrays[name] for name in LINKS}
    forwarding = tuple(_forwarding(entry) for entry in header.get("forwarding", ()))
    if forwarding and (dimensions or num_switches or num_npus - len(forwarding) < 2):
        raise ValueError(f"{len(forwarding)} of {num_npus} devices only forward")
    reducing = tuple(_reducing(entry) for entry in header.get("reducing", ()))
    if reducing:
        try:
            check_reducing("its header", reducing, num_npus - len(forwarding), num_npus)
        except ConfigError as error:
            raise ValueError(str(error)) from None
    name = text(header, "network")
    return Topology(name, num_npus, num_switches, **columns, dimensions=dimensions, forwarding=forwarding, reducing=reducing)


def _reducing(entry: object) -> ReducingDevice:
    """A reducing device of a header, else ValueError."""
    if isinstance(entry, list) and len(entry) == 4:
        device, window, ports, takes = entry
        if type(device) is type(takes) is int and all(limit is None or type(limit) is int for limit in (window, ports)):
            return ReducingDevice(device, window, ports, takes)
    raise ValueError(f"a reducing device is {describe(entry)}")


def _forwarding(entry: object) -> ForwardingDevice:
    """A forwarding device of a header, else ValueError."""
    if not are_texts(entry) or len(entry) != 2 or entry[0] not in FORWARDING_KINDS:
        raise ValueError(f"a forwarding device is {describe(entry)}")
    return ForwardingDevice(*entry)


def dimension(block: object, size: object, bandwidth_gibps: object, latency_ns: object) -> Dimension:
    """A dimension of a header, else ValueError."""
    block_document = {"block": block, "size": size}
    speed, latency = number(bandwidth_gibps, MAX_BANDWIDTH_GIBPS), number(latency_ns, MAX_LATENCY_NS)
    read = Dimension(text(block_document, "block"), whole(block_document, "size", MAX_NPUS), speed, latency)
    known = BUILDING_BLOCKS.get(read.block)
    if known is None or read.size < 2 or known.expected_size(read.size) is not None:
        raise ValueError(f"a dimension is {describe(read.block)} of {read.size}")
    return read


def number(value: object, most: float = sys.float_info.max) -> float:
    """A number of a header, 0 to `most`, else ValueError."""
    if not is_number(value, 0, most):
        limit = "0 or more" if most == sys.float_info.max else f"0 to {most:g}"
        raise ValueError(f"{describe(value)}, expected a number of {limit}")
    return float(value)


def _collective(header: dict[str, Any], num_sends: int) -> Collective:
    num_npus = whole(header, "num_npus", MAX_NPUS)
    root = None if header.get("root") is None else whole(header, "root", MAX_NPUS)
    members = header.get("members")
    if members is not None:
        members = [whole({"a member": member}, "a member", MAX_NPUS) for member in members]
    name, chunks = text(header, "collective"), whole(header, "chunks_per_npu", MAX_CHUNKS)
    parts = len(members or range(num_npus))
    owners = None if header.get("owners") is None else whole(header, "owners", MAX_NPUS)
    num_chunks = chunks * (1 if name in ROOTED else owners or parts) * (parts - 1 if name in PERSONALISED else 1)
    if num_chunks > max(_FEW_CHUNKS, num_sends):
        raise ValueError(f"{num_sends:,} sends of {num_chunks:,} chunks")
    return make_collective(name, num_npus, whole(header, "size_bytes", MAX_SIZE_BYTES), chunks, root, members, owners)


def _unequal(header: dict[str, Any], columns: dict[str, NDArray[Any]]) -> Collective:
    """A collective whose parts have sizes of their own; the oracle decides whether its chunks are these parts."""
    num_npus = whole(header, "num_npus", MAX_NPUS)
    members = header.get("members")
    npus = np.array(range(num_npus) if members is None else members, np.int64)
    parts, size, owner, target = (columns[name] for name in _UNEQUAL)
    if len(parts) != len(npus) ** 2 or not len(size) == len(owner) == len(target) or not len(size):
        raise ValueError("the columns of its parts do not fit one another")
    if np.any(np.diff(npus) <= 0) or npus[0] < 0 or npus[-1] >= num_npus:
        raise ValueError("its members are no NPUs")
    if size.min() < 1 or not np.isin(owner, npus).all() or not np.isin(target, npus).all() or np.any(owner == target):
        raise ValueError("a chunk has no size, or no member that it comes from or goes to")
    matrix = check_parts(parts.reshape(len(npus), len(npus)))
    largest, chunks = whole(header, "size_bytes", MAX_SIZE_BYTES), whole(header, "chunks_per_npu", MAX_CHUNKS)
    collective = of_chunks(matrix, largest, chunks, size, owner, target)
    return replace(collective, num_npus=num_npus, members=None if members is None else npus.astype(np.int32))


def _owners(collective: Collective) -> int | None:
    """The number of NPUs that own chunks, None if all members (or the root) do."""
    owners = len(np.unique(collective.chunk_owner))
    return owners if collective.num_phases == 2 and owners < collective.num_members else None


def timing_model(header: dict[str, Any]) -> tuple[LinkModel, float]:
    """The link model of a header, and the GB/s at which NPUs reduce, else ValueError."""
    model: Any = text(header, "link_model")
    if model not in LINK_MODELS:
        raise ValueError(f"link model {describe(model)}")
    return model, number(header["reduce_bandwidth_gbps"])
