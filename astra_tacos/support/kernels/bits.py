"""Bits of 64-bit words, and random ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from astra_tacos.support.kernels.compiled import inlined

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""What a counter goes up by between two calls of `mix`."""
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_U27 = np.uint64(27)
_U30 = np.uint64(30)
_U31 = np.uint64(31)
_U32 = np.uint64(32)


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Index of the lowest set bit of a non-zero uint64."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@intrinsic
def population(typing_context: Any, word: Any) -> Any:
    """How many bits of a uint64 are set."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def bit_length(typing_context: Any, number: Any) -> Any:
    """Bits that an int64 of 0 or more takes."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(ir.IntType(64), 64), zeros)

    return types.int64(types.int64), codegen


@inlined
def mix(z: Any) -> Any:
    """64 random bits from a counter that goes up by `GOLDEN` (splitmix64, Steele and others 2014)."""
    z = (z ^ (z >> _U30)) * MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)


@inlined
def below(bits: Any, bound: Any) -> Any:
    """From 64 random bits, an integer from 0 to `bound` - 1."""
    return np.int64(((bits >> _U32) * np.uint64(bound)) >> _U32)
