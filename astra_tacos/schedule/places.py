"""Places: the pairs of an NPU and a value that occur, numbered. Most values never come to most NPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.grouping import distinct


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Pairs of an NPU and a value, ascending.

    Parameters
    ----------
    num_values
        How many values there are.
    key
        int64[num_places], ascending: the NPU's number times `num_values`, plus the value's number.
    """

    num_values: int
    key: NDArray[np.int64]

    @classmethod
    def of(cls, num_values: int, *pairs: tuple[NDArray[np.integer], NDArray[np.integer]]) -> Places:
        """All pairs of some columns of NPUs and of values, each once."""
        keys = [npu.astype(np.int64) * num_values + value for npu, value in pairs]
        return cls(num_values, distinct(np.concatenate(keys)))

    def __len__(self) -> int:
        return len(self.key)

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """int64[num_places] each: the NPU and the value of every place."""
        return self.key // self.num_values, self.key % self.num_values

    def find(self, npu: NDArray[np.integer], value: NDArray[np.integer]) -> NDArray[np.int64]:
        """int64[...], the numbers of the places of some pairs; `len(self)` for those that do not occur."""
        key = npu.astype(np.int64) * self.num_values + value
        at = np.searchsorted(self.key, key)
        at[np.append(self.key, -1)[at] != key] = len(self.key)
        return at
