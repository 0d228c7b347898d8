"""Dependencies of each send: the sends that brought its chunk, and the send before it on its link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.schedule import Schedule


def data_dependencies(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that brought a send's chunk: the last copy that its source had received, otherwise all sends reduced there.

    Returns
    -------
    first, row
        int64[num_sends + 1] and int64[...]: send i waits for `row[first[i]:first[i + 1]]`, in order of arrival.
    """
    num_sends = schedule.num_sends
    rows = np.arange(num_sends)
    chunk = schedule.chunk.astype(np.int64)
    num_chunks = schedule.collective.num_chunks
    # Deliveries and departures of each (NPU, chunk), by time; what arrives at an instant can leave at it.
    place = np.concatenate((schedule.dst * np.int64(num_chunks) + chunk, schedule.src * np.int64(num_chunks) + chunk))
    time = np.concatenate((schedule.done_ns, schedule.start_ns))
    departs = np.repeat((False, True), num_sends)
    order = np.lexsort((departs, time, place))
    place, departs, row = place[order], departs[order], np.concatenate((rows, rows))[order]
    copies = ~departs & ~schedule.reduces[row]

    position = np.arange(len(order))
    begins = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1]))) if num_sends else position
    group_begin = np.repeat(begins, np.diff(np.append(begins, len(order))))
    last_copy = np.maximum.accumulate(np.where(copies, position, -1)) if num_sends else position
    since = np.maximum(group_begin, last_copy)
    arrived = np.concatenate(([0], np.cumsum(~departs)))
    deliveries = row[~departs]

    leaving = np.flatnonzero(departs)
    first_of, last_of = np.empty(num_sends, np.int64), np.empty(num_sends, np.int64)
    first_of[row[leaving]] = arrived[since[leaving]]
    last_of[row[leaving]] = arrived[leaving]
    counts = last_of - first_of
    first = np.concatenate(([0], np.cumsum(counts)))
    within = np.arange(first[-1]) - np.repeat(first[:-1], counts)
    return first, deliveries[np.repeat(first_of, counts) + within]


def previous_on_link(schedule: Schedule) -> NDArray[np.int64]:
    """int64[num_sends], the send before each on the link out of its source; -1 for the first."""
    link = schedule.topology.channel_link[schedule.channel]
    # NumPy sorts 16-bit integers in linear time.
    order = np.argsort(link.astype(np.uint16) if schedule.topology.num_links <= 1 << 16 else link, kind="stable")
    previous = np.full(schedule.num_sends, -1, np.int64)
    same = link[order][1:] == link[order][:-1]
    previous[order[1:][same]] = order[:-1][same]
    return previous
