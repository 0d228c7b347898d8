"""Lower bounds on collective time: over all algorithms (`BOUNDS`), and for given chunks (`CHUNKED_BOUNDS`)."""

from __future__ import annotations

from collections.abc import Callable

from astra_tacos.bounds.any_algorithm import ANY_ALGORITHM
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.cut import cut
from astra_tacos.bounds.delivery import diameter
from astra_tacos.bounds.partition import partition
from astra_tacos.bounds.port import egress, ingress, volume
from astra_tacos.schedule.partial_sums import check_endpoints
from astra_tacos.schedule.problem import Problem

BOUNDS = ANY_ALGORITHM
"""Functions of a problem that bound the time of every algorithm and chunking from below, by name.

Examples
--------
>>> from astra_tacos import BOUNDS
>>> "cut" in BOUNDS
True
"""

CHUNKED_BOUNDS: dict[str, Callable[[Problem], Bound]] = {
    "ingress": ingress,
    "egress": egress,
    "volume": volume,
    "diameter": diameter,
    "cut": cut,
    "partition": partition,
}
"""Functions of a problem that bound the time of schedules of its chunks from below, by name.

Examples
--------
>>> from astra_tacos import CHUNKED_BOUNDS
>>> "diameter" in CHUNKED_BOUNDS
True
"""


def lower_bound(problem: Problem) -> Bound:
    """The largest bound over all algorithms and all chunkings: nothing that moves and adds up this data is faster.

    Messages may carry any part of the data, NPUs may relay, copy and add, also what they gathered from all others. Arithmetic is
    exact: a byte takes 1 / bandwidth. (ASTRA-sim truncates the time of each chunk, so its prediction can be
    below.) Latencies count in whole nanoseconds, and reductions take no time. Of the timing, only the link model
    counts: under `blocking`, a link takes one message at a time.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, Problem, all_gather, build_topology, lower_bound
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> bound = lower_bound(Problem.of(topology, all_gather(4, 1 << 20)))
    >>> bound.name, bound.time_ns
    ('ingress', 29796)
    """
    return largest(all_bounds(problem))


def all_bounds(problem: Problem) -> tuple[Bound, ...]:
    """Every bound, in the order of `BOUNDS`. ConfigError if a member of the collective is a device that only forwards."""
    check_endpoints(problem.topology, problem.collective)
    return tuple(bound(problem) for bound in BOUNDS.values())


def chunked_lower_bound(problem: Problem) -> Bound:
    """The largest bound for schedules that send these chunks one at a time, with ASTRA-sim's truncated delays.

    It holds for every algorithm that copies and adds these chunks, one-shot All-Reduce included. It is assumed that in a
    collective that only reduces every send reduces. A copy that brings a partial sum back to a NPU that is part of it could save
    that NPU the reduction, which is not what a synthesizer does.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, Problem, all_gather, build_topology, chunked_lower_bound
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> chunked_lower_bound(Problem.of(topology, all_gather(4, 1 << 20, chunks_per_npu=2))).time_ns
    29795
    """
    return largest(tuple(bound(problem) for bound in CHUNKED_BOUNDS.values()))


def largest(bounds: tuple[Bound, ...]) -> Bound:
    """The largest bound; of equal ones the first, which is the simplest."""
    return max(bounds, key=lambda bound: bound.time_ns)
