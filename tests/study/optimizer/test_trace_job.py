"""Traces of ASTRA-sim: which block of the network a group is, and what every rank does."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import ConfigError, RunInputs, read_run, replay_run
from astra_tacos.study.optimizer.model import Demand, Shape, network_shape
from astra_tacos.study.optimizer.problem import block_of, trace_job

CONFIGS = Path(__file__).parents[3] / "configs"
TRANSFORMER = CONFIGS / "workload" / "transformer_16"
SHAPE = Shape("n.yml", ("Ring", "FullyConnected", "Switch"), (4, 3, 2), (0.0,) * 3)


@pytest.fixture(scope="module")
def run():
    files = (TRANSFORMER / "system.json", CONFIGS / "network" / "hetero_3d_16npus.yml", TRANSFORMER / "comm_group.json")
    return read_run(RunInputs(TRANSFORMER / "workload" / "w", *files, TRANSFORMER / "remote_memory.json"))


def test_a_transformer(run):
    shape, _ = network_shape(run.network)
    job = trace_job(run, shape)
    assert [profile.num_ranks for profile in job.profiles] == [8, 8]  # two stages
    tensor, data = (2, 1, 1), (1, 4, 1)  # -- --tp 2 --dp 4 --pp 2
    assert {(demand.pattern, demand.members) for demand in job.demands} == {
        ("all-gather", tensor),
        ("reduce-scatter", tensor),
        ("all-reduce", tensor),
        ("all-reduce", data),
        ("message", (1, 1, 2)),
    }
    # The generator's own account of what all ranks send and reduce.
    account = json.loads((TRANSFORMER / "generated.json").read_text())["communication"]
    nodes: Counter[str] = Counter()
    for profile in job.profiles:
        for demand, count in zip(job.demands, profile.counts, strict=True):
            axis = {"message": ""}.get(demand.pattern, " tensor" if demand.members == tensor else " data")
            nodes[("send" if demand.pattern == "message" else demand.pattern) + axis] += count * profile.num_ranks
    assert nodes == {name: entry["nodes"] for name, entry in account.items() if name != "receive"}


def test_compute_is_what_a_replay_counts(run):
    shape, _ = network_shape(run.network)
    outcome = replay_run(run, "congestion-unaware")
    for profile in trace_job(run, shape).profiles:
        assert profile.compute_ns == outcome.compute_ns[profile.rank]


@given(st.integers(0, 2**32))
def test_blocks_are_found(seed):
    random = np.random.default_rng(seed)
    coordinates, members, strides = [], [], []
    for size in SHAPE.sizes:
        count = int(random.integers(1, size + 1))
        stride = int(random.integers(1, (size - 1) // (count - 1) + 1)) if count > 1 else 1
        first = int(random.integers(0, size - stride * (count - 1)))
        coordinates.append(first + stride * np.arange(count))
        members.append(count)
        strides.append(stride)
    grid = np.stack(np.meshgrid(*coordinates, indexing="ij"), axis=-1).reshape(-1, 3)
    ranks = random.permutation(grid @ np.array([1, 4, 12]))
    assert block_of(ranks.tolist(), SHAPE, "group") == (tuple(members), tuple(strides))


@pytest.mark.parametrize("ranks", [(0, 5), (0, 1, 3), (0, 1, 4), (), (0, 24)])
def test_other_groups_are_refused(ranks):
    with pytest.raises(ConfigError, match="group 7 has"):
        block_of(ranks, SHAPE, "group 7")


@pytest.mark.parametrize("num_npus", [4, 32, 1_000_000])
def test_other_numbers_of_ranks_and_npus(run, num_npus):
    with pytest.raises(ConfigError, match=rf"traces of 16 ranks, expected {num_npus}, as many as n\.yml has NPUs"):
        trace_job(run, Shape("n.yml", ("Ring",), (num_npus,), (0.0,)))


def test_demands_of_one_npu_are_none():
    assert Demand("all-reduce", 5, (1, 1), (1, 1)).involved == ()
