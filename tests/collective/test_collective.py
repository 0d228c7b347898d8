"""Collectives: chunk sizes cover every byte once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED, make_collective
from astra_tacos.support.errors import ConfigError


@pytest.mark.parametrize("name", COLLECTIVES)
@given(npus=st.integers(2, 20), chunks=st.integers(1, 7), size=st.integers(1, 10**9))
def test_chunks_cover_every_byte_once(name: str, npus: int, chunks: int, size: int) -> None:
    parts = chunks if name in ("all-gather", "gather", "broadcast", "reduce") else chunks * npus
    if size < parts:
        with pytest.raises(ConfigError, match="at least one byte per chunk"):
            COLLECTIVES[name](npus, size, chunks)
        return
    collective = COLLECTIVES[name](npus, size, chunks)
    if name in PERSONALISED:
        return
    sizes = collective.chunk_size_bytes
    assert len(sizes) == len(collective.chunk_owner) == collective.num_chunks == (chunks if name in ROOTED else npus * chunks)
    assert sizes.sum() == collective.buffer_bytes == (size * npus if name == "all-gather" else size)
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(collective.class_size_bytes[collective.chunk_class], sizes)
    owners = [0] if name in ROOTED else range(npus)
    assert collective.chunk_owner.tolist() == [owner for owner in owners for _ in range(chunks)]
    assert collective.chunks_owned.tolist() == [chunks if npu in owners else 0 for npu in range(npus)]


@pytest.mark.parametrize("name", sorted(PERSONALISED))
@given(npus=st.integers(2, 9), chunks=st.integers(1, 4), size=st.integers(40, 10**6), data=st.data())
def test_personalised_chunks_are_the_parts_of_others(name: str, npus: int, chunks: int, size: int, data: st.DataObject) -> None:
    """Every byte of every buffer goes to the NPU whose part it is in, but for those that stay where they are."""
    root = data.draw(st.integers(0, npus - 1)) if name in ROOTED else None
    collective = make_collective(name, npus, size, chunks, root)
    whole = [size // (npus * chunks) + (piece < size % (npus * chunks)) for piece in range(npus * chunks)]
    shard = [size // chunks + (piece < size % chunks) for piece in range(chunks)]
    expected = []
    for owner in range(npus) if root is None or name == "gather" else [root]:
        for target in range(npus) if root is None or name == "scatter" else [root]:
            sizes = shard if name == "gather" else whole[target * chunks : (target + 1) * chunks]
            expected += [(owner, target, part) for part in sizes if owner != target]
    columns = (collective.chunk_owner, collective.chunk_target, collective.chunk_size_bytes)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert collective.buffer_bytes == (size * npus if name == "gather" else size)
    assert (collective.reduces, collective.gathers, collective.is_personalised, collective.num_phases) == (False, False, True, 1)
    assert collective.least_sends == collective.num_chunks


def test_a_group_is_the_collective_of_fewer_npus() -> None:
    for name in COLLECTIVES:
        root = 7 if name in ROOTED else None
        among = make_collective(name, 3, 1000, 2, None if root is None else 2)
        of = make_collective(name, 10, 1000, 2, root, [7, 1, 4])
        npus = np.array([1, 4, 7])
        assert np.array_equal(of.chunk_owner, npus[among.chunk_owner])
        assert np.array_equal(of.chunk_size_bytes, among.chunk_size_bytes)
        assert (of.root, of.num_members, of.member_npus.tolist()) == (root, 3, [1, 4, 7])
        assert (of.buffer_bytes, of.bus_factor, of.least_sends) == (among.buffer_bytes, among.bus_factor, among.least_sends)
        if name in PERSONALISED:
            assert np.array_equal(of.chunk_target, npus[among.chunk_target])
        assert make_collective(name, 4, 1000, 2, None, range(4)).members is None


@pytest.mark.parametrize(
    ("members", "root", "expected"),
    [
        ([1, 1], None, "scatter: found a member twice"),
        ([-1, 1], None, "scatter: found members -1 to 1, expected NPUs, 0 to 5"),
        ([3, 6], None, "scatter: found members 3 to 6"),
        ([3], None, "scatter: found 1 NPUs, expected at least 2"),
        ([3, 4], 2, "scatter: found root 2, expected one of the members"),
    ],
)
def test_bad_members(members: list[int], root: int | None, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        make_collective("scatter", 6, 1000, 1, root, members)


def test_bus_factors_are_those_of_nccl_tests() -> None:
    factors = {name: make(8, 1024, 1).bus_factor for name, make in COLLECTIVES.items()}
    personalised = dict.fromkeys(PERSONALISED, 7 / 8)
    others = {"all-reduce": 2 * 7 / 8, "all-gather": 7 / 8, "reduce-scatter": 7 / 8, "broadcast": 1, "reduce": 1}
    assert factors == others | personalised


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize(("npus", "size", "chunks"), [(1, 10, 1), (4, 10, 0), (4, 2**54, 1), (1000, 2**40, 2**30)])
def test_bad_arguments(name: str, npus: int, size: int, chunks: int) -> None:
    with pytest.raises(ConfigError):
        COLLECTIVES[name](npus, size, chunks)


@pytest.mark.parametrize("name", sorted(ROOTED - PERSONALISED))
def test_the_root_owns_all(name: str) -> None:
    collective = make_collective(name, 6, 1000, 3, 4)
    assert (collective.root, collective.chunk_owner.tolist()) == (4, [4, 4, 4])
    assert (collective.reduces, collective.gathers) == (name == "reduce", name == "broadcast")
    assert make_collective(name, 6, 1000).root == 0
    for root in (-1, 6):
        with pytest.raises(ConfigError, match=f"{name}: found root {root}, expected an NPU, 0 to 5"):
            make_collective(name, 6, 1000, 3, root)


def test_make_collective_says_what_it_cannot_make() -> None:
    with pytest.raises(ConfigError, match="all-gather: found root 1, but only broadcast, gather, reduce, scatter have a root"):
        make_collective("all-gather", 6, 1000, 3, 1)
    with pytest.raises(ConfigError, match="collective: found 'gossip', expected all-reduce"):
        make_collective("gossip", 6, 1000)
