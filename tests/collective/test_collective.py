"""Collectives: chunk sizes cover every byte once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES
from astra_tacos.errors import ConfigError


@pytest.mark.parametrize("name", COLLECTIVES)
@given(npus=st.integers(2, 20), chunks=st.integers(1, 7), size=st.integers(1, 10**9))
def test_chunks_cover_every_byte_once(name: str, npus: int, chunks: int, size: int) -> None:
    parts = chunks if name == "all-gather" else chunks * npus
    if size < parts:
        with pytest.raises(ConfigError, match="at least one byte per chunk"):
            COLLECTIVES[name](npus, size, chunks)
        return
    collective = COLLECTIVES[name](npus, size, chunks)
    sizes = collective.chunk_size_bytes
    assert len(sizes) == collective.num_chunks == npus * chunks
    assert sizes.sum() == collective.buffer_bytes == (size * npus if name == "all-gather" else size)
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(collective.class_size_bytes[collective.chunk_class], sizes)
    assert np.array_equal(collective.chunk_owner, np.arange(npus * chunks) // chunks)


def test_bus_factors_are_those_of_nccl_tests() -> None:
    factors = {name: make(8, 1024, 1).bus_factor for name, make in COLLECTIVES.items()}
    assert factors == {"all-reduce": 2 * 7 / 8, "all-gather": 7 / 8, "reduce-scatter": 7 / 8}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize(("npus", "size", "chunks"), [(1, 10, 1), (4, 10, 0), (4, 2**54, 1), (1000, 2**40, 2**30)])
def test_bad_arguments(name: str, npus: int, size: int, chunks: int) -> None:
    with pytest.raises(ConfigError):
        COLLECTIVES[name](npus, size, chunks)
