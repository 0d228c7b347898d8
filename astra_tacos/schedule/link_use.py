"""Intervals in which the messages of a schedule occupy links, one per message and link.

The work of a schedule is counted while it is made: what parts of synthesizers, and settling, examine. The unit is that of
`synthesizer.work`: one send that list scheduling examines.

Counts follow from what is computed, never from a clock. What is kept for later calls (`lru_cache`) is not counted, or the count
would depend on who came first.

A maker may be stopped: where its parts count, once it has counted more than its allowance, which whoever started it may lower at
any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from astra_tacos.network.topology import NO_LINK
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Ints
from astra_tacos.support.units import bytes_per_ns

_Result = TypeVar("_Result")


class OutOfWorkError(Exception):
    """A maker has counted more than it may. No error of the user's, so that nobody takes it for one and goes on."""


@dataclass(slots=True)
class Allowance:
    """How many sends a maker may examine, and how many it has counted; it is stopped when it next counts more."""

    most: float = math.inf
    counted: float = 0.0


_meter: ContextVar[Allowance | None] = ContextVar("meter", default=None)


def count_work(sends_examined: float) -> None:
    """Add to the work counted for the schedule that this thread is making.

    Raises
    ------
    OutOfWorkError
        If that is more than its allowance.
    """
    meter = _meter.get()
    if meter is None:
        return
    meter.counted += sends_examined
    if meter.counted > meter.most:
        raise OutOfWorkError


def metered(make: Callable[[], _Result], allowance: Allowance | None = None) -> tuple[_Result, int]:
    """A result, and the number of sends examined to make it; 0 if its maker counts none.

    Parameters
    ----------
    allowance
        What it may examine, of which nothing is counted yet; None for any number.

    Raises
    ------
    OutOfWorkError
        If it examines more.
    """
    meter = allowance or Allowance()
    token = _meter.set(meter)
    try:
        return make(), int(meter.counted)
    finally:
        _meter.reset(token)


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

    message: Ints
    link: Ints
    start_ns: Ints
    end_ns: Ints


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


def busiest_link_ns(schedule: Schedule) -> float:
    """Time in ns that the busiest link needs for its bytes alone: no network takes less, however its sends are ordered."""
    topology = schedule.topology
    size = schedule.size_bytes
    carried = np.bincount(topology.channel_link[schedule.channel], size, topology.num_links)
    down = topology.channel_down_link[schedule.channel]
    carried += np.bincount(down[down != NO_LINK], size[down != NO_LINK], topology.num_links)
    return float((carried / bytes_per_ns(topology.link_bandwidth_gibps)).max())
