"""Whether native collectives move what their patterns need."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from helpers.lint_runs import RunFiles, coll
from helpers.plans import written

from astra_tacos.bounds.amounts import bytes_of
from astra_tacos.collective import make_collective
from astra_tacos.planner.workload import find_workload
from astra_tacos.replayer.native import NATIVE_ALGORITHMS, NativeCollective, native_program
from astra_tacos.replayer.native_share import _NEEDED, share_moved, why_idle, why_incomplete
from astra_tacos.run.run import PATTERN_KEYS, read_run
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError

MIB = 1 << 20


@dataclass
class _System:
    source: str = "a system"
    preferred_dataset_splits: int = 1
    active_chunks_per_dimension: int = 1
    collective_optimization: str = "baseline"
    endpoint_delay_ns: int = 10
    local_mem_bw_gbps: float = 1e9


@pytest.mark.parametrize("pattern", PATTERN_KEYS)
def test_what_has_to_enter_is_what_the_bounds_say(pattern):
    count = 6
    collective = make_collective(PATTERN_KEYS[pattern], count, 6 * MIB, 1)
    spans = [(a, b) for a in range(count) for b in range(a + 1, count + 1) if b - a < count]
    sides = np.array([[a <= npu < b for npu in range(count)] for a, b in spans])
    sizes = np.array([b - a for a, b in spans])
    assert bytes_of(collective).entering(sides) == pytest.approx(_NEEDED[pattern](sizes, count) * 6 * MIB)


@pytest.mark.parametrize("dims", [(2,), (3,), (5,), (6,), (8,), (16,), (4, 2), (3, 4), (2, 2, 2)])
def test_which_native_algorithms_move_all_of_the_data(dims):
    """Rings and direct exchanges do; trees as ASTRA-sim has them reduce and broadcast, whatever the pattern."""
    for (pattern, key), name in itertools.product(PATTERN_KEYS.items(), NATIVE_ALGORITHMS):
        for size in (MIB, 1_000_003, 1):
            try:
                program = native_program(NativeCollective(key, (name,) * len(dims), size, dims), _System())
            except ConfigError:
                continue
            moved = share_moved(program, CommType(pattern), size)
            if name in ("ring", "direct") or pattern in (CommType.ALL_REDUCE, CommType.REDUCE_SCATTER):
                assert moved >= 0.95
            elif name == "doubleBinaryTree" and max(dims) > (2 if pattern == CommType.ALL_GATHER else 4) and size > 1:
                assert moved <= 0.8


def read(folder, files):
    return find_workload(read_run(written(folder, files))).own_run


def test_a_broadcast_moves_nothing(tmp_path):
    rank = [coll(0, [], CommType.BROADCAST, size=8), coll(1, [0]), coll(2, [1], CommType.BROADCAST, size=8)]
    assert why_idle(read(tmp_path, RunFiles([rank] * 4))) == (
        "ASTRA-sim's own Broadcast only waits, so 8 of its nodes move no data"
    )
    assert why_idle(read(tmp_path / "none", RunFiles([[coll(0, [])]] * 4))) == ""


@pytest.mark.parametrize("involved, is_incomplete", [(None, True), ([True, True], True), ([True, False], False)])
def test_a_collective_over_some_dimensions_is_one_of_each_part(tmp_path, involved, is_incomplete):
    given = {"involved_dim": involved} if involved else {}
    files = RunFiles([[coll(0, [], CommType.ALL_GATHER, size=MIB, **given)]] * 8, npus=[4, 2], topology=["Switch", "Ring"])
    system = {"all-gather-implementation": ["doubleBinaryTree", "ring"]}
    run = read_run(written(tmp_path, replace(files, system=system)))
    assert bool(why_incomplete(run)) == is_incomplete


def test_an_all_gather_by_trees_is_incomplete(tmp_path):
    files = RunFiles([[coll(0, [], CommType.ALL_GATHER, size=MIB)]] * 8, npus=[8], topology=["Switch"])
    for name, is_complete in (("ring", True), ("direct", True), ("halvingDoubling", True), ("doubleBinaryTree", False)):
        files.system = {"all-gather-implementation": [name]}
        assert (why_incomplete(read(tmp_path / name, files)) == "") == is_complete
    assert "native all-gather (doubleBinaryTree) of 8 ranks moves " in why_incomplete(read(tmp_path / name, files))
