"""The certificate of a schedule: its time and bandwidths, next to the lower bounds on its time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from astra_tacos.bounds import all_bounds, chunked_lower_bound, largest
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.symmetric import chunked_symmetric_bound, class_busy_ns, describe_class, symmetric_bounds
from astra_tacos.network.network_config import count_links_of, describe_dimensions
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, exact_symmetric_ns
from astra_tacos.support.arrays import Ints


def certify(schedule: Schedule | SymmetricSchedule, bounds: tuple[Bound, ...] | None = None) -> dict[str, Any]:
    """Figures of a schedule, ready for JSON. Bandwidths are decimal GB/s, as nccl-tests has them.

    `time_ns` is the time of the schedule on links of its own link model, in arithmetic that truncates nothing; `predicted_ns` is
    the same with delays truncated to whole nanoseconds, as ASTRA-sim has them. `bound_ns` bounds every algorithm and every
    chunking, `chunked_bound_ns` only schedules that send these chunks one at a time, with truncated delays (null for others).
    `bound` is the one that binds, `bound_where`, `bound_npus` and `bound_links` say where (the NPUs behind a cut, and its
    links), and `bounds_ns` lists all. For `efficiency` and `optimal` see `efficiency_of`, `is_optimal`. Link shares are of the
    predicted time.

    Parameters
    ----------
    schedule
        The schedule. Of a symmetric one, links stand for all links of their class, and `rows` are the sends of NPU 0's chunks.
    bounds
        Bounds that hold for every cut of its collective; None for those of its own chunks.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, certify, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> figures = certify(schedule)
    >>> figures["synthesizer"], 0 < figures["efficiency"] <= 1
    ('ring', True)
    """
    judged = _of_symmetric(schedule) if isinstance(schedule, SymmetricSchedule) else _of_sends(schedule)
    figures = figures_of_time(
        schedule.collective_time_ns,
        judged.exact_ns,
        judged.bounds() if bounds is None else bounds,
        judged.chunked,
        judged.buffer_bytes,
        judged.describe_link,
    )
    return {
        **judged.about,
        **figures,
        "bus_bandwidth_gbps": figures["algorithm_bandwidth_gbps"] * judged.bus_factor,
        **_link_extremes(judged.busy_ns, schedule.collective_time_ns, judged.describe_link),
    }


class _Judged(NamedTuple):
    """What a certificate is made of: what the schedule is, its time, and what bounds it."""

    about: dict[str, Any]
    exact_ns: float
    bounds: Callable[[], tuple[Bound, ...]]
    chunked: Bound | None
    buffer_bytes: int
    bus_factor: float
    busy_ns: Ints
    describe_link: Callable[[int], str]


def _of_sends(schedule: Schedule) -> _Judged:
    topology, collective, timing = schedule.topology, schedule.collective, schedule.timing
    # Chunks of unequal sizes count as the smallest in that bound, which says nothing then.
    is_by_chunk = collective.part_bytes is None and schedule.message_first is None and schedule.sums is None
    figures = {
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
    }
    return _Judged(
        figures,
        exact_time_ns(schedule),
        partial(all_bounds, schedule.problem),
        chunked_lower_bound(schedule.problem) if is_by_chunk else None,
        collective.buffer_bytes,
        collective.bus_factor,
        schedule.link_busy_ns,
        topology.describe_link,
    )


def _of_symmetric(schedule: SymmetricSchedule) -> _Judged:
    """In time proportional to the rows of the schedule; all chunks count as the largest."""
    task = schedule.task
    figures = {
        "network": task.name,
        "topology": describe_dimensions(task.dimensions),
        "num_npus": task.num_npus,
        "num_links": count_links_of(task.dimensions),
        "collective": task.collective,
        "size_bytes": task.size_bytes,
        "chunks_per_npu": task.chunks_per_npu,
        "root": None,
        "num_chunks": task.num_chunks * task.num_npus,
        "chunk_bytes": sorted({task.size_bytes // task.num_parts, task.chunk_bytes}),
        "synthesizer": schedule.synthesizer,
        "seed": 0,
        "link_model": task.link_model,
        "reduce_bandwidth_gbps": task.reduce_bandwidth_gbps,
        "num_sends": schedule.num_sends,
        "num_messages": schedule.num_sends,
        "rows": schedule.num_rows,
    }
    return _Judged(
        figures,
        exact_symmetric_ns(schedule),
        partial(symmetric_bounds, task),
        chunked_symmetric_bound(task),
        task.buffer_bytes,
        task.num_phases * (task.num_npus - 1) / task.num_npus,
        class_busy_ns(schedule),
        partial(describe_class, task),
    )


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
    bounds, chunked
        Bounds over all algorithms; the largest for these chunks, None where there is none.
    """
    bound = largest(bounds) if bounds else None
    return {
        "predicted_ns": max(time_ns, 1),
        "exact_ns": round(exact_ns, 3),
        "bounds_ns": {bound.name: bound.time_ns for bound in bounds},
        "chunked_bound_ns": None if chunked is None else chunked.time_ns,
        "chunked_bound": None if chunked is None else chunked.name,
        "chunked_bound_where": None if chunked is None else chunked.where,
    } | figures_on_clock(exact_ns, bound, buffer_bytes, describe_link)


def figures_on_clock(
    time_ns: float, bound: Bound | None, buffer_bytes: int, describe_link: Callable[[int], str]
) -> dict[str, Any]:
    """A time, and what follows from it and the bound of any algorithm; None for a clock on which no bound holds."""
    time_ns = round(time_ns, 3)  # so that all figures are quotients of those beside them
    return {
        "time_ns": time_ns,
        "bound_ns": None if bound is None else bound.time_ns,
        "bound": None if bound is None else bound.name,
        "bound_where": None if bound is None else bound.where,
        "bound_npus": [] if bound is None else list(bound.npus),
        "bound_links": [] if bound is None else [describe_link(link) for link in bound.links],
        "efficiency": None if bound is None else efficiency_of(time_ns, bound.time_ns),
        "optimal": bound is not None and is_optimal(time_ns, bound.time_ns),
        "algorithm_bandwidth_gbps": buffer_bytes / max(time_ns, 1e-3),
    }


def efficiency_of(time_ns: float, bound_ns: int) -> float:
    """The bound over all algorithms as a share of a time; the bound is in whole nanoseconds, rounded down."""
    return bound_ns / max(time_ns, 1e-3)


def is_optimal(time_ns: float, bound_ns: int) -> bool:
    """Whether no algorithm is faster: the time is the bound, but for the nanosecond that rounding takes."""
    return time_ns - bound_ns <= 1


def _link_extremes(busy_ns: Ints, time_ns: int, describe_link: Callable[[int], str]) -> dict[str, Any]:
    """The links that are busy longest and least, in words, and the share of the time for which they are busy."""
    extremes = {"busiest_link": int(np.argmax(busy_ns)), "idlest_link": int(np.argmin(busy_ns))}
    return {
        name: {"link": describe_link(link), "busy_share": float(busy_ns[link] / max(time_ns, 1))}
        for name, link in extremes.items()
    }
