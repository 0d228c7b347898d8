"""How many bytes links can carry by a time, whatever an algorithm cuts them into.

A link whose first byte can be at its final place at `offset` carries no more than rate x (T - offset) bytes by time T. Sums over
links bound what has to cross a cut, and weighted sums whatever the weights price (the dual of a flow problem).

Latencies count in whole nanoseconds, rounded down: so the bound also holds for ASTRA-sim's clock, which truncates the time of
every hop. Serialisation is exact here. ASTRA-sim truncates it, too.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.units import bytes_per_ns

_ROUNDING = 1e-12
"""Relative error of sums in double precision, generously."""


@lru_cache(maxsize=8)
def link_latency_ns(topology: Topology) -> Floats:
    """float64[num_links], the latency of each link in whole nanoseconds, rounded down."""
    return np.floor(topology.link_latency_ns)


@lru_cache(maxsize=8)
def first_arrival_ns(topology: Topology) -> Floats:
    """float64[num_links], the least latency from NPU to NPU over each link; infinite for a link that leads nowhere."""
    latency = link_latency_ns(topology)
    first, last = topology.channel_link, topology.channel_down_link
    through = np.where(last == NO_LINK, first, last)
    total = latency[first] + np.where(last == NO_LINK, 0.0, latency[through])
    least = np.full(topology.num_links, np.inf)
    for links in (first, through):
        np.minimum.at(least, links, total)
    return least


def rate_bytes_per_ns(topology: Topology, links: NDArray[np.integer]) -> Floats:
    """float64[len(links)], the bandwidth of each link."""
    return bytes_per_ns(topology.link_bandwidth_gibps[links])


def smallest_time_ns(rate: Floats, offset_ns: Floats, amount: float) -> float:
    """The smallest time by which links carry an amount: the T at which the sum of rate x max(T - offset, 0) is the amount.

    0 if there is nothing to carry.
    """
    times = smallest_times_ns(np.zeros(len(rate), np.int64), rate, offset_ns, np.array([amount], np.float64))
    return float(times[0])


def links_time_ns(topology: Topology, links: Ints, amount: float) -> int:
    """The smallest time, in whole nanoseconds, by which some links carry an amount."""
    return whole_ns(smallest_time_ns(rate_bytes_per_ns(topology, links), first_arrival_ns(topology)[links], amount))


def smallest_times_ns(group: NDArray[np.integer], rate: Floats, offset_ns: Floats, amount: Floats) -> Floats:
    """float64[num_groups], `smallest_time_ns` of each group of links.

    Links taken up to the k-th, by ascending offset, as if they also ran backwards before their offset, carry the amount at a time
    that is never below the answer, and equals it for one k.
    """
    useful = np.isfinite(offset_ns) & (rate > 0)
    group, rate, offset_ns = group[useful], rate[useful], offset_ns[useful]
    order = np.lexsort((offset_ns, group))
    group, rate, offset_ns = group[order], rate[order], offset_ns[order]
    times = np.full(len(amount), np.inf)
    if len(group):
        first = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
        length = np.diff(np.r_[first, len(group)])

        def running(values: Floats) -> Floats:
            total = np.cumsum(values)
            before: Floats = np.repeat(total[first] - values[first], length)
            return total - before

        reached = (amount[group] + running(rate * offset_ns)) / running(rate)
        times[group[first]] = np.minimum.reduceat(reached, first)
    return np.where(amount > 0, times, 0.0)


def whole_ns(time_ns: float) -> int:
    """A time in whole nanoseconds, rounded down; a time that is whole but for rounding errors is that whole number."""
    nearest = round(time_ns)
    return nearest if abs(time_ns - nearest) <= min(_ROUNDING * time_ns, 1e-3) else int(time_ns)
