"""A growing table of values: contributions first, then sums in the order in which they are made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.partial_sums import NO_NPU, PartialSums


class Values:
    """Values of chunks: NPU v's contribution to chunk c is value `c * num_npus + v`; sums are added."""

    def __init__(self, num_npus: int, num_chunks: int) -> None:
        self.num_values = num_npus * num_chunks
        self._chunk = [np.repeat(np.arange(num_chunks, dtype=np.int32), num_npus)]
        self._npu = [np.tile(np.arange(num_npus, dtype=np.int32), num_chunks)]
        self._count = [np.zeros(self.num_values, np.int64)]
        self._part: list[NDArray[np.int32]] = []

    def add(self, chunk: NDArray[np.integer], parts: NDArray[np.integer]) -> NDArray[np.int64]:
        """int64[num_sums], the numbers of sums; sums of the same parts are one value.

        Parameters
        ----------
        chunk
            [num_sums], the chunk of each.
        parts
            [num_sums, num_parts], the values that each adds up.
        """
        if not len(chunk):
            return np.empty(0, np.int64)
        parts = np.sort(parts, axis=1)
        # Sums share all parts or none, so the first part tells which sum it is.
        _, first, which = np.unique(parts[:, 0], return_index=True, return_inverse=True)
        self._chunk.append(np.asarray(chunk)[first].astype(np.int32))
        self._npu.append(np.full(len(first), NO_NPU, np.int32))
        self._count.append(np.full(len(first), parts.shape[1], np.int64))
        self._part.append(parts[first].astype(np.int32).ravel())
        numbers: NDArray[np.int64] = self.num_values + which.astype(np.int64)
        self.num_values += len(first)
        return numbers

    def table(self, total: NDArray[np.integer]) -> PartialSums:
        """The table, with the whole sum of each chunk."""
        parts = np.concatenate(self._part) if self._part else np.empty(0, np.int32)
        return PartialSums(
            np.concatenate(self._chunk),
            np.concatenate(self._npu),
            np.concatenate(([0], np.cumsum(np.concatenate(self._count)))),
            parts,
            total.astype(np.int32),
        )
