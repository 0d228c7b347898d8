"""ASTRA-sim's native collective algorithms."""

from __future__ import annotations

from astra_tacos.replayer.native.composition import NATIVE_ALGORITHMS, cut_into_chunks, native_program

__all__ = ["NATIVE_ALGORITHMS", "cut_into_chunks", "native_program"]
