"""Occupancy: the time that a send holds the links of its channel, counted from its start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import NO_LINK
from astra_tacos.schedule.timing import Timing


def link_occupancy(
    timing: Timing, link: NDArray[np.int32], down: NDArray[np.int32], *, by_size: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Times, counted from its start, until which a send holds its up-link and its down-link; and the down-links' head start.

    Under store and forward a down-link is taken only when the chunk reaches the switch. Counted from the start of the send,
    that is a shift by the up-link's delay; where up-links differ, the smallest delay of a down-link's up-links is used.

    Parameters
    ----------
    timing
        Delays of chunks on the links of the network.
    link, down
        int32[num_channels], the first and the second link of each channel.
    by_size
        Whether the up-link's delay of a chunk's own size counts, instead of the smallest of all sizes. That is right for sizes
        that differ much, if chunks of one size follow one another, and a good guess if not.

    Returns
    -------
    up_busy, down_busy, head_start
        int64[num_channels, classes] twice; int64[num_links], how long before a down-link takes a chunk a send through it has to
        start.
    """
    if timing.is_blocking:
        return timing.channel_delay_ns, timing.channel_delay_ns, np.zeros(len(timing.link_hold_ns), np.int64)
    switched = down != NO_LINK
    shift = timing.link_delay_ns[link[switched]]
    if by_size:
        least = np.full(timing.link_hold_ns.shape, np.iinfo(np.int64).max)
        np.minimum.at(least, down[switched], shift)
        down_busy = np.zeros_like(timing.channel_delay_ns)
        down_busy[switched] = timing.link_hold_ns[down[switched]] + shift - least[down[switched]]
        head_start = least.min(axis=1)
        return timing.link_hold_ns[link], down_busy, np.where(head_start == np.iinfo(np.int64).max, 0, head_start)
    head_start = np.full(len(timing.link_hold_ns), np.iinfo(np.int64).max)
    np.minimum.at(head_start, down[switched], shift.min(axis=1))
    down_busy = np.zeros_like(timing.channel_delay_ns)
    down_busy[switched] = timing.link_hold_ns[down[switched]] + shift - head_start[down[switched]][:, None]
    head_start[head_start == np.iinfo(np.int64).max] = 0
    return timing.link_hold_ns[link], down_busy, head_start
