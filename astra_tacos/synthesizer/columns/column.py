"""Columns: what can be done with a share of a collective's data, and the load that this puts on links.

Where a fabric looks the same from other NPUs, a column stands for its images, too: every orbit of links has one load.
"""

from __future__ import annotations

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
    orbits, load
        int64[n] and float64[n]: the orbits of links that it uses, and how often each link of these is used per byte of a demand.
    """

    demand: int
    trips: tuple[Trip, ...]
    orbits: NDArray[np.int64]
    load: NDArray[np.float64]
