# mypy: ignore-errors
"""Kernel: earliest times of sends whose order on every link is given."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def earliest_times(
    chunk,
    channel,
    reduces,
    chunk_class,
    channel_src,
    channel_dst,
    channel_link,
    channel_down_link,
    blocking,
    link_hold_ns,
    link_delay_ns,
    channel_delay_ns,
    reduction_ns,
    num_places,
    num_links,
    start_ns,
    end_ns,
    at_switch_ns,
):
    """One pass over rows in link order, each as early as its links and its chunk allow.

    A row must come after every row that brings its chunk to its source. `at_switch_ns` is the arrival at the switch under
    the pipelined model (the start, for a direct link). `num_places` is in how many NPUs' hands a chunk may be at a time: the
    number of NPUs, or 1 if every chunk goes along a path, when whatever came last is what a send waits for.
    """
    num_chunks = len(chunk_class)
    link_free = np.zeros(num_links, np.int64)
    ready = np.zeros(num_places * num_chunks, np.int64)
    for row in range(len(chunk)):
        c = chunk[row]
        ch = channel[row]
        size = chunk_class[c]
        up = channel_link[ch]
        down = channel_down_link[ch]
        start = max(link_free[up], ready[channel_src[ch] % num_places * num_chunks + c])
        at_switch = start
        if blocking:
            if down >= 0:
                start = max(start, link_free[down])
            end = start + channel_delay_ns[ch, size]
            link_free[up] = end
            if down >= 0:
                link_free[down] = end
            at_switch = start
        else:
            link_free[up] = start + link_hold_ns[up, size]
            end = start + link_delay_ns[up, size]
            if down >= 0:
                at_switch = end
                through = max(end, link_free[down])
                link_free[down] = through + link_hold_ns[down, size]
                end = through + link_delay_ns[down, size]
        slot = channel_dst[ch] % num_places * num_chunks + c
        usable = end + reduction_ns[size] if reduces[row] else end
        ready[slot] = max(ready[slot], usable)
        start_ns[row] = start
        end_ns[row] = end
        at_switch_ns[row] = at_switch
