"""Shares of time in which a schedule uses its links."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.schedule import Schedule

Shares = NDArray[np.float32]
_SENDS_AT_A_TIME = 1 << 22


def shares_of_time(schedule: Schedule, row_of_link: NDArray[np.integer], num_bins: int) -> Shares:
    """Share of time in which links are in use.

    Parameters
    ----------
    schedule
        The schedule.
    row_of_link
        int[num_links], which row a link counts for.
    num_bins
        Equal parts of the collective's time.

    Returns
    -------
    float32[num_rows, num_bins], the mean over the links of a row.
    """
    num_rows = int(row_of_link.max()) + 1
    time = max(schedule.collective_time_ns, 1)
    busy = np.zeros((num_rows, num_bins))
    for first in range(0, schedule.num_messages, _SENDS_AT_A_TIME):
        use = link_use(schedule, first, min(first + _SENDS_AT_A_TIME, schedule.num_messages))
        _spread(busy, row_of_link[use.link], use.start_ns, use.end_ns, time / num_bins)
    links = np.bincount(row_of_link, minlength=num_rows)
    return (busy / (np.maximum(links, 1)[:, None] * (time / num_bins))).astype(np.float32)


def _spread(
    busy: NDArray[np.float64],
    row: NDArray[np.integer],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    width: float,
) -> None:
    """Add intervals to bins of that width, each in proportion to what lies in the bin."""
    num_rows, num_bins = busy.shape
    first = np.minimum((start / width).astype(np.int64), num_bins - 1)
    last = np.minimum((end / width).astype(np.int64), num_bins - 1)
    cells = num_rows * num_bins
    base = row.astype(np.int64) * num_bins
    whole = first == last
    head = np.where(whole, end - start, (first + 1) * width - start)
    tail = np.where(whole, 0.0, end - last * width)
    busy += np.bincount(base + first, head, cells).reshape(busy.shape)
    busy += np.bincount(base + last, tail, cells).reshape(busy.shape)
    # Bins in between are full: +1 after the first, -1 at the last.
    between = np.zeros((num_rows, num_bins + 1))
    flat = between.reshape(-1)
    places, sign = row.astype(np.int64) * (num_bins + 1), np.where(whole, 0.0, 1.0)
    flat += np.bincount(places + first + 1, sign, len(flat)) - np.bincount(places + last, sign, len(flat))
    busy += np.cumsum(between, axis=1)[:, :num_bins] * width


def links_by_dimension(topology: Topology) -> tuple[NDArray[np.int64], list[tuple[str, int]]]:
    """Links in the order in which a picture shows them, and groups of them as (label, number of links).

    By dimension, then by source and destination; an arbitrary graph is one group without a label.
    """
    order = np.lexsort((topology.link_dst, topology.link_src, topology.link_dimension)).astype(np.int64)
    if not topology.dimensions:
        return order, [("", topology.num_links)]
    counts = np.bincount(topology.link_dimension, minlength=len(topology.dimensions))
    names = [f"dimension {index}: {d.block} {d.size}" for index, d in enumerate(topology.dimensions)]
    return order, [(name, int(count)) for name, count in zip(names, counts, strict=True) if count]
