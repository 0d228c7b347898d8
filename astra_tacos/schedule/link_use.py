"""Intervals in which the messages of a schedule occupy links, one per message and link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, eq=False)
class LinkUse:
    """Intervals in which messages hold links.

    Parameters
    ----------
    message, link
        int64[num_intervals], which message of the schedule holds which link; one through a switch holds two.
    start_ns, end_ns
        int64[num_intervals].
    """

    message: NDArray[np.int64]
    link: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def link_use(schedule: Schedule, first: int = 0, last: int | None = None) -> LinkUse:
    """All intervals of messages `first` to `last` (exclusive), those of links out of NPUs before those out of switches.

    A blocking message holds its links from start to arrival. A pipelined one holds the link that it starts on while it
    serialises, and the link out of a switch so long as that takes there, to end in time for its arrival.
    """
    topology, sizes = schedule.topology, schedule.sizes
    timing = sizes.timing
    message = np.arange(first, schedule.num_messages if last is None else last)
    row = schedule.message_row[message]
    channel, start, end = schedule.channel[row], schedule.start_ns[row], schedule.end_ns[row]
    size_class = sizes.size_class[message]
    up, down = topology.channel_link[channel].astype(np.int64), topology.channel_down_link[channel].astype(np.int64)
    switched = np.flatnonzero(down >= 0)
    through = down[switched]
    if timing.is_blocking:
        up_end, down_start, down_end = end, start[switched], end[switched]
    else:
        up_end = start + timing.link_hold_ns[up, size_class]
        down_start = end[switched] - timing.link_delay_ns[through, size_class[switched]]
        down_end = down_start + timing.link_hold_ns[through, size_class[switched]]
    columns = ((message, message[switched]), (up, through), (start, down_start), (up_end, down_end))
    return LinkUse(*(np.concatenate(column) for column in columns))
