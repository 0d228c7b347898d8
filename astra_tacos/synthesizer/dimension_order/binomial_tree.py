"""Binomial trees: after k steps 2**k NPUs have a chunk, and each passes it on in the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def binomial_tree(num_npus: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Source, destination and step of each send, int32[num_npus - 1]; NPUs are counted from the one that starts."""
    dst = np.arange(1, num_npus, dtype=np.int32)
    step = np.floor(np.log2(dst)).astype(np.int32)
    return dst - (np.int32(1) << step), dst, step
