"""Numbering of distinct rows over several columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def number_rows(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n], the number of each row; equal rows have equal numbers, from 0 in the order of their values."""
    order = np.lexsort(columns[::-1])
    changes = np.zeros(len(order), np.int64)
    for column in columns:
        sorted_column = column[order]
        changes[1:] |= sorted_column[1:] != sorted_column[:-1]
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(changes)
    return numbers


def distinct_rows(*columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64 each: first index and number of occurrences of each distinct row, in the order of their values."""
    _, first, count = np.unique(number_rows(*columns), return_index=True, return_counts=True)
    return first, count


def count_before(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n], for each row the number of earlier rows with the same values."""
    numbers = number_rows(*columns)
    order = np.argsort(numbers, kind="stable")
    begins = np.searchsorted(numbers[order], numbers[order])
    before = np.empty(len(order), np.int64)
    before[order] = np.arange(len(order)) - begins
    return before
