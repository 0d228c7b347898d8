"""The certificate of a symmetric schedule, without an array of NPUs: the keys of `certify`, in time proportional to its rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.certificate import efficiency_of, is_optimal
from astra_tacos.bounds.symmetric import chunked_symmetric_bound, symmetric_bounds
from astra_tacos.network.network_config import describe_dimensions
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask
from astra_tacos.schedule.symmetric_time import exact_symmetric_ns
from astra_tacos.schedule.timing import MOST_TRUNCATED


def certify_symmetric(schedule: SymmetricSchedule) -> dict[str, Any]:
    """Figures of a symmetric schedule, ready for JSON; see `certify`. Links stand for all links of their class.

    All chunks count as the largest. `rows` are the sends of NPU 0's chunks.
    """
    task = schedule.task
    bounds = symmetric_bounds(task)
    bound: Bound = max(bounds, key=lambda each: each.time_ns)
    chunked = chunked_symmetric_bound(task)
    time = max(schedule.collective_time_ns, 1)
    exact_ns = exact_symmetric_ns(schedule)
    possible = time if time >= (1 - MOST_TRUNCATED) * exact_ns else math.ceil(exact_ns)
    algorithm_bandwidth = task.buffer_bytes / possible
    efficiency = efficiency_of(time, bound.time_ns)
    smallest = task.size_bytes // task.num_parts
    return {
        "network": task.name,
        "topology": describe_dimensions(task.dimensions),
        "num_npus": task.num_npus,
        "num_links": sum(d.building_block.num_links(d.size) * (task.num_npus // d.size) for d in task.dimensions),
        "collective": task.collective,
        "size_bytes": task.size_bytes,
        "chunks_per_npu": task.chunks_per_npu,
        "root": None,
        "num_chunks": task.num_chunks * task.num_npus,
        "chunk_bytes": sorted({smallest, task.chunk_bytes}),
        "synthesizer": schedule.synthesizer,
        "seed": 0,
        "link_model": task.link_model,
        "reduce_bandwidth_gbps": task.reduce_bandwidth_gbps,
        "num_sends": schedule.num_sends,
        "num_messages": schedule.num_sends,
        "rows": schedule.num_rows,
        "predicted_ns": time,
        "exact_ns": round(exact_ns, 3),
        "possible_ns": possible,
        "bound_ns": bound.time_ns,
        "bound": bound.name,
        "bound_where": bound.where,
        "bound_npus": [],
        "bound_links": [],
        "bounds_ns": {each.name: each.time_ns for each in bounds},
        "chunked_bound_ns": chunked.time_ns,
        "chunked_bound": chunked.name,
        "chunked_bound_where": chunked.where,
        "efficiency": None if efficiency is None else efficiency_of(possible, bound.time_ns),
        "below_bound_ns": max(bound.time_ns - time, 0),
        "optimal": efficiency is not None and is_optimal(possible, bound.time_ns),
        "algorithm_bandwidth_gbps": algorithm_bandwidth,
        "bus_bandwidth_gbps": algorithm_bandwidth * task.num_phases * (task.num_npus - 1) / task.num_npus,
        **_class_extremes(schedule),
    }


def class_busy_ns(schedule: SymmetricSchedule) -> NDArray[np.int64]:
    """int64[num_classes], how long each link of a class is held in all."""
    task = schedule.task
    return np.bincount(schedule.link_class, minlength=len(task.classes)) * task.hold_ns


def link_busy_ns(schedule: SymmetricSchedule, network: Topology) -> NDArray[np.int64]:
    """int64[num_links], how long each link is held in all: as long as its class, a port into an NPU as long as one out of it.

    Parameters
    ----------
    schedule
        The schedule.
    network
        Its network, with all links.
    """
    task, busy = schedule.task, class_busy_ns(schedule)
    held = np.zeros(network.num_links, np.int64)
    is_direct = (network.link_src < network.num_npus) & (network.link_dst < network.num_npus)
    ends = network.link_src[is_direct].astype(np.int64), network.link_dst[is_direct].astype(np.int64)
    held[is_direct] = busy[task.table.class_of_offset[task.group.offset(*ends)]]
    for at, each in enumerate(task.classes):
        if each.through_switch:
            held[~is_direct & (network.link_dimension == each.dimension)] = busy[at]
    return held


def _class_extremes(schedule: SymmetricSchedule) -> dict[str, Any]:
    busy = class_busy_ns(schedule)
    time = max(schedule.collective_time_ns, 1)
    extremes = {"busiest_link": int(busy.argmax()), "idlest_link": int(busy.argmin())}
    return {
        name: {"link": describe_class(schedule.task, at), "busy_share": float(busy[at] / time)} for name, at in extremes.items()
    }


def describe_class(task: SymmetricTask, at: int) -> str:
    """A class of links, by number, in words."""
    each = task.classes[at]
    dimension = task.dimensions[each.dimension]
    if each.through_switch:
        return f"every NPU's port of dimension {each.dimension} ({dimension.block} {dimension.size})"
    end = int(each.moves[0]) * task.group.strides[each.dimension]
    return f"0 -> {end} and all that translations make of it"
