"""The certificate of a schedule: its time and bandwidths, next to the lower bounds on its time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from astra_tacos.bounds import all_bounds, chunked_lower_bound, largest
from astra_tacos.bounds.bound import Bound
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import MOST_TRUNCATED
from astra_tacos.support.arrays import Ints


def certify(schedule: Schedule) -> dict[str, Any]:
    """Figures of a schedule, ready for JSON. Bandwidths are decimal GB/s, as nccl-tests has them.

    `bound_ns` bounds every algorithm and every chunking, `chunked_bound_ns` only schedules that send these chunks one at a time
    (null for others). `bound` is the one that binds, `bound_where`, `bound_npus` and `bound_links` say where (the NPUs behind a
    cut, and its links), and `bounds_ns` lists all. `exact_ns` is the time in arithmetic that truncates nothing. `possible` says
    whether links can carry the schedule in `predicted_ns`; where truncation makes that more than 0.5% shorter, bandwidths and the
    efficiency are of `exact_ns`. For `efficiency` and `optimal` see `efficiency_of`, `is_optimal`. `below_bound_ns` is what
    truncation takes off the bound itself. Link shares are of the predicted time.
    """
    topology, collective, timing = schedule.topology, schedule.collective, schedule.timing
    # Chunks of unequal sizes count as the smallest in that bound, which says nothing then.
    is_by_chunk = collective.part_bytes is None and schedule.message_first is None and schedule.sums is None
    figures = figures_of_time(
        schedule.collective_time_ns,
        exact_time_ns(schedule),
        all_bounds(topology, collective, timing),
        chunked_lower_bound(topology, collective, timing) if is_by_chunk else None,
        collective.buffer_bytes,
        topology.describe_link,
    )
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
        **figures,
        "bus_bandwidth_gbps": figures["algorithm_bandwidth_gbps"] * collective.bus_factor,
        **link_extremes(schedule.link_busy_ns, schedule.collective_time_ns, topology.describe_link),
    }


def figures_of_time(
    time_ns: int,
    exact_ns: float,
    bounds: tuple[Bound, ...],
    chunked: Bound | None,
    buffer_bytes: int,
    describe_link: Callable[[int], str],
) -> dict[str, Any]:
    """The figures of a certificate that follow from a schedule's time and its bounds.

    Parameters
    ----------
    time_ns, exact_ns
        The predicted time, and the one in arithmetic that truncates nothing.
    bounds, chunked
        Bounds over all algorithms; the largest for these chunks, None where there is none.
    buffer_bytes
        Bytes of the whole buffer.
    describe_link
        A link in words.
    """
    bound, time = largest(bounds), max(time_ns, 1)
    possible = time if time >= (1 - MOST_TRUNCATED) * exact_ns else math.ceil(exact_ns)
    efficiency = efficiency_of(time, bound.time_ns)
    return {
        "predicted_ns": time,
        "exact_ns": round(exact_ns, 3),
        "possible": possible == time,
        "bound_ns": bound.time_ns,
        "bound": bound.name,
        "bound_where": bound.where,
        "bound_npus": list(bound.npus),
        "bound_links": [describe_link(link) for link in bound.links],
        "bounds_ns": {each.name: each.time_ns for each in bounds},
        "chunked_bound_ns": None if chunked is None else chunked.time_ns,
        "chunked_bound": None if chunked is None else chunked.name,
        "chunked_bound_where": None if chunked is None else chunked.where,
        "efficiency": None if efficiency is None else efficiency_of(possible, bound.time_ns),
        "below_bound_ns": max(bound.time_ns - time, 0),
        "optimal": efficiency is not None and is_optimal(possible, bound.time_ns),
        "algorithm_bandwidth_gbps": buffer_bytes / possible,
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


def link_extremes(busy_ns: Ints, time_ns: int, describe_link: Callable[[int], str]) -> dict[str, Any]:
    """The links that are busy longest and least, in words, and the share of the time for which they are busy."""
    extremes = {"busiest_link": int(np.argmax(busy_ns)), "idlest_link": int(np.argmin(busy_ns))}
    return {
        name: {"link": describe_link(link), "busy_share": float(busy_ns[link] / max(time_ns, 1))}
        for name, link in extremes.items()
    }
