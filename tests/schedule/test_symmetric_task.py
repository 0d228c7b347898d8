"""Symmetric tasks: chunks that a link cannot carry in whole nanoseconds are refused, and the smallest chunk counts."""

from __future__ import annotations

import pytest

from astra_tacos import Dimension, SynthesisError
from astra_tacos.network.rotations import star
from astra_tacos.schedule.symmetric_schedule import SymmetricTask
from astra_tacos.schedule.timing import least_bytes

RING = (Dimension("Ring", 4, 100.0, 500.0),)
LEAST = int(least_bytes(star("ring", RING)).max())


def task(size, chunks, link_model="pipelined"):
    return SymmetricTask("ring", RING, "all-gather", size, chunks, link_model)


def test_the_smallest_of_unequal_chunks_counts():
    parts = task(1 << 20, 2).num_parts
    assert task(parts * LEAST, 2).timing is not None
    for size in (parts * LEAST - 1, parts * (LEAST - 1) + 1):
        with pytest.raises(SynthesisError, match="less than 1 ns"):
            _ = task(size, 2).timing
    assert task(parts * LEAST - 1, 2, "blocking").timing is not None
