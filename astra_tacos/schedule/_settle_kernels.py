# mypy: ignore-errors
"""Kernel: earliest times of sends whose order on every link is given."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.kernels.arrays import BOOL, I32, I64, I64_2D, I64_OUT, U8
from astra_tacos.kernels.compiled import borrowed, kernel


class Sends(NamedTuple):
    """Rows in link order: chunk, channel, and whether the destination adds the chunk to its own."""

    chunk: I32
    channel: I32
    reduces: BOOL


class Links(NamedTuple):
    """A topology's channels under a timing model: their ends, link and down-link (-1 if none), and delays by class of chunk."""

    src: I32
    dst: I32
    link: I32
    down_link: I32
    link_hold_ns: I64_2D  # [num_links, num_classes]
    link_delay_ns: I64_2D
    channel_delay_ns: I64_2D  # [num_channels, num_classes]
    reduction_ns: I64  # [num_classes]
    is_blocking: bool


class Times(NamedTuple):
    """Results, in ns: of each send the start, the end, and the arrival at the switch (the start, for a direct link)."""

    start_ns: I64_OUT
    end_ns: I64_OUT
    at_switch_ns: I64_OUT


@kernel
def earliest_times(sends: Sends, chunk_class: U8, links: Links, num_places: int, times: Times):
    """One pass over rows in link order, each as early as its links and its chunk allow.

    A row must come after every row that brings its chunk to its source.

    Parameters
    ----------
    chunk_class
        [num_chunks].
    num_places
        In how many NPUs' hands a chunk may be at a time: the number of NPUs, or 1 if every chunk goes along a path, when
        whatever came last is what a send waits for.
    """
    sends, chunk_class, links, times = borrowed(sends), borrowed(chunk_class), borrowed(links), borrowed(times)
    num_chunks = len(chunk_class)
    link_free = np.zeros(len(links.link_hold_ns), np.int64)
    ready = np.zeros(num_places * num_chunks, np.int64)
    for row in range(len(sends.chunk)):
        chunk = np.int64(sends.chunk[row])
        channel = sends.channel[row]
        size = chunk_class[chunk]
        up = links.link[channel]
        down = links.down_link[channel]
        start = max(link_free[up], ready[links.src[channel] % num_places * num_chunks + chunk])
        at_switch = start
        if links.is_blocking:
            if down >= 0:
                start = max(start, link_free[down])
            end = start + links.channel_delay_ns[channel, size]
            link_free[up] = end
            if down >= 0:
                link_free[down] = end
            at_switch = start
        else:
            link_free[up] = start + links.link_hold_ns[up, size]
            end = start + links.link_delay_ns[up, size]
            if down >= 0:
                at_switch = end
                through = max(end, link_free[down])
                link_free[down] = through + links.link_hold_ns[down, size]
                end = through + links.link_delay_ns[down, size]
        slot = links.dst[channel] % num_places * num_chunks + chunk
        usable = end + links.reduction_ns[size] if sends.reduces[row] else end
        ready[slot] = max(ready[slot], usable)
        times.start_ns[row] = start
        times.end_ns[row] = end
        times.at_switch_ns[row] = at_switch
