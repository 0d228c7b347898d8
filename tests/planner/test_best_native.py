"""The best native configuration of a run: what a plan has to beat, found by replay and written where nothing is faster."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import prod
from random import Random

import pytest
from helpers.command import read_json
from helpers.examples import some_of
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import planned, written

from astra_tacos import AstraTacosError, CommType, SearchOptions, read_run, replay_run
from astra_tacos.planner import planned_run as rewrite
from astra_tacos.planner.best_native import best_native, native_collectives
from astra_tacos.planner.workload import (
    find_workload,
)
from astra_tacos.replayer.native import NATIVE_ALGORITHMS
from astra_tacos.replayer.native_share import why_incomplete
from astra_tacos.run.backend import CONGESTION_AWARE, CONGESTION_UNAWARE
from astra_tacos.run.system import BASELINE, COMM_KEYS, LOCAL_BW_AWARE
from astra_tacos.solver.native_configuration import NativeConfiguration
from astra_tacos.verifier.run_oracle import verify_run

QUICK = SearchOptions("ring", threads=1, chunks_per_npu=1)
ON_AWARE = {"options": QUICK, "backend": CONGESTION_AWARE}
AG = CommType.ALL_GATHER


def two_patterns(topology=("Ring",), counts=(4,), size=1 << 20):
    """An All-Reduce and an All-Gather of all ranks, with compute between them."""
    nodes = [comp(0, us=3), coll(1, [0], size=size), comp(2, [1], us=5), coll(3, [2], AG, size=size)]
    return RunFiles(ranks=[nodes] * prod(counts), topology=topology, npus=counts)


def found(inputs, backend=CONGESTION_AWARE):
    return best_native(native_collectives(find_workload(read_run(inputs)), backend), backend)


def end_ns(inputs, configuration):
    try:
        return replay_run(configuration.run(read_run(inputs)), CONGESTION_AWARE).end_ns
    except AstraTacosError:
        return None


@pytest.mark.parametrize(("topology", "counts"), [(("Switch",), (4,)), (("Ring", "Switch"), (3, 2))])
def test_nothing_that_names_one_algorithm_a_pattern_is_faster(tmp_path, topology, counts):
    inputs = written(tmp_path, two_patterns(topology, counts))
    best = found(inputs)
    dims = len(counts)
    for reduce, gather in itertools.product(NATIVE_ALGORITHMS, repeat=2):
        names = {"all-reduce": (reduce,) * dims, "all-gather": (gather,) * dims}
        other = NativeConfiguration(tuple(names.get(key, (reduce,) * dims) for key in COMM_KEYS), policy="FIFO")
        time = end_ns(inputs, other)
        assert time is None or time >= best.end_ns
    assert end_ns(inputs, best.best.configuration) == best.end_ns


@pytest.mark.parametrize("backend", [CONGESTION_AWARE, CONGESTION_UNAWARE], ids=str)
@pytest.mark.parametrize("seed", some_of(range(4), 2))
def test_no_plan_is_slower_than_configurations_drawn_from_the_stated_space(seed, backend, tmp_path):
    random = Random(seed)
    shape = random.choice(((("Ring",), (8,)), (("Ring", "Switch"), (4, 2)), (("FullyConnected", "Ring"), (3, 4))))
    inputs = written(tmp_path, two_patterns(*shape, 1 << random.randint(12, 24)))
    result, after = planned(inputs, tmp_path / "plan", options=QUICK, backend=backend)
    run, dims = read_run(inputs), len(shape[1])
    assert replay_run(read_run(after), backend).end_ns == result.time_ns <= result.best_native_ns
    for _ in range(60):
        splits = random.randint(1, 16)
        names = tuple(tuple(random.choice(("ring", "direct", "halvingDoubling")) for _ in range(dims)) for _ in COMM_KEYS)
        optimization, policy = random.choice((BASELINE, LOCAL_BW_AWARE)), random.choice(("FIFO", "LIFO"))
        drawn = NativeConfiguration(names, splits, random.randint(1, splits), optimization, policy).run(run)
        try:
            end_ns = replay_run(drawn, backend).end_ns
        except AstraTacosError:
            continue
        assert why_incomplete(drawn) or result.time_ns <= end_ns, (names, splits, optimization, policy)


def test_a_plan_of_native_collectives_is_the_best_native_run_itself(tmp_path, monkeypatch):
    """Whatever orders collectives may delay them, here much: the run whose nodes stay as they are is a candidate, too."""
    files = RunFiles([[comp(0, us=900), coll(1, size=64)]] * 8, topology=("Switch",), npus=(8,))
    inputs = written(tmp_path, files)

    def late(workload, *_):
        nodes = workload.instances.nodes
        return nodes.row, workload.run.workload.rank_first[nodes.rank]

    monkeypatch.setattr(rewrite, "order_dependencies", late)
    result, after = planned(inputs, tmp_path / "plan", **ON_AWARE)
    assert result.time_ns == result.best_native_ns == 900_000
    assert replay_run(read_run(after), CONGESTION_AWARE).end_ns == result.time_ns
    assert [case.algorithm for case in result.cases] == ["native"]
    assert not verify_run(read_run(after), {}, read_run(inputs)).violations


def test_the_plan_is_the_best_native_run_where_nothing_is_faster(tmp_path):
    """A plan that may only use rings, on a switch where they are slow: the system file is what changes."""
    inputs = written(tmp_path, two_patterns(("Switch",), (8,), 1 << 12))
    result, after = planned(inputs, tmp_path / "plan", **ON_AWARE)
    assert result.time_ns <= result.best_native_ns < result.before_ns
    assert replay_run(read_run(after), CONGESTION_AWARE).end_ns == result.time_ns
    plan = read_json(tmp_path / "plan" / "plan.json")
    assert plan["best_native_ns"] == result.best_native_ns
    assert plan["speed_up_over_best_native"] == result.best_native_ns / result.time_ns
    keys = plan["best_native"]["system"]
    system = read_json(tmp_path / "plan" / "system.json")
    if all(case.algorithm == "native" for case in result.cases):
        assert system | keys == system


def test_groups_run_what_a_list_of_one_names(tmp_path):
    """In groups of some ranks ASTRA-sim runs rings where several algorithms are named, and what is named where it is one."""
    rank = [coll(0, [], size=1 << 16, group=1)]
    files = RunFiles([rank] * 4 + [[comp(0)]] * 4, groups={"1": [0, 1, 2, 3]}, topology=("FullyConnected", "Ring"), npus=(4, 2))
    inputs = written(tmp_path, files)
    best = found(inputs, CONGESTION_UNAWARE)
    assert best.best.configuration.algorithms[0] == ("direct",)
    run = read_run(inputs)
    listed = replace(best.best.configuration, algorithms=(("direct", "direct"),) * 4)
    ring = replace(listed, algorithms=(("ring", "ring"),) * 4)
    ends = {each: replay_run(each.run(run), CONGESTION_UNAWARE).end_ns for each in (listed, ring)}
    assert ends[listed] == ends[ring] > 2 * best.end_ns
    result, after = planned(inputs, tmp_path / "plan", options=QUICK, backend=CONGESTION_UNAWARE)
    assert result.best_native_ns == best.end_ns >= result.time_ns
    assert replay_run(read_run(after), CONGESTION_UNAWARE).end_ns == result.time_ns


def test_a_run_that_only_waits_in_broadcasts_is_no_baseline(tmp_path):
    """The planned Broadcast moves data, so the plan may take longer than what computes nothing, and says why."""
    rank = [coll(0, [], CommType.BROADCAST, size=1), coll(1, [0], size=4096), comp(2, [1], us=9)]
    files = RunFiles([rank] * 16, topology=("Switch", "Switch"), npus=(8, 2), bandwidth=3.7)
    result, _ = planned(written(tmp_path, files), tmp_path / "plan", **ON_AWARE)
    idle = "ASTRA-sim's own Broadcast only waits, so 16 of its nodes move no data"
    assert result.best_native_ns is None and result.native.base is not None
    assert result.native.refusal == idle and f"do not compare with the run before: {idle}" in result.notes
    assert result.to_json()["best_native"] is None


def test_a_best_native_run_of_too_many_messages_is_named_and_not_written(tmp_path):
    files = replace(two_patterns(("FullyConnected",), (5,), 1 << 22), bandwidth=3.7)
    result, _ = planned(written(tmp_path, files), tmp_path / "plan", **ON_AWARE, most_messages=1)
    assert result.best_native_ns < result.time_ns and result.native.base is None
    assert result.why_no_gain == "no gain: the best native run has more messages than the 1 of --max-messages"


def test_an_algorithm_that_moves_too_little_is_no_baseline(tmp_path):
    """Trees are the fastest "All-Gather" of 64 ranks: a rank gets three shards of 63 at most."""
    files = RunFiles([[coll(0, [], AG, size=1 << 20)]] * 64, topology=("Switch",), npus=(64,))
    best = found(written(tmp_path, files))
    assert best.best.configuration.algorithms[1] != ("doubleBinaryTree",)


def test_a_planned_broadcast_of_all_ranks_is_in_reach_of_the_native_list(tmp_path):
    """It is written as an All-Reduce, which the other All-Reduces of the run, in groups, need no list of all dimensions for."""
    groups = {"1": [0, 1], "2": [2, 3], "3": [4, 5], "4": [6, 7]}
    ranks = [[coll(0, comm_type=CommType.BROADCAST, size=1 << 20), coll(1, [0], group=1 + rank // 2)] for rank in range(8)]
    files = RunFiles(ranks=ranks, groups=groups, topology=("Ring", "Switch"), npus=(4, 2))
    _, after = planned(written(tmp_path, files), tmp_path / "plan", options=QUICK)
    best = found(after)
    assert best.best == best.base
    assert all(len(names) == 2 for names in best.base.configuration.algorithms[:1])
