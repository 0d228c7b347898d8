"""Kernel: maximum flow from devices with supply to devices with room (Dinic).

A network is a list of arcs by tail: `first[device]` to `first[device + 1]` are those out of a device, `head` is where each leads,
`mate` the arc of the other direction. Capacities, supplies and rooms are integers.

Kernel: the smallest times by which groups of links have delivered their messages, by bisection. See `delivery`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I64, I64_OUT, helper, kernel

# mypy: ignore-errors


UNREACHED = -1


class Flow(NamedTuple):
    """A network and what is left: of each arc's capacity, each device's supply and room."""

    first: I64  # [num_devices + 1]
    head: I64  # [num_arcs]
    mate: I64  # [num_arcs]
    cap: I64_OUT  # [num_arcs]
    supply: I64_OUT  # [num_devices]
    room: I64_OUT  # [num_devices]


@helper
def _layers(flow, level, queue):
    """Distances from the supplies along arcs that are not full, until all rooms are reached; returns how many rooms were."""
    first, head, cap, supply, room = flow.first, flow.head, flow.cap, flow.supply, flow.room
    rooms = 0
    tail = 0
    for device in range(len(level)):
        level[device] = UNREACHED
        if room[device] > 0:
            rooms += 1
        if supply[device] > 0:
            level[device] = 0
            queue[tail] = device
            tail += 1
    reached = 0
    at = 0
    while at < tail and reached < rooms:
        device = queue[at]
        at += 1
        if room[device] > 0:
            reached += 1
        for arc in range(first[device], first[device + 1]):
            other = head[arc]
            if cap[arc] > 0 and level[other] == UNREACHED:
                level[other] = level[device] + 1
                queue[tail] = other
                tail += 1
    return reached


@helper
def _block(start, flow, level, at, path):
    """Send what `start` can along layers; returns the amount."""
    first, head, mate, cap, supply, room = flow.first, flow.head, flow.mate, flow.cap, flow.supply, flow.room
    sent = np.int64(0)
    depth = 0
    device = start
    while supply[start] > 0:
        if room[device] > 0:
            amount = min(supply[start], room[device])
            for place in range(depth):
                amount = min(amount, cap[path[place]])
            supply[start] -= amount
            room[device] -= amount
            sent += amount
            back_to = depth
            for place in range(depth - 1, -1, -1):
                arc = path[place]
                cap[arc] -= amount
                cap[mate[arc]] += amount
                if cap[arc] == 0:
                    back_to = place
            depth = back_to
            device = start if depth == 0 else head[path[depth - 1]]
            continue
        while at[device] < first[device + 1]:
            arc = at[device]
            if cap[arc] > 0 and level[head[arc]] == level[device] + 1:
                break
            at[device] += 1
        if at[device] < first[device + 1]:
            path[depth] = at[device]
            depth += 1
            device = head[at[device]]
        elif depth == 0:
            break
        else:
            depth -= 1
            device = start if depth == 0 else head[path[depth - 1]]
            at[device] += 1
    return sent


@kernel
def max_flow(flow: Flow, level: I64_OUT):
    """Send all that can be sent; returns the amount.

    Then `level` (int64[num_devices], overwritten) is not negative on the
    supplies' side of a smallest cut. A blocking flow takes rooms at every distance at once: each room's distance grows from one
    to the next.
    """
    num_devices = len(level)
    at = np.empty(num_devices, np.int64)
    queue = np.empty(num_devices, np.int64)
    path = np.empty(num_devices, np.int64)
    sent = np.int64(0)
    while _layers(flow, level, queue) > 0:
        for device in range(num_devices):
            at[device] = flow.first[device]
        for device in range(num_devices):
            if level[device] == 0 and flow.supply[device] > 0:
                sent += _block(device, flow, level, at, path)
    return sent


# mypy: ignore-errors


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
