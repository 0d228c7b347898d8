"""All-to-All of unequal parts: chunks make up the parts, whatever these are; and where the parts come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.examples import examples
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import cut_into, make_collective
from astra_tacos.collective.all_to_allv import parse_zipf
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import read_matrix
from astra_tacos.verifier.schedule_oracle import check_sizes


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    count, unit = draw(st.integers(2, 7)), draw(st.sampled_from((1, 3, 4096)))
    cells = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 100_000))
    return np.array(draw(st.lists(st.lists(cells, min_size=count, max_size=count), min_size=count, max_size=count))) * unit


@given(matrices(), st.integers(1, 9))
@examples(20)
def test_chunks_make_up_the_parts(parts: np.ndarray, chunks: int) -> None:
    sent = parts - np.diag(np.diag(parts))
    if sent.max() < chunks:
        with pytest.raises(ConfigError, match="all-to-allv: "):
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


def test_the_oracle_counts_bytes() -> None:
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
def test_bad_matrices_get_one_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_matrix(path)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_fields_are_sizes(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text("# tokens\n0, 64KiB\n\n1kB, 0\n", encoding="utf-8")
    assert read_matrix(path).tolist() == [[0, 65536], [1000, 0]]


def test_zipf() -> None:
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
def test_bad_generators_get_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="zipf"):
        parse_zipf(text, 4, 1 << 20)
