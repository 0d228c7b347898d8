"""What links can deliver by a time, in whole chunks of the smallest size.

A link whose first chunk is where it belongs at `first_ns` and which takes another one every `period_ns` has delivered
1 + floor((T - first) / period) of them by T. First means the shortest way of one chunk over the link from NPU to NPU; a
Broadcast's first has to come from the root before, a Reduce's last has to go on to the root. Under `blocking` a link is held
until the chunk has arrived, under `pipelined` while it serialises.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.distance import root_distance_ns
from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import NO_LINK, Topology

_NEVER = np.iinfo(np.int64).max


@lru_cache(maxsize=2)
def link_times(topology: Topology, collective: Collective, timing: Timing) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[num_links] each: `first_ns` and `period_ns`; both 0 for links that no channel uses."""
    delay = timing.channel_delay_ns[:, 0]
    usable = delay
    if collective.root is not None:
        distance = root_distance_ns(topology, collective, timing)
        usable = delay + distance[topology.channel_src if collective.gathers else topology.channel_dst]
    first, fastest = np.full((2, topology.num_links), _NEVER)
    switched = topology.channel_down_link != NO_LINK
    for links, which in ((topology.channel_link, slice(None)), (topology.channel_down_link, switched)):
        np.minimum.at(first, links[which], usable[which])
        np.minimum.at(fastest, links[which], delay[which])
    used = first != _NEVER
    period = np.where(used, fastest if timing.is_blocking else timing.link_hold_ns[:, 0], 0)
    return np.where(used, first, 0), period


def smallest_times(
    first_ns: NDArray[np.int64], period_ns: NDArray[np.int64], group: NDArray[np.integer], messages: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Per group of links, the smallest time by which they have delivered so many messages (bisection)."""
    low = np.zeros(len(messages), np.int64)
    if not len(first_ns):
        return low
    high = np.full(len(messages), int(first_ns.max()) + int(messages.max()) * int(period_ns.max()))
    while np.any(low < high):
        middle = (low + high) // 2
        over = middle[group] - first_ns
        # Whole numbers below 2**53, which doubles hold.
        delivered = np.bincount(group, np.where(over >= 0, 1 + over // period_ns, 0), len(messages))
        enough = delivered >= messages
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle + 1)
    return low


def smallest_time(topology: Topology, collective: Collective, timing: Timing, links: NDArray[np.int64], messages: int) -> int:
    """The smallest time by which these links together have delivered so many messages, and the last one is of use.

    In a collective that only reduces, it is of use once it is added to what is there.
    """
    first, period = link_times(topology, collective, timing)
    links = links[period[links] > 0]
    group = np.zeros(len(links), np.int64)
    return int(smallest_times(first[links], period[links], group, np.array([messages]))[0]) + last_step_ns(collective, timing)


def last_step_ns(collective: Collective, timing: Timing) -> int:
    """What follows the last arrival: its reduction, where nothing is gathered afterwards."""
    return 0 if collective.gathers else int(timing.reduction_ns[0])
