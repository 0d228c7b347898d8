"""Partitions of members by how far apart they are: the parts of each are closer inside than across."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.graph import Graph


def nested_partitions(distances: Iterable[Floats]) -> list[Ints]:
    """Partitions that refine one another, the finest first; the last one has all members in one part.

    All partitions into parts of at least two members are found in which all pairs inside a part are closer than all pairs across
    parts, by more than a pair differs from the same pair the other way round (the median over pairs: that much is noise). Of one
    measure they are nested. A partition by a later measure counts if it fits those before.

    Parameters
    ----------
    distances
        float64[members, members] each, measures of how far each is from each other, the first one first.

    Returns
    -------
    partitions
        int64[members] each, the part of each member; parts are numbered by their first members.
    """
    chain: list[Ints] = []
    for distance in distances:
        chain = chain or [np.zeros(len(distance), np.int64)]
        for part in _clear_partitions(distance):
            if all(_refines(part, other) or _refines(other, part) for other in chain) and not any(
                np.array_equal(part, other) for other in chain
            ):
                chain.append(part)
    return sorted(chain, key=lambda part: -int(part.max()))


def _clear_partitions(distance: Floats) -> list[Ints]:
    """Partitions into several parts of at least two members each, closer inside than across: single linkage finds them all."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    between = (distance + distance.T) / 2
    upper = np.triu_indices(len(distance), 1)
    noise = float(np.median(np.abs(distance - distance.T)[upper]))
    partitions = []
    for height in np.unique(linkage(squareform(between, checks=False), "single")[:, 2]).tolist():
        part = Graph.of(len(between), *np.nonzero(between <= height)).weak_groups()[1]
        if part.max() == 0:
            break
        together = (part[:, None] == part[None, :])[upper]
        inside, across = between[upper][together].max(), between[upper][~together].min()
        if np.bincount(part).min() > 1 and across - inside > noise:
            partitions.append(part)
    return partitions


def _refines(fine: Ints, coarse: Ints) -> bool:
    """Whether every part of one partition lies in one part of the other."""
    return len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == int(fine.max()) + 1
