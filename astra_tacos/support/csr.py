"""Lists of lists as two arrays (compressed sparse rows): the begin of each list, and all members one after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def group_by(
    group: NDArray[np.integer], member: NDArray[np.integer], num_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def members_of(first: NDArray[np.int64], groups: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of the members of some groups, group by group.

    Parameters
    ----------
    first
        int64[num_groups + 1], where each group begins.
    groups
        Numbers of groups, in the order in which their members are wanted.

    Returns
    -------
    begin, positions
        int64[len(groups) + 1] and int64[...]: the i-th of these groups is `positions[begin[i]:begin[i + 1]]`.
    """
    count = first[groups + 1] - first[groups]
    begin = np.concatenate(([0], np.cumsum(count)))
    return begin, np.arange(begin[-1]) + np.repeat(first[groups] - begin[:-1], count)
