"""Intervals in which the sends of a schedule occupy links, one per send and link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, eq=False)
class LinkUse:
    """Intervals in which sends hold links.

    Parameters
    ----------
    send, link
        int64[num_intervals], which row of the schedule holds which link; a send through a switch holds two.
    start_ns, end_ns
        int64[num_intervals].
    """

    send: NDArray[np.int64]
    link: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def link_use(schedule: Schedule, first: int = 0, last: int | None = None) -> LinkUse:
    """All intervals of sends `first` to `last` (exclusive), those of links out of NPUs before those out of switches.

    A blocking send holds its links from start to arrival. A pipelined one holds the link that it starts on while the chunk
    serialises, and the link out of a switch so long as that takes there, to end in time for its arrival.
    """
    topology, timing = schedule.topology, schedule.timing
    send = np.arange(first, schedule.num_sends if last is None else last)
    channel, start, end = schedule.channel[send], schedule.start_ns[send], schedule.end_ns[send]
    size_class = schedule.collective.chunk_class[schedule.chunk[send]]
    up, down = topology.channel_link[channel].astype(np.int64), topology.channel_down_link[channel].astype(np.int64)
    switched = np.flatnonzero(down >= 0)
    through = down[switched]
    if timing.is_blocking:
        up_end, down_start, down_end = end, start[switched], end[switched]
    else:
        up_end = start + timing.link_hold_ns[up, size_class]
        down_start = end[switched] - timing.link_delay_ns[through, size_class[switched]]
        down_end = down_start + timing.link_hold_ns[through, size_class[switched]]
    columns = ((send, send[switched]), (up, through), (start, down_start), (up_end, down_end))
    return LinkUse(*(np.concatenate(column) for column in columns))
