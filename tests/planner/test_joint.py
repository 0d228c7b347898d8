"""Collectives of several groups that run at once become one schedule of all their ranks, if the whole run gains."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.command import read_json
from helpers.lint_runs import RunFiles, coll, comp
from helpers.networks import config
from helpers.plans import QUICK, attributes, contents, lint_plan, messages, planned, quickly_planned, written

from astra_tacos import CommType, PlanResult, RunInputs, build_topology, make_collective, read_run, replay_run
from astra_tacos.planner.joint import joint_synthesis
from astra_tacos.planner.joint.joint_sets import JointSet, joint_sets
from astra_tacos.planner.joint.joint_synthesis import JointCollective, joined, synthesize_joint
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.chunks import part_of, read_trace_parts
from astra_tacos.run.patterns import GROUP_ATTRIBUTE
from astra_tacos.schedule.joint import join
from astra_tacos.synthesizer.algorithms.routed import together
from astra_tacos.verifier.run_oracle import verify_run

PAIRS = {"1": [0, 1], "2": [2, 3], "3": [4, 5], "4": [6, 7]}
SIZE = 1 << 20
Planned = tuple[RunInputs, PlanResult, RunInputs]


def of_pairs(rank):
    """Experts of pairs: computation, All-to-All, computation, All-to-All, and gradients of all."""
    own = rank // 2 + 1
    exchanges = [coll(1, [0], CommType.ALL_TO_ALL, SIZE, own), comp(2, [1], us=2), coll(3, [2], CommType.ALL_TO_ALL, SIZE, own)]
    return [comp(0, us=3), *exchanges, coll(4, [3], size=1 << 14)]


MOE = RunFiles(ranks=[of_pairs(rank) for rank in range(8)], groups=PAIRS, topology=("FullyConnected",), npus=(8,))


@pytest.fixture(scope="module")
def moe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moe")
    inputs = written(folder, MOE)
    return inputs, *quickly_planned(inputs, folder / "plan")


def test_pairs_use_the_links_of_all(moe):
    _, result, after = moe
    assert result.speed_up_over_best_native > 2
    (joint,) = result.joint
    assert (joint.collectives, joint.ranks, joint.count) == (("4 x all-to-all 1 MiB",), tuple(range(8)), 2)
    assert joint.predicted_ns == joint.spent_ns < joint.apart_ns / 2
    assert result.time_ns >= result.bound.end_ns
    assert replay_run(read_run(after)).end_ns == result.time_ns
    report = lint_plan(after)
    assert (report.errors, report.warnings) == ({}, {})


def test_nodes_keep_their_own_group_in_an_attribute(moe):
    inputs, _, after = moe
    groups = read_json(after.groups) if after.groups else {}
    for rank, (old, new) in enumerate(zip(messages(inputs), messages(after), strict=True)):
        for node in (1, 3):
            named = attributes(new[node])
            assert named[GROUP_ATTRIBUTE] == attributes(old[node])["pg_name"] == str(rank // 2 + 1)
            assert groups[named["pg_name"]] == list(range(8))


def test_the_oracle_passes_what_relays_did(moe):
    inputs, _, after = moe
    verdict = verify_run(read_run(after), read_trace_parts(after.system.parent / "plan.json"), read_run(inputs))
    assert verdict.proven
    assert verdict.violations == ()


def test_a_plan_of_a_plan_is_the_same(moe, tmp_path):
    _, first, after = moe
    again, _ = quickly_planned(after, tmp_path / "again")
    assert (again.before_ns, again.time_ns, again.best_native_ns) == (first.time_ns, first.time_ns, first.best_native_ns)
    assert contents(tmp_path / "again") == contents(after.system.parent)


def test_the_same_for_any_number_of_threads(moe, tmp_path):
    inputs, _, after = moe
    planned(inputs, tmp_path / "plan", options=replace(QUICK, threads=1))
    assert contents(tmp_path / "plan") == contents(after.system.parent)


def different(rank):
    """Groups that do different things at about the same time."""
    kinds = [CommType.ALL_TO_ALL, CommType.ALL_GATHER, CommType.REDUCE_SCATTER, CommType.ALL_REDUCE]
    return [
        comp(0, us=3 + rank // 4),
        coll(1, [0], kinds[rank // 2], SIZE >> rank // 4, rank // 2 + 1),
        coll(2, [1], size=1 << 12),
    ]


def test_different_patterns_and_sizes_go_together(tmp_path):
    ranks = [different(rank) for rank in range(8)]
    inputs = written(tmp_path, RunFiles(ranks=ranks, groups=PAIRS, topology=("FullyConnected",), npus=(8,)))
    result, after = quickly_planned(inputs, tmp_path / "plan")
    assert [len(joint.collectives) for joint in result.joint] == [4]
    parts = read_trace_parts(tmp_path / "plan" / "plan.json")
    assert verify_run(read_run(after), parts, read_run(inputs)).proven
    report = lint_plan(after)
    assert report.errors == {}


def test_what_waits_for_one_another_is_not_joined(tmp_path):
    inputs = written(tmp_path, MOE)
    workload = find_workload(read_run(inputs))
    sets = joint_sets(workload, replay_run(workload.run), lambda number: True)
    assert [(len(each.parts), len(each.instances)) for each in sets] == [(4, 2)]
    topology = build_topology(workload.run.network)
    collectives = [make_collective(name, 8, size, 1, None, ranks) for name, size, _, ranks in sets[0].parts]
    made = together(topology, collectives, "blocking")
    parts = tuple(part_of(each.collective) for each in made)
    first, second = sets[0].instances
    crossed = replace(sets[0], instances=((*first[:2], *second[2:]), (*second[:2], *first[2:])))
    assert joined(workload, [JointCollective(sets[0], join(made), parts)]) is not None
    wrong = replace(sets[0], instances=((first[0], second[0]),))
    assert joined(workload, [JointCollective(wrong, join(made), parts)]) is None
    assert joined(workload, [JointCollective(crossed, join(made), parts)]) is None


def test_stages_that_ask_for_the_same_get_it_once(monkeypatch):
    network, made = config("Ring 4", "Ring 4"), []
    monkeypatch.setattr(joint_synthesis, "together", lambda *asked: made.append(asked) or together(*asked))
    topology = build_topology(network)

    def of_stage(first, most_messages):
        parts = tuple(("all-reduce", 6_400_000, None, tuple(range(first + at, first + 8, 2))) for at in range(2))
        cache, joint = SynthesisCache(None), JointSet(parts, ((0, 1),), 1)
        return synthesize_joint(joint, topology, network, CONGESTION_AWARE, QUICK, cache, most_messages)

    one = of_stage(0, 1000)
    count = len(made)
    others = of_stage(8, 1000), of_stage(0, 999)
    assert one is not None and count == len(made)
    assert all(other is not None and other.time_ns == one.time_ns for other in others)
    of_stage(1, 1000)
    assert len(made) > count
