"""Communicator groups, chunks and tags, read in one place."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.damage import refusal
from helpers.lint_runs import coll
from helpers.runs import make_run
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.rules.refusal import refuse_groups
from astra_tacos.run.chunks import count_chunks, cut_into_chunks
from astra_tacos.run.groups import (
    ALL_RANKS,
    NO_PLAN,
    UNKNOWN,
    group_ids,
    listed_position,
    plan_numbers,
    sorted_position,
    used_groups,
)
from astra_tacos.run.system import SystemConfig
from astra_tacos.support.errors import ConfigError


def test_group_of_a_name(tmp_path):
    names = ["", "0", "1", "01", "00", "-1", "tp", "2"]
    nodes = [coll(number, pg_name=name) for number, name in enumerate(names)] + [coll(len(names))]
    run = make_run(tmp_path, [nodes, nodes], groups="{'1': [1, 0], '2': [1]}")
    ids = group_ids(run.columns)[: len(nodes)].tolist()
    assert ids == [ALL_RANKS, ALL_RANKS, 1, 1, UNKNOWN, UNKNOWN, UNKNOWN, 2, ALL_RANKS]
    rows = np.array([0, 2, 8])
    groups = used_groups(run, rows)
    assert groups.group.tolist() == [ALL_RANKS, 1, ALL_RANKS]
    assert groups.members == {ALL_RANKS: (0, 1), 1: (1, 0)}
    for row, words in (
        (6, "w.0.et node 6: pg_name is 'tp', no group's number"),
        (7, "w.0.et node 7: uses group 2, whose ranks are 1"),
    ):
        alone = make_run(tmp_path / str(row), [[nodes[row]], [nodes[row]]], groups="{'1': [1, 0], '2': [1]}")
        assert words in refusal(refuse_groups, alone)


@given(st.permutations(range(9)).flatmap(lambda ranks: st.integers(1, 9).map(lambda count: tuple(ranks[:count]))))
def test_positions(members):
    ranks = np.array(members)
    assert sorted_position(members, ranks).tolist() == [sorted(members).index(rank) for rank in members]
    assert listed_position(members, ranks).tolist() == list(range(len(members)))


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from((ALL_RANKS, 1, 2)), st.integers(0, 3)), max_size=20))
def test_plans(nodes):
    rank, group, pattern = np.array(nodes, np.int64).reshape(-1, 3).T
    plan, count = plan_numbers(rank, group, pattern)
    shared = [node for node in nodes if node[1] != ALL_RANKS]
    assert count == len(set(shared))
    assert (plan == NO_PLAN).tolist() == [node[1] == ALL_RANKS for node in nodes]
    assert len({(int(number), node) for number, node in zip(plan, nodes, strict=True) if node in shared}) == count


@given(st.integers(0, 300), st.integers(1, 7), st.integers(2, 9), st.sampled_from(("all-reduce", "all-gather")))
def test_chunks(size, splits, npus, pattern):
    """Chunks of size // splits bytes until nothing is left; never less than a byte per NPU, but in an All-Gather."""
    system = SystemConfig("s.json", preferred_dataset_splits=splits)
    chunk, left, count = size // splits, size, 0
    if chunk < npus and pattern != "all-gather":
        chunk, count, left = npus, splits, 0
    while left > 0 and chunk:
        left, count = left - chunk, count + 1
    if left > 0 or not chunk:
        with pytest.raises(ConfigError, match="expected a byte per split"):
            cut_into_chunks(pattern, size, npus, system)
        count = 0
    else:
        assert cut_into_chunks(pattern, size, npus, system) == (chunk, count)
    assert count_chunks(pattern, np.array([size, size]), npus, system).tolist() == [count] * 2
