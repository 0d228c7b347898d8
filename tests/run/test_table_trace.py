"""Columns in memory are those that the reader finds in the bytes, whatever the nodes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from helpers.examples import examples
from helpers.naive_trace import assert_equal
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.run.trace.ranks import trace_of_table
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.writer import ATTRIBUTE_FIELDS, ATTRIBUTE_KEYS, NodeTable, write_trace

FEW_IDS = st.integers(0, 12)
"""Few enough for dependencies to meet nodes, in this rank, in another, or in none."""
LENGTHS = st.lists(st.integers(0, 200), min_size=4, max_size=4)
"""Of the lists of integers; their entries are random, as to draw each costs more than the test."""
MOST_OF_FIELD = {"bool": 1, "int32": (1 << 31) - 1, "int32_list": 3}


@st.composite
def attributes(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Some attributes, in any order, some of them more than once."""
    names = draw(st.lists(st.sampled_from(sorted(ATTRIBUTE_FIELDS)), max_size=12))
    most = [MOST_OF_FIELD.get(ATTRIBUTE_FIELDS[name], (1 << 63) - 1) for name in names]
    return [(ATTRIBUTE_KEYS[name], draw(st.integers(0, limit))) for name, limit in zip(names, most, strict=True)]


@st.composite
def tables(draw: st.DrawFn) -> tuple[NodeTable, np.ndarray]:
    ranks = draw(st.lists(st.lists(FEW_IDS, min_size=1, max_size=6, unique=True), min_size=1, max_size=4))
    ids = [number for rank in ranks for number in rank]
    few, some = st.lists(FEW_IDS, max_size=4), st.lists(attributes(), min_size=len(ids), max_size=len(ids))
    lists = [[draw(few) for _ in ids] for _ in range(2)]
    lists.append(draw(some))
    first = [np.cumsum([0, *map(len, entry)]) for entry in lists]
    ctrl, data, attribute = ([value for entry in column for value in entry] for column in lists)
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    numbers = [(random.integers(1 << 31, size=length) >> random.integers(31, size=length)).tolist() for length in draw(LENGTHS)]
    table = NodeTable(
        node_id=np.array(ids, np.int64),
        kind=np.array([draw(st.integers(0, 7)) for _ in ids], np.uint8),
        duration_us=np.array([draw(st.integers(0, (1 << 63) - 1)) for _ in ids], np.int64),
        names=("node_",),
        name=np.zeros(len(ids), np.uint16),
        name_number=np.arange(len(ids)),
        ctrl_first=first[0],
        ctrl=np.array(ctrl, np.int64),
        data_first=first[1],
        data=np.array(data, np.int64),
        attr_first=first[2],
        attr_key=np.array([key for key, _ in attribute], np.uint8),
        attr_value=np.array([value for _, value in attribute], np.int64),
        list_first=np.cumsum([0, *map(len, numbers)]),
        list_entry=np.array([value for entry in numbers for value in entry], np.int32),
    )
    return table, np.cumsum([0, *map(len, ranks)])


@examples(20)
@given(tables())
def test_equals_what_is_read_of_the_bytes(made: tuple[NodeTable, np.ndarray]) -> None:
    table, rank_first = made
    with TemporaryDirectory() as folder:
        for rank in range(len(rank_first) - 1):
            write_trace(Path(folder) / f"x.{rank}.et", table, int(rank_first[rank]), int(rank_first[rank + 1]))
        assert_equal(trace_of_table(table, rank_first, f"{folder}/x"), read_trace(f"{folder}/x"))
