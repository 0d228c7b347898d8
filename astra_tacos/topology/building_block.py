"""What a building block yields: the links of one group of NPUs along one dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class BlockLinks:
    """Directed links between the members of one group, members `0 .. size - 1`, its switches after them.

    `src` and `dst` are integer arrays of one length; `num_switches` tells how many switch devices the group has.
    """

    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    num_switches: int = 0
