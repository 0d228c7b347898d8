"""Collectives: chunk sizes cover every byte once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.errors import ConfigError


@pytest.mark.parametrize("name", COLLECTIVES)
@given(npus=st.integers(2, 20), chunks=st.integers(1, 7), size=st.integers(1, 10**9))
def test_chunks_cover_every_byte_once(name: str, npus: int, chunks: int, size: int) -> None:
    parts = chunks if name == "all-gather" or name in ROOTED else chunks * npus
    if size < parts:
        with pytest.raises(ConfigError, match="at least one byte per chunk"):
            COLLECTIVES[name](npus, size, chunks)
        return
    collective = COLLECTIVES[name](npus, size, chunks)
    sizes = collective.chunk_size_bytes
    assert len(sizes) == len(collective.chunk_owner) == collective.num_chunks == (chunks if name in ROOTED else npus * chunks)
    assert sizes.sum() == collective.buffer_bytes == (size * npus if name == "all-gather" else size)
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(collective.class_size_bytes[collective.chunk_class], sizes)
    owners = [0] if name in ROOTED else range(npus)
    assert collective.chunk_owner.tolist() == [owner for owner in owners for _ in range(chunks)]
    assert collective.chunks_owned.tolist() == [chunks if npu in owners else 0 for npu in range(npus)]


def test_bus_factors_are_those_of_nccl_tests() -> None:
    factors = {name: make(8, 1024, 1).bus_factor for name, make in COLLECTIVES.items()}
    assert factors == {"all-reduce": 2 * 7 / 8, "all-gather": 7 / 8, "reduce-scatter": 7 / 8, "broadcast": 1, "reduce": 1}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize(("npus", "size", "chunks"), [(1, 10, 1), (4, 10, 0), (4, 2**54, 1), (1000, 2**40, 2**30)])
def test_bad_arguments(name: str, npus: int, size: int, chunks: int) -> None:
    with pytest.raises(ConfigError):
        COLLECTIVES[name](npus, size, chunks)


@pytest.mark.parametrize("name", sorted(ROOTED))
def test_the_root_owns_all(name: str) -> None:
    collective = make_collective(name, 6, 1000, 3, 4)
    assert (collective.root, collective.chunk_owner.tolist()) == (4, [4, 4, 4])
    assert (collective.reduces, collective.gathers) == (name == "reduce", name == "broadcast")
    assert make_collective(name, 6, 1000).root == 0
    for root in (-1, 6):
        with pytest.raises(ConfigError, match=f"{name}: found root {root}, expected an NPU, 0 to 5"):
            make_collective(name, 6, 1000, 3, root)


def test_make_collective_says_what_it_cannot_make() -> None:
    with pytest.raises(ConfigError, match="all-gather: found root 1, but only broadcast and reduce have a root"):
        make_collective("all-gather", 6, 1000, 3, 1)
    with pytest.raises(ConfigError, match="collective: found 'gossip', expected all-reduce"):
        make_collective("gossip", 6, 1000)
