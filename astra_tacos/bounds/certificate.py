"""The certificate of a schedule: its time and bandwidths, next to the lower bounds on its time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from astra_tacos.bounds import all_bounds, chunked_lower_bound, largest
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import MOST_TRUNCATED


def certify(schedule: Schedule) -> dict[str, Any]:
    """Figures of a schedule, ready for JSON. Bandwidths are decimal GB/s, as nccl-tests has them.

    `bound_ns` bounds every algorithm and every chunking, `chunked_bound_ns` only schedules that send these chunks one at a time
    (null for others). `exact_ns` is the time in arithmetic that truncates nothing. `possible` says
    whether links can carry the schedule in `predicted_ns`; where truncation makes that more than 0.5% shorter, bandwidths and the
    efficiency are of `exact_ns`. `bound`
    is the one that binds, `bound_where`, `bound_npus` and `bound_links` say where (the NPUs behind a cut, and its links), and
    `bounds_ns` lists all. For `efficiency` and `optimal` see `efficiency_of`, `is_optimal`. `below_bound_ns` is what truncation
    takes off the bound itself. Link shares are of the predicted time.
    """
    topology, collective, timing = schedule.topology, schedule.collective, schedule.timing
    bounds = all_bounds(topology, collective, timing)
    bound = largest(bounds)
    # Chunks of unequal sizes count as the smallest in that bound, which says nothing then.
    is_by_chunk = collective.part_bytes is None and schedule.message_first is None and schedule.sums is None
    chunked = chunked_lower_bound(topology, collective, timing) if is_by_chunk else None
    time = max(schedule.collective_time_ns, 1)
    exact_ns = exact_time_ns(schedule)
    possible = time if time >= (1 - MOST_TRUNCATED) * exact_ns else math.ceil(exact_ns)
    algorithm_bandwidth = collective.buffer_bytes / possible
    efficiency = efficiency_of(time, bound.time_ns)
    return {
        "network": topology.name,
        "topology": topology.describe_shape(),
        "num_npus": topology.num_endpoints,
        **({"num_forwarding": len(topology.forwarding)} if topology.forwarding else {}),
        "num_links": topology.num_links,
        "collective": collective.name,
        "size_bytes": collective.size_bytes,
        "chunks_per_npu": collective.chunks_per_npu,
        "root": collective.root,
        "num_chunks": collective.num_chunks,
        "chunk_bytes": [int(size) for size in collective.class_size_bytes],
        "synthesizer": schedule.synthesizer,
        "seed": schedule.seed,
        "link_model": timing.link_model,
        "reduce_bandwidth_gbps": timing.reduce_bandwidth_gbps,
        "num_sends": schedule.num_sends,
        "num_messages": schedule.num_messages,
        "predicted_ns": time,
        "exact_ns": round(exact_ns, 3),
        "possible": possible == time,
        "bound_ns": bound.time_ns,
        "bound": bound.name,
        "bound_where": bound.where,
        "bound_npus": list(bound.npus),
        "bound_links": [topology.describe_link(link) for link in bound.links],
        "bounds_ns": {each.name: each.time_ns for each in bounds},
        "chunked_bound_ns": None if chunked is None else chunked.time_ns,
        "chunked_bound": None if chunked is None else chunked.name,
        "chunked_bound_where": None if chunked is None else chunked.where,
        "efficiency": None if efficiency is None else efficiency_of(possible, bound.time_ns),
        "below_bound_ns": max(bound.time_ns - time, 0),
        "optimal": efficiency is not None and is_optimal(possible, bound.time_ns),
        "algorithm_bandwidth_gbps": algorithm_bandwidth,
        "bus_bandwidth_gbps": algorithm_bandwidth * collective.bus_factor,
        **_link_extremes(schedule),
    }


def efficiency_of(time_ns: int, bound_ns: int) -> float | None:
    """The bound over all algorithms as a share of a predicted time, at most 1.

    ASTRA-sim truncates the time of each chunk on each link, so what it predicts can be less than any real network takes. Up to
    0.5% less than the bound counts as the bound. None if it is more: the prediction is not a time that data can travel in.
    """
    if time_ns + 1 < bound_ns * (1 - MOST_TRUNCATED):
        return None
    return min(bound_ns / time_ns, 1.0)


def below_bound(time_ns: int, bound_ns: int) -> str:
    """What results say of a time that is less than the bound; "" if it is not.

    The bound holds for the bytes; ASTRA-sim truncates the time of each message on each link to whole nanoseconds.
    """
    if time_ns >= bound_ns:
        return ""
    return f"{bound_ns - time_ns:,} ns less than the bound, as ASTRA-sim truncates the time of each message"


def is_optimal(time_ns: int, bound_ns: int) -> bool:
    """Whether no algorithm is faster: the predicted time is the bound, but for the nanosecond that rounding takes or adds."""
    return abs(time_ns - bound_ns) <= 1


def _link_extremes(schedule: Schedule) -> dict[str, Any]:
    busy = schedule.link_busy_ns
    time = schedule.collective_time_ns
    extremes = {"busiest_link": int(np.argmax(busy)), "idlest_link": int(np.argmin(busy))}
    return {
        name: {"link": schedule.topology.describe_link(link), "busy_share": float(busy[link] / max(time, 1))}
        for name, link in extremes.items()
    }
