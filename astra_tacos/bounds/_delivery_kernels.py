# mypy: ignore-errors
"""Kernel: the smallest times by which groups of links have delivered their messages, by bisection. See `delivery`."""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.arrays import I64
from astra_tacos.support.kernels.compiled import helper, kernel


@helper
def _delivered(first, period, own, stall, time):
    """How many messages a link has delivered by a time."""
    over = time - first
    if over < 0:
        return 0
    count = 1 + over // period
    if count > own:
        count = max(own, 1 + (over - stall) // period)
    return count


@kernel
def smallest_times(first: I64, period: I64, own: I64, stall: I64, group: I64, messages: I64, latest: int):
    """int64[num_groups]: the smallest time up to `latest` at which the links of each group have delivered `messages` of it.

    Parameters
    ----------
    first, period, own, stall
        int64[n], of each link, as `Deliveries` has them; periods above 0.
    group
        int64[n], the group of each link.
    messages
        int64[num_groups], what the group's links have to deliver together.
    latest
        A time at which each group with links has delivered its messages; the result for groups without.
    """
    num_groups = len(messages)
    start = np.zeros(num_groups + 1, np.int64)
    for at in range(len(group)):
        start[group[at] + 1] += 1
    for one in range(num_groups):
        start[one + 1] += start[one]
    link = np.empty(len(group), np.int64)
    filled = start[:-1].copy()
    for at in range(len(group)):
        link[filled[group[at]]] = at
        filled[group[at]] += 1
    times = np.zeros(num_groups, np.int64)
    for one in range(num_groups):
        low = np.int64(0)
        high = np.int64(latest)
        while low < high:
            middle = (low + high) // 2
            total = np.int64(0)
            for place in range(start[one], start[one + 1]):
                at = link[place]
                total += _delivered(first[at], period[at], own[at], stall[at], middle)
            if total >= messages[one]:
                high = middle
            else:
                low = middle + 1
        times[one] = low
    return times
