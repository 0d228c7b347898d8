# mypy: ignore-errors
"""Kernel: earliest times of sends whose order on every link is given."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import BOOL, I32, I64, I64_2D, I64_OUT, kernel


class Sends(NamedTuple):
    """Rows in link order: item (chunk or value), channel, and whether the destination adds it to its own.

    A place is where an item can be. If places are numbered, every row has that of its item at its source and its destination;
    otherwise they are all pairs of a hand and an item.
    """

    item: I32
    channel: I32
    reduces: BOOL
    from_place: I64  # [num_sends], or empty
    to_place: I64
    also_place: I64  # [num_sends], another place whose item a row waits for, -1 for none; or empty


class Messages(NamedTuple):
    """Rows that leave together: where each message begins, and the class of its size."""

    first: I64  # [num_messages + 1]
    size_class: I64


class Additions(NamedTuple):
    """Sums that NPUs make: by place those that wait for it (CSR); how many parts each lacks, place and duration.

    All empty if there are none.
    """

    first: I64  # [num_places + 1]
    waiting: I64
    lacking: I64
    place: I64
    duration_ns: I64


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
    device_reduction_ns: I64  # [num_npus], of those that take a time of their own, -1 for others; or empty
    is_blocking: bool


class Times(NamedTuple):
    """Results, in ns: of each message the start, the end, and the arrival at the switch (the start, for a direct link)."""

    start_ns: I64_OUT
    end_ns: I64_OUT
    at_switch_ns: I64_OUT


@kernel
def earliest_times(
    sends: Sends, messages: Messages, links: Links, additions: Additions, num_hands: int, num_places: int, times: Times
):
    """One pass over messages in link order, each as early as its links and its items allow.

    A row must come after every row that brings its item to its source.

    Parameters
    ----------
    num_hands
        In how many NPUs' hands an item may be at a time: the number of NPUs, or 1 if every item goes along a path, when
        whatever came last is what a send waits for.
    num_places
        Number of places.
    """
    link_free = np.zeros(len(links.link_hold_ns), np.int64)
    ready = np.zeros(num_places, np.int64)
    num_items = num_places // num_hands
    is_numbered = len(sends.from_place) > 0
    has_windows = len(sends.also_place) > 0
    has_own_times = len(links.device_reduction_ns) > 0
    lacking = additions.lacking.copy()
    made = np.empty(len(lacking) + 1, np.int64)
    for message in range(len(messages.size_class)):
        begin = messages.first[message]
        end_row = messages.first[message + 1]
        size = messages.size_class[message]
        channel = sends.channel[begin]
        up = links.link[channel]
        down = links.down_link[channel]
        source = links.src[channel] % num_hands * num_items
        start = link_free[up]
        for row in range(begin, end_row):
            place = sends.from_place[row] if is_numbered else source + sends.item[row]
            start = max(start, ready[place])
            if has_windows and sends.also_place[row] >= 0:
                start = max(start, ready[sends.also_place[row]])
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
        usable = end
        if sends.reduces[begin]:
            adding = links.reduction_ns[size]
            if has_own_times and links.device_reduction_ns[links.dst[channel]] >= 0:
                adding = links.device_reduction_ns[links.dst[channel]]
            usable += adding
        times.start_ns[message] = start
        times.end_ns[message] = end
        times.at_switch_ns[message] = at_switch
        target = links.dst[channel] % num_hands * num_items
        for row in range(begin, end_row):
            place = sends.to_place[row] if is_numbered else target + sends.item[row]
            ready[place] = max(ready[place], usable)
            if len(lacking) == 0:
                continue
            made[0] = place
            size_made = 1
            while size_made > 0:
                size_made -= 1
                part = made[size_made]
                for at in range(additions.first[part], additions.first[part + 1]):
                    addition = additions.waiting[at]
                    whole = additions.place[addition]
                    ready[whole] = max(ready[whole], ready[part])
                    lacking[addition] -= 1
                    if lacking[addition] == 0:
                        ready[whole] += additions.duration_ns[addition]
                        made[size_made] = whole
                        size_made += 1
