"""Distinct entries of an array, by sorting."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Integers = TypeVar("_Integers", bound=np.integer)


def distinct(values: NDArray[_Integers]) -> NDArray[_Integers]:
    """The distinct entries of a one-dimensional array of integers, ascending.

    `numpy.unique` finds the same by a hash table since NumPy 2.3, which takes 20 to 60 times as long on thousands of entries.
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
