"""Collectives: chunk sizes cover every byte once."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples, refused
from helpers.schedules import root_of
from hypothesis import example, given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED, cut_into, make_collective
from astra_tacos.collective.all_to_allv import parse_zipf
from astra_tacos.collective.patterns import all_reduce
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.csv_files import read_matrix
from astra_tacos.verifier.schedule_oracle import check_sizes


@pytest.mark.parametrize("name", COLLECTIVES)
@given(npus=st.integers(2, 20), chunks=st.integers(1, 7), size=st.integers(1, 10**9))
def test_chunks_cover_every_byte_once(name, npus, chunks, size):
    parts = chunks if name in ("all-gather", "gather", "broadcast", "reduce") else chunks * npus
    if size < parts:
        with refused("at least one byte per chunk"):
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
def test_personalised_chunks_are_the_parts_of_others(name, npus, chunks, size, data):
    """Every byte of every buffer goes to the NPU whose part it is in, but for those that stay where they are."""
    root = root_of(data, name, range(npus))
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


def test_a_group_is_the_collective_of_fewer_npus():
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
    "members, root, expected",
    [
        ([1, 1], None, "scatter: found a member twice"),
        ([-1, 1], None, "scatter: found members -1 to 1, expected NPUs, 0 to 5"),
        ([3, 6], None, "scatter: found members 3 to 6"),
        ([3], None, "scatter: found 1 NPUs, expected at least 2"),
        ([3, 4], 2, "scatter: found root 2, expected one of the members"),
    ],
)
def test_bad_members(members, root, expected):
    with refused(expected):
        make_collective("scatter", 6, 1000, 1, root, members)


def test_owners_of_an_all_reduce_are_from_one_to_all():
    for owners in (1, 3, 4):
        made = all_reduce(4, 64, 2, num_owners=owners)
        assert made.num_chunks == 2 * owners and len(set(made.chunk_owner.tolist())) == owners
    for owners in (0, 5):
        with refused(f"found {owners} owners of chunks, expected 1 to 4"):
            all_reduce(4, 64, 2, num_owners=owners)


def test_bus_factors_are_those_of_nccl_tests():
    factors = {name: make(8, 1024, 1).bus_factor for name, make in COLLECTIVES.items()}
    personalised = dict.fromkeys(PERSONALISED, 7 / 8)
    others = {"all-reduce": 2 * 7 / 8, "all-gather": 7 / 8, "reduce-scatter": 7 / 8, "broadcast": 1, "reduce": 1}
    assert factors == others | personalised


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("npus, size, chunks", [(1, 10, 1), (4, 10, 0), (4, 2**54, 1), (1000, 2**40, 2**30)])
def test_bad_arguments(name, npus, size, chunks):
    with pytest.raises(ConfigError):
        COLLECTIVES[name](npus, size, chunks)


@pytest.mark.parametrize("name", sorted(ROOTED - PERSONALISED))
def test_the_root_owns_all(name):
    collective = make_collective(name, 6, 1000, 3, 4)
    assert (collective.root, collective.chunk_owner.tolist()) == (4, [4, 4, 4])
    assert (collective.reduces, collective.gathers) == (name == "reduce", name == "broadcast")
    assert make_collective(name, 6, 1000).root == 0
    for root in (-1, 6):
        with refused(f"{name}: found root {root}, expected an NPU, 0 to 5"):
            make_collective(name, 6, 1000, 3, root)


def test_make_collective_says_what_it_cannot_make():
    with refused("all-gather: found root 1, but only broadcast, gather, reduce, scatter have a root"):
        make_collective("all-gather", 6, 1000, 3, 1)
    with refused("collective: found 'gossip', expected all-reduce"):
        make_collective("gossip", 6, 1000)


@st.composite
def matrices(draw):
    count, unit = draw(st.integers(2, 7)), draw(st.sampled_from((1, 3, 4096)))
    cells = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 100_000))
    return np.array(draw(st.lists(st.lists(cells, min_size=count, max_size=count), min_size=count, max_size=count))) * unit


@example(np.array([[0, 3], [0, 0]]), 2)  # sizes have no common part as small as the chunks
@given(matrices(), st.integers(1, 9))
@examples(20)
def test_chunks_make_up_the_parts(parts, chunks):
    sent = parts - np.diag(np.diag(parts))
    if sent.max() < chunks:
        with refused("all-to-allv: "):
            make_collective("all-to-allv", len(parts), 0, chunks, part_bytes=parts)
        return
    of = cut_into(make_collective("all-to-allv", len(parts), 0, 1, part_bytes=parts), chunks)
    found = np.zeros_like(parts)
    np.add.at(found, (of.chunk_owner, of.chunk_target), of.chunk_size_bytes)
    assert np.array_equal(found, sent) and check_sizes(of) == []
    assert of.size_bytes == parts.sum(axis=1).max() and of.chunk_size_bytes.min() >= 1
    unit = np.gcd.reduce(sent, axis=None)
    unit = unit if sent.max() // unit >= chunks else 1
    assert of.chunk_size_bytes.max() <= -(-(sent.max() // unit) // chunks) * unit
    assert not np.any(of.chunk_size_bytes % unit)


@given(matrices(), st.integers(0, 3), st.randoms(use_true_random=False))
@examples(20)
def test_renumbered_npus_keep_their_parts_however_they_are_cut(parts, others, random):
    sent = parts - np.diag(np.diag(parts))
    if not sent.any():
        return
    npu = np.array(random.sample(range(len(parts) + others), len(parts)))
    of = make_collective("all-to-allv", len(parts), 0, 1, part_bytes=parts).renumbered(npu, len(parts) + others)
    assert of.member_npus.tolist() == sorted(npu.tolist()) and (of.members is None) == (others == 0)
    for each in (of, cut_into(of, 1)):
        found = np.zeros((len(parts) + others,) * 2, np.int64)
        np.add.at(found, (each.chunk_owner, each.chunk_target), each.chunk_size_bytes)
        assert np.array_equal(found[np.ix_(npu, npu)], sent) and found.sum() == sent.sum()


def test_the_oracle_counts_bytes():
    from dataclasses import replace

    of = make_collective("all-to-allv", 3, 0, 2, part_bytes=np.array([[9, 5, 0], [7, 0, 1], [1, 1, 0]]))
    for change in ("chunk_size_bytes", "chunk_target", "chunk_owner"):
        for row in range(of.num_chunks):
            column = getattr(of, change).copy()
            column[row] = column[row] + 1 if change == "chunk_size_bytes" else (column[row] + 1) % 3
            assert check_sizes(replace(of, **{change: column})), (change, row)


@pytest.mark.parametrize(
    "text, expected",
    (
        ("", "file is empty"),
        ("0,1\n", "1 rows of 2 sizes"),
        ("0\n", "1 rows of 1 sizes"),
        ("0,1\n1\n", ":2: 1 fields, expected 2"),
        ("0,-1\n1,0\n", ":1: field 2: found '-1'"),
        ("0,1e400\n1,0\n", "field 2"),
        ("0,nan\n1,0\n", "field 2"),
        ('0,"1\n', "rows of"),
    ),
)
def test_bad_matrices_get_one_line(tmp_path, text, expected):
    path = tmp_path / "sizes.csv"
    path.write_text(text, encoding="utf-8")
    with refused(expected):
        read_matrix(path)


def test_fields_are_sizes(tmp_path):
    path = tmp_path / "sizes.csv"
    path.write_text("# tokens\n0, 64KiB\n\n1kB, 0\n", encoding="utf-8")
    assert read_matrix(path).tolist() == [[0, 65536], [1000, 0]]


def test_zipf():
    parts = parse_zipf("zipf:skew=1.5,token=1KiB,seed=4", 16, 1 << 24)
    assert parts.sum(axis=1).tolist() == [1 << 24] * 16 and not np.any(parts % 1024)
    share = np.sort(parts.sum(axis=0))[::-1] / parts.sum()
    expected = np.arange(1, 17) ** -1.5
    assert np.allclose(share, expected / expected.sum(), rtol=0.1)
    assert np.array_equal(parts, parse_zipf("zipf:skew=1.5,token=1KiB,seed=4", 16, 1 << 24))
    assert not np.array_equal(parts, parse_zipf("zipf:1.5,token=1KiB,seed=5", 16, 1 << 24))


@pytest.mark.parametrize(
    "text", ("zipf:x", "zipf:-1", "zipf:1,2", "zipf:seed=-1", "zipf:token=0", "zipf:token=2GiB", "zipf:nan", "zipf:skew=1,skew=1")
)
def test_bad_generators_get_one_line(text):
    with refused("zipf"):
        parse_zipf(text, 4, 1 << 20)
