"""For a slow link into an NPU: the NPUs whose chunks reach that NPU sooner over faster links than over the slow link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST_LEVELS = 8
_MOST_NEAR = 16
_ROWS = 256


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """For every NPU v and level: NPUs whose chunks reach v sooner over channels faster than the level than over one of it.

    Parameters
    ----------
    level_ns
        int64[levels], ascending: how long a send over the fastest of a level's channels takes. None if all channels are alike.
    group
        int32[num_npus, levels], the number of the group within which every NPU is near this one, numbered over all levels; -1
        where there is none, or where `near` lists the NPUs.
    near_first, near
        int32[num_npus * levels + 1] and int32[...], the NPUs near to NPU v at level k: `near[near_first[i]:near_first[i + 1]]`
        for i = v * levels + k. At most 16, the nearest.
    """

    level_ns: NDArray[np.int64]
    group: NDArray[np.int32]
    near_first: NDArray[np.int32]
    near: NDArray[np.int32]

    def level_of(self, ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64, like `ns`: the level of channels with these delays."""
        return np.maximum(np.searchsorted(self.level_ns, ns, side="right") - 1, 0)


def neighbourhood(num_npus: int, src: NDArray[np.int32], dst: NDArray[np.int32], land_ns: NDArray[np.int64]) -> Neighbourhood:
    """Compute the neighbourhoods of all NPUs.

    Parameters
    ----------
    num_npus
        Number of NPUs.
    src, dst, land_ns
        Of each channel: its ends, and how long a send of the smallest chunk over it takes.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    level_ns = np.unique(land_ns)[1:]
    if len(level_ns) > _MOST_LEVELS:
        level_ns = level_ns[np.linspace(0, len(level_ns) - 1, _MOST_LEVELS).astype(np.int64)]
    group = np.full((num_npus, len(level_ns)), -1, np.int32)
    places, others = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    groups = 0
    for level, limit_ns in enumerate(level_ns.tolist()):
        faster = land_ns < limit_ns
        into = coo_array((land_ns[faster].astype(np.float64), (dst[faster], src[faster])), shape=(num_npus, num_npus)).tocsr()
        number, member = connected_components(into, directed=True, connection="strong")
        size = np.bincount(member, minlength=number)[member]
        npu, other, num_near = _within(into, float(limit_ns))
        is_whole = (num_near == size - 1) & (size > 1)
        # Members of a group share one set, so either all of them have the whole group near, or the group is not used.
        is_whole &= ~np.isin(member, member[~is_whole])
        group[is_whole, level] = groups + member[is_whole]
        groups += number
        listed = ~is_whole[npu]
        places.append(npu[listed] * len(level_ns) + level)
        others.append(other[listed].astype(np.int32))
    place, near = np.concatenate(places), np.concatenate(others)
    order = np.argsort(place, kind="stable")
    near_first = np.searchsorted(place[order], np.arange(num_npus * len(level_ns) + 1)).astype(np.int32)
    return Neighbourhood(level_ns, group, near_first, near[order])


def _within(into, limit_ns: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:  # type: ignore[no-untyped-def]
    """Pairs of NPUs less than `limit_ns` apart, nearest first, at most 16 for each NPU; and the number of all such pairs."""
    from scipy.sparse.csgraph import dijkstra

    num_npus = into.shape[0]
    npus, others, counts = [], [], []
    for begin in range(0, num_npus, _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, num_npus))
        distance = dijkstra(into, indices=rows, limit=limit_ns)
        distance[rows - begin, rows] = np.inf
        row, other = np.nonzero(distance < limit_ns)
        order = np.lexsort((distance[row, other], row))
        row, other = row[order], other[order]
        first = np.searchsorted(row, np.arange(len(rows) + 1))
        kept = np.arange(len(row)) - first[row] < _MOST_NEAR
        npus.append(row[kept] + begin)
        others.append(other[kept])
        counts.append(np.diff(first))
    return np.concatenate(npus), np.concatenate(others), np.concatenate(counts)
