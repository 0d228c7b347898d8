"""Matching of sends with receives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Columns = tuple[NDArray[np.int64], ...]


def match_messages(
    send_key: Columns, send_place: NDArray[np.int64], recv_key: Columns, recv_place: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Match sends with receives of the same key, first in, first out, as runtimes do.

    Parameters
    ----------
    send_key, recv_key
        Columns of the key: sends and receives match if they are equal in all columns.
    send_place, recv_place
        int64[...], order of sends, and of receives, with the same key.

    Returns
    -------
    send, recv
        int64[num_messages], rows of the matched sends and receives.
    """
    group, _ = _groups(send_key, recv_key)
    num_sends = len(send_place)
    turn = np.concatenate((_turns(group[:num_sends], send_place), _turns(group[num_sends:], recv_place)))
    key = group * np.int64(max(len(group), 1)) + turn
    _, send, recv = np.intersect1d(key[:num_sends], key[num_sends:], assume_unique=True, return_indices=True)
    return send, recv


def successors(key: Columns, place: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[n] each: pairs of rows that are consecutive, by place, among the rows of one key."""
    group, _ = _groups(key, tuple(column[:0] for column in key))
    order = np.lexsort((place, group))
    same = group[order][1:] == group[order][:-1]
    return order[:-1][same], order[1:][same]


def _groups(send_key: Columns, recv_key: Columns) -> tuple[NDArray[np.int64], int]:
    """int64[sends + receives], number of each row's key, sends first; and how many keys there are."""
    columns = [np.concatenate(pair) for pair in zip(send_key, recv_key, strict=True)]
    order = np.lexsort(columns)
    changes = np.zeros(len(order), np.bool_)
    for column in columns:
        changes[1:] |= column[order][1:] != column[order][:-1]
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(changes)
    return group, int(changes.sum()) + 1


def _turns(group: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n], number of rows of the same group with a lower place."""
    order = np.lexsort((place, group))
    begins = np.flatnonzero(np.concatenate(([True], group[order][1:] != group[order][:-1]))) if len(group) else order
    turn = np.empty(len(group), np.int64)
    turn[order] = np.arange(len(group)) - np.repeat(begins, np.diff(np.append(begins, len(group))))
    return turn
