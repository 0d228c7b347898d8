"""What is physically possible: one rule for native runs, for planned ones and for the user's own."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import quickly_planned, written
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds.amounts import bytes_of
from astra_tacos.collective import make_collective
from astra_tacos.planner.workload import find_workload
from astra_tacos.replayer.native import NATIVE_ALGORITHMS, NativeCollective, native_program
from astra_tacos.replayer.run_replay import Attempt, replay_run
from astra_tacos.run.backend import CONGESTION_AWARE, CONGESTION_UNAWARE, CUT_THROUGH
from astra_tacos.run.run import PATTERN_KEYS, read_run
from astra_tacos.run.trace.schema import CommType
from astra_tacos.solver.possibility import (
    _NEEDED,
    RunEnd,
    earliest,
    end_with_queues,
    judge_end,
    share_moved,
    why_idle,
    why_incomplete,
)
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
    return find_workload(written(folder, files)).own_run


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
        run = read(tmp_path / name, files)
        assert (why_incomplete(run) == "") == is_complete
        end_ns = replay_run(run, CONGESTION_AWARE).end_ns
        end = judge_end(run, CONGESTION_AWARE, end_ns)
        assert (end.impossible == "") == is_complete and end.possible_ns == (end_ns if is_complete else None)
    assert "native all-gather (doubleBinaryTree) of 8 ranks moves " in why_incomplete(run)


def one_message():
    ranks = [[send(0, 2, size=MIB)], [comp(0)], [recv(0, 0, size=MIB)], [comp(0)]]
    return RunFiles(ranks, npus=[4], topology=["Switch"])


def test_a_message_need_not_be_stored_before_it_is_passed_on(tmp_path):
    """On a switch, the congestion-aware backend takes its serialisation twice: no reason to call one message impossible."""
    run = read(tmp_path, one_message())
    end_ns = replay_run(run, CONGESTION_UNAWARE).end_ns
    assert replay_run(run, CONGESTION_AWARE).end_ns > 1.5 * end_ns
    assert abs(replay_run(run, CUT_THROUGH).end_ns - end_ns) <= 1
    assert end_with_queues(run, CONGESTION_UNAWARE, end_ns) == RunEnd(end_ns, end_ns)


def test_messages_that_overlap_on_a_link_are_impossible(tmp_path):
    files = RunFiles([[coll(0, size=MIB)]] * 4, npus=[4], topology=["Ring"], system={"all-reduce-implementation": ["direct"]})
    run = read(tmp_path, files)
    end_ns = replay_run(run, CONGESTION_UNAWARE).end_ns
    end = end_with_queues(run, CONGESTION_UNAWARE, end_ns)
    queued_ns = replay_run(run, CUT_THROUGH).end_ns
    why = f"no queues; it ends at {queued_ns:,} ns where each link carries one message at a time"
    assert end == RunEnd(end_ns, queued_ns, why) and end.counted_ns == queued_ns
    # A model with queues that is as early.
    as_early = {CUT_THROUGH: Attempt(replay_run(run, CONGESTION_UNAWARE))}
    assert judge_end(run, CONGESTION_UNAWARE, end_ns, as_early) == RunEnd(end_ns, end_ns)
    assert end_with_queues(run, CONGESTION_AWARE, end_ns) == RunEnd(end_ns, end_ns)


def test_of_ends_that_are_as_near_as_models_tell_the_one_that_was_replayed_so_is_better():
    own, sooner, much_sooner = RunEnd(1000, 1000), RunEnd(500, 996, "no queues"), RunEnd(500, 994, "no queues")
    assert own.is_before(sooner) and not sooner.is_before(own)
    assert much_sooner.is_before(own) and not own.is_before(much_sooner)
    assert much_sooner.is_before(sooner) and RunEnd(999, 999).is_before(own) and not own.is_before(own)
    nothing = RunEnd(1, None, "it moves nothing")
    assert own.is_before(nothing) and not nothing.is_before(own)


@given(st.lists(st.tuples(st.integers(980, 1020), st.integers(0, 20), st.sampled_from(["", "early", "idle"])), min_size=1))
def test_the_earliest_end_does_not_depend_on_the_order(ends):
    """The best of those that are possible as replayed, unless the best of the others is earlier by more than models tell."""
    made = [RunEnd(end, None if why == "idle" else end + (more if why else 0), why) for end, more, why in ends]
    best = made[earliest(made)]
    for shuffled in (sorted(made, key=repr), made[::-1]):
        again = shuffled[earliest(shuffled)]
        assert (again.counted_ns, again.possible_ns is None) == (best.counted_ns, best.possible_ns is None)
    assert not any(each.is_before(best) for each in made)


def test_planned_runs_are_judged_by_the_same_rule(tmp_path):
    nodes = [coll(0, [], size=MIB), coll(1, [0], CommType.ALL_GATHER, size=MIB)]
    inputs = written(tmp_path, RunFiles([nodes] * 8, npus=[4, 2], topology=["Ring", "Switch"]))
    result, after = quickly_planned(inputs, tmp_path / "plan", backend=CONGESTION_UNAWARE)
    assert result.after_end == judge_end(read_run(after), CONGESTION_UNAWARE, result.after_ns)
    assert result.before_ns is not None
    assert result.before_end == judge_end(read_run(inputs), CONGESTION_UNAWARE, result.before_ns)
    least = result.before_end.counted_ns
    assert result.speed_up == least / result.after_end.counted_ns
