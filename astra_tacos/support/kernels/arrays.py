"""Types of the arrays that kernels take. Loads no numba.

A kernel's signature is made from the annotations of its parameters, so that it is compiled once and ahead of its first call.
Names say the type of the entries and, if not one, the number of dimensions; `OUT` marks arrays that the kernel writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array is laid out: always C-contiguous.

    Parameters
    ----------
    ndim
        Number of dimensions.
    written
        Whether the kernel writes it; all others are handed over read-only.
    record
        The entries' type, if they are records.
    """

    ndim: int = 1
    written: bool = False
    record: np.dtype[Any] | None = None


U8 = Annotated[NDArray[np.uint8], Layout()]
U8_2D_OUT = Annotated[NDArray[np.uint8], Layout(2, True)]
U8_OUT = Annotated[NDArray[np.uint8], Layout(1, True)]
U16 = Annotated[NDArray[np.uint16], Layout()]
U16_2D_OUT = Annotated[NDArray[np.uint16], Layout(2, True)]
U32_2D = Annotated[NDArray[np.uint32], Layout(2)]
U32_2D_OUT = Annotated[NDArray[np.uint32], Layout(2, True)]
U64 = Annotated[NDArray[np.uint64], Layout()]
U64_2D = Annotated[NDArray[np.uint64], Layout(2)]
U64_OUT = Annotated[NDArray[np.uint64], Layout(1, True)]
U64_2D_OUT = Annotated[NDArray[np.uint64], Layout(2, True)]
U64_3D_OUT = Annotated[NDArray[np.uint64], Layout(3, True)]
I8 = Annotated[NDArray[np.int8], Layout()]
I16_OUT = Annotated[NDArray[np.int16], Layout(1, True)]
I32 = Annotated[NDArray[np.int32], Layout()]
I32_2D = Annotated[NDArray[np.int32], Layout(2)]
I32_OUT = Annotated[NDArray[np.int32], Layout(1, True)]
I32_2D_OUT = Annotated[NDArray[np.int32], Layout(2, True)]
I32_3D_OUT = Annotated[NDArray[np.int32], Layout(3, True)]
I64 = Annotated[NDArray[np.int64], Layout()]
I64_2D = Annotated[NDArray[np.int64], Layout(2)]
I64_OUT = Annotated[NDArray[np.int64], Layout(1, True)]
I64_2D_OUT = Annotated[NDArray[np.int64], Layout(2, True)]
F64 = Annotated[NDArray[np.float64], Layout()]
F64_OUT = Annotated[NDArray[np.float64], Layout(1, True)]
F64_2D_OUT = Annotated[NDArray[np.float64], Layout(2, True)]
BOOL = Annotated[NDArray[np.bool_], Layout()]
BOOL_OUT = Annotated[NDArray[np.bool_], Layout(1, True)]
BOOL_2D_OUT = Annotated[NDArray[np.bool_], Layout(2, True)]
