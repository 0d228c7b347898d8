"""ASTRA-sim's native collective algorithms."""

from __future__ import annotations

from astra_tacos.replayer.native.composition import NATIVE_ALGORITHMS, NativeCollective, native_program

__all__ = ["NATIVE_ALGORITHMS", "NativeCollective", "native_program"]
