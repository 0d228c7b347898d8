"""Names of the types of arrays that signatures have most: int64, int32, float64 and bool; docstrings say their shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
