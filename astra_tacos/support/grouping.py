"""Lists of lists as two arrays (compressed sparse rows): the begin of each list, and all members one after another.

The distinct entries of an array are found here, too.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.arrays import Ints


def group_by(group: NDArray[np.integer], member: NDArray[np.integer], num_groups: int) -> tuple[Ints, Ints]:
    """Members by group, in their given order within it.

    Returns
    -------
    first, members
        int64[num_groups + 1] and int64[len(member)]: group g is `members[first[g]:first[g + 1]]`.
    """
    # NumPy sorts 16-bit integers in linear time.
    narrow = group.astype(np.uint16) if num_groups <= 1 << 16 else group
    order = np.argsort(narrow, kind="stable")
    first = np.zeros(num_groups + 1, np.int64)
    np.cumsum(np.bincount(group, minlength=num_groups), out=first[1:])
    return first, member[order].astype(np.int64, copy=False)


def members_of(first: Ints, groups: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """The positions of the members of some groups, group by group.

    Parameters
    ----------
    first
        int64[num_groups + 1], where each group begins.

    Returns
    -------
    begin, positions
        int64[len(groups) + 1] and int64[...]: the i-th of these groups is `positions[begin[i]:begin[i + 1]]`.
    """
    return in_ranges(first[groups], first[groups + 1])


def in_ranges(first: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The numbers from each `first[i]` up to `end[i]` without it, as a list of lists."""
    count = end - first
    begin = np.concatenate(([0], np.cumsum(count)))
    return begin, np.arange(begin[-1]) + np.repeat(first - begin[:-1], count)


_RANGE = 4
"""Entries of a table per entry of an array, up to which the table is faster than sorting."""
_FEW = 16
"""Distinct entries up to which searching among them is faster than sorting indices."""
_Integers = TypeVar("_Integers", bound=np.integer)


def distinct(values: NDArray[_Integers]) -> NDArray[_Integers]:
    """The distinct entries of a one-dimensional array of integers, ascending.

    `numpy.unique` finds the same by a hash table since NumPy 2.3, which takes 20 to 60 times as long on thousands of entries.
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def distinct_places(values: NDArray[_Integers]) -> tuple[NDArray[_Integers], Ints]:
    """The distinct entries of a one-dimensional array of integers below 2**63, ascending, and the place of each entry among them.

    The same as `numpy.unique` with `return_inverse`, which sorts indices. Most arrays here have few distinct entries, or entries
    in a small range: then a search, or a table of the range, is several times faster.
    """
    if not len(values):
        return values, np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low < _RANGE * len(values):
        offset = values.astype(np.int64) - low
        is_there = np.zeros(high - low + 1, np.bool_)
        is_there[offset] = True
        return (np.flatnonzero(is_there) + low).astype(values.dtype), (np.cumsum(is_there) - 1)[offset]
    ordered = distinct(values)
    if len(ordered) <= _FEW:
        return ordered, np.searchsorted(ordered, values)
    ordered, place = np.unique(values, return_inverse=True)
    return ordered, place.astype(np.int64)


def row_places(*columns: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """The index at which each distinct row over some columns occurs first, and the place of each row among the distinct ones.

    Rows ascend by the first column, then by the next ones: as `numpy.unique` over an axis has them, which sorts records.

    Parameters
    ----------
    columns
        Of the same length n, integers below 2**63; their numbers of distinct entries multiply to less than 2**63 in pairs.

    Returns
    -------
    first, place
        int64[distinct rows], int64[n].
    """
    place = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, number = distinct_places(column)
        place = distinct_places(place * len(values) + number)[1]
    first = np.empty(int(place.max(initial=-1)) + 1, np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return first, place


def count_before(*columns: NDArray[np.integer]) -> Ints:
    """int64[n], for each row the number of earlier rows with the same values."""
    numbers = row_places(*columns)[1]
    order = np.argsort(numbers, kind="stable")
    begins = np.searchsorted(numbers[order], numbers[order])
    before = np.empty(len(order), np.int64)
    before[order] = np.arange(len(order)) - begins
    return before
