"""Columns: what can be done with a share of a collective's data, and the load that this puts on links.

Where a fabric looks the same from other NPUs, a column stands for its images, too: every orbit of links has one load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Trip:
    """A chunk's way from one NPU to the next: the links, in order, whether it is added there, and for which target it goes.

    `target` is the NPU that the chunk is for, if every target gets another chunk; -1 if all get the same.
    """

    links: tuple[int, ...]
    adds: bool
    target: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A tree of trips for a chunk, or a path of trips to every target.

    Parameters
    ----------
    demand
        The demand that it serves.
    trips
        In an order in which each comes after those it waits for.
    rows, load
        int64[n] and float64[n]: the rows of the programme that it uses, see `Demands`: orbits of links, and how often each link
        of these is used per byte of a demand; then windows, and the time that a byte takes of each, in ns.
    """

    demand: int
    trips: tuple[Trip, ...]
    rows: NDArray[np.int64]
    load: NDArray[np.float64]


def column_of(demand: int, trips: list[Trip], windows: Mapping[int, float] | None = None) -> Column:
    """The column of these trips, and of these windows by number with their times, where every link is an orbit of its own."""
    rows, load = np.unique(np.array([link for trip in trips for link in trip.links], np.int64), return_counts=True)
    if windows:
        rows = np.concatenate((rows, np.array(list(windows), np.int64)))
        load = np.concatenate((load, list(windows.values())))
    return Column(demand, tuple(trips), rows, load.astype(np.float64))
