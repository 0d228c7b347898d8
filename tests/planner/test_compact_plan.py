"""Plans of compact runs: never later than the best native run, at the time of all ranks one by one, and never below the bound."""

from __future__ import annotations

import itertools
import json
from dataclasses import fields, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers.command import read_json
from helpers.compact_runs import random_compact_run
from helpers.examples import some_of
from helpers.generated import small_model, write_network

from astra_tacos import (
    BACKENDS,
    AstraTacosError,
    CompactInputs,
    ConfigError,
    Dimension,
    Parallelism,
    PlanRequest,
    RunInputs,
    SearchOptions,
    Step,
    expand,
    generate,
    plan,
    read_compact,
    read_network,
    read_run,
    replay_run,
)
from astra_tacos.planner.classes.cases import find_cases, with_schedules
from astra_tacos.planner.classes.class_bound import _rates, class_bound
from astra_tacos.planner.classes.class_planning import ClassPlanning
from astra_tacos.planner.run_bound import run_bound
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.compact_run import fixed_dimensions
from astra_tacos.run.groups import ALL_RANKS, group_ids
from astra_tacos.run.run import NATIVE
from astra_tacos.run.system import PER_NODE_KEY, read_system
from astra_tacos.run.written import write_system
from astra_tacos.solver.native_configuration import NativeConfiguration
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.symmetric.chunks import best_symmetric

DENSE = Step(small_model(), Parallelism(4, 2, 4, order=("tp", "ep", "pp", "dp")), 4)
EXPERTS = Step(small_model(experts=4, top_k=2), Parallelism(8, 2, 2, 4, ("ep", "tp", "pp", "dp")), 2, buckets=2)
OF_CLASSES = ("inputs", "backend", "baseline", "options", "cache")
QUIET = lambda done, total: None  # noqa: E731
SHAPES = ((("FullyConnected", 2), ("Ring", 4), ("Switch", 4)), (("Ring", 8), ("Switch", 4)), (("Ring", 32),))


def made(step, shape, folder):
    """A small run, written as a large one is, and its network."""
    network = folder / "n.yml"
    write_network(network, *shape)
    generate(step, folder / "run", network=network, compact=True)
    return folder / "run", network


PLANNED = [*itertools.product((DENSE, EXPERTS), SHAPES, BACKENDS.values())]


@pytest.mark.parametrize(("step", "shape", "backend"), some_of(PLANNED, 6))
def test_the_planned_run_ends_as_all_its_ranks_do(step, shape, backend, tmp_path):
    try:
        run, network = made(step, shape, tmp_path)
    except ConfigError as error:
        assert "expected even spaces" in str(error)
        return
    for _ in range(2):  # a plan of its own is replaced
        result = plan(PlanRequest(CompactInputs(run, network), backend), tmp_path / "planned").result
    assert result.bound_ns <= result.time_ns <= result.best_native_ns <= result.before_ns
    some = read_compact(tmp_path / "planned", read_network(tmp_path / "planned/network.yml"))
    by_rank = replay_run(expand(some), backend)
    assert by_rank.end_ns == result.time_ns == result.path_after.end_ns
    assert by_rank.num_messages == result.messages.after
    place = some.lattice.places(np.arange(some.lattice.num_ranks))
    assert np.array_equal(replay_run(some, backend).finish_ns[place], by_rank.finish_ns)
    ordinary = read_run(RunInputs.in_folder(tmp_path / "planned/ordinary", "w"))
    assert np.array_equal(replay_run(ordinary, backend).finish_ns, by_rank.finish_ns)
    assert read_json(tmp_path / "planned/plan.json")["time_ns"] == result.time_ns


def test_the_figures_of_a_plan_of_classes_are_those_of_a_plan_of_all_ranks(tmp_path):
    """The cases, their groups and nodes, and the run before, as ranks one by one have them; and every key of `plan.json`."""
    run, network = made(DENSE, SHAPES[0], tmp_path)
    generate(DENSE, tmp_path / "ranks", network=network)
    inputs = replace(RunInputs.in_folder(tmp_path / "ranks", "w"), network=network)
    options = SearchOptions(effort="quick")
    whole = plan(PlanRequest(inputs, CONGESTION_AWARE, options=options), tmp_path / "plan_of_ranks").result
    of_classes = plan(PlanRequest(CompactInputs(run, network), CONGESTION_AWARE), tmp_path / "planned").result
    for name in ("num_ranks", "num_nodes", "num_collectives", "before_ns", "exposed_before_ns"):
        assert getattr(of_classes, name) == getattr(whole, name)
    assert of_classes.messages.before == whole.messages.before
    of_rank = [{(case.collective, case.size_bytes, case.members): case for case in each.cases} for each in (of_classes, whole)]
    assert of_rank[0].keys() == of_rank[1].keys()
    for key, case in of_rank[0].items():
        assert (case.groups, case.count, case.first_group) == (
            of_rank[1][key].groups,
            of_rank[1][key].count,
            of_rank[1][key].first_group,
        )
    written, ordinary = (read_json(tmp_path / folder / "plan.json") for folder in ("planned", "plan_of_ranks"))
    of_nodes = {"node_columns", "nodes", "verified", "unchecked", "traces"}
    assert ordinary.keys() - of_nodes <= written.keys()
    assert ordinary["cases"][0].keys() <= written["cases"][0].keys()


def asked(value):
    """A value of an option that is not its default."""
    return value * 2 + 1 if isinstance(value, int) and not isinstance(value, bool) else not value


@pytest.mark.parametrize("name", [each.name for each in fields(PlanRequest) if each.name not in OF_CLASSES])
def test_what_a_plan_of_classes_cannot_do_is_refused(name):
    inputs = CompactInputs(Path("run"), Path("n.yml"))
    values = {each.name: each.default for each in fields(PlanRequest)}
    more = {"schedule": "split"} if name in ("per_iteration", "keep_collectives", "schedule") else {}
    with pytest.raises(ConfigError, match=rf"\b{name}\b.*: run is a compact run, expected backend, baseline and options.effort"):
        PlanRequest(inputs, **({name: asked(values[name])} | more))
    PlanRequest(inputs, "congestion-unaware", "ring", options=SearchOptions(effort="quick"))
    with pytest.raises(ConfigError, match=r"options\.seed: run is a compact run"):
        PlanRequest(inputs, options=SearchOptions(seed=3))


@pytest.mark.parametrize("named", [1, 2])
def test_the_best_native_run_of_classes_is_no_slower_than_any_unsplit_one(named, tmp_path):
    """Also where the system names the algorithm of one dimension of two: such a run moves too little to compare with."""
    run, network = made(Step(small_model(), Parallelism(32)), SHAPES[1], tmp_path)
    some = read_compact(run, read_network(network))
    system = some.system.with_keys({"all-reduce-implementation": ["ring"] * named})
    planning = ClassPlanning(PlanRequest(CompactInputs(run, network)), replace(some, system=system), QUIET)
    assert (planning.own.end_ns is None) == (named < 2)
    native = planning.base
    assert not native.why_incomplete and native.end_ns == planning.native.best.end_ns
    for algorithm in ("ring", "direct"):
        drawn = NativeConfiguration(((algorithm,) * 2,) * 4, policy="FIFO")
        assert native.end_ns <= replay_run(drawn.run(some), CONGESTION_AWARE).end_ns


def test_a_plan_without_traces_names_none_of_those_of_its_run(tmp_path):
    source = tmp_path / "source.json"
    (tmp_path / "per_node.yml").write_text("3: collective/a\n")
    custom = {"all-reduce-implementation-custom": ["collective/a"], PER_NODE_KEY: "per_node.yml"}
    source.write_text(json.dumps({"preferred-dataset-splits": 1, "all-reduce-implementation": ["ring"]} | custom))
    system = read_system(source, tmp_path).with_keys({"all-reduce-implementation": ["direct"]}).with_traces({})
    (tmp_path / "out").mkdir()
    write_system(tmp_path / "out", system)
    written = read_json(tmp_path / "out/system.json")
    assert written == {"preferred-dataset-splits": 1, "all-reduce-implementation": ["direct"]}
    assert not (tmp_path / "out/per_node.yml").exists()


@pytest.mark.parametrize("seed", range(12))
def test_any_mix_of_schedules_is_replayed_as_rank_by_rank(seed, tmp_path):
    random = Random(seed)
    run, network = made(DENSE, random.choice(SHAPES), tmp_path)
    some = read_compact(run, read_network(network))
    found = find_cases(some)
    schedules = {}
    for number, case in enumerate(found.cases):
        task = case.task(random.choice(("blocking", "pipelined")))
        if task is not None and random.random() < 0.7:
            schedules[number] = best_symmetric(task, 4096)
    native = NativeConfiguration(((random.choice(("ring", "direct")),),) * 4, policy="FIFO")
    planned = with_schedules(some, found, schedules, native)
    assert (planned.implementation != NATIVE).any() == bool(schedules)
    whole = expand(planned)
    for backend in BACKENDS.values():
        try:
            end_ns = replay_run(planned, backend).end_ns
        except AstraTacosError as error:
            assert "in an order that may differ" in str(error)
            continue
        assert end_ns == replay_run(whole, backend).end_ns


def test_each_trace_has_groups_of_its_own_and_ids_that_tell_it(tmp_path):
    run, network = made(DENSE, (("Ring", 2), ("Ring", 4), ("Ring", 4)), tmp_path)
    plan(PlanRequest(CompactInputs(run, network), "congestion-aware"), tmp_path / "planned")
    planned = read_compact(tmp_path / "planned", read_network(network))
    rows = np.flatnonzero(planned.implementation != NATIVE)
    assert len(rows)
    ids, patterns = group_ids(planned.columns)[rows], planned.columns.comm_type[rows]
    of_group = {}
    of_id = {}
    keys = zip(ids.tolist(), patterns.tolist(), planned.workload.node_id[rows].tolist(), strict=True)
    for (group, pattern, node), which in zip(keys, planned.implementation[rows].tolist(), strict=True):
        assert group == ALL_RANKS or of_group.setdefault((group, pattern), which) == which
        assert of_id.setdefault(node, which) == which


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(block for block, _ in shape))
def test_the_bound_is_below_that_of_all_ranks_or_as_true(shape, tmp_path):
    """Both hold for every run: neither exceeds the end of any that is replayed with queues."""
    run, network = made(DENSE, shape, tmp_path)
    some = read_compact(run, read_network(network))
    found = find_cases(some)
    bound = class_bound(some, found.alone_ns, CONGESTION_AWARE)
    assert bound.end_ns <= bound.in_step_ns
    ordinary = generate(DENSE, tmp_path / "ranks", network=network).path
    workload = find_workload(read_run(replace(RunInputs.in_folder(ordinary, "w"), network=network)))
    assert bound.parts_ns["compute"] == run_bound_compute(workload)
    for algorithm in ("ring", "direct"):
        configuration = NativeConfiguration(((algorithm,),) * 4, policy="FIFO")
        end_ns = replay_run(configuration.run(workload.run), "congestion-aware").end_ns
        assert bound.end_ns <= end_ns


@pytest.mark.parametrize(("block", "size"), [("Ring", 5), ("FullyConnected", 4), ("Switch", 4), ("Mesh", 3), ("Hypercube", 8)])
def test_what_enters_a_member_is_bounded_by_the_member_with_most_links(block, size):
    dimension = Dimension(block, size, 1.0, 100.0)
    into = dimension.building_block.links(size).dst
    most = np.bincount(into[into < size]).max() * float(bytes_per_ns(np.array([1.0]))[0])
    assert _rates((dimension,), largest=True).tolist() == pytest.approx([most])
    assert _rates((dimension,))[0] <= most


def run_bound_compute(workload):
    from astra_tacos.network.composition import build_topology

    topology = build_topology(workload.run.network)
    return run_bound(workload, topology, (CaseSolution(None),) * len(workload.cases), CONGESTION_AWARE).parts_ns["compute"]  # type: ignore[attr-defined,arg-type]


@pytest.mark.parametrize("seed", range(60))
def test_random_runs_with_schedules_end_as_rank_by_rank_and_not_below_the_bound(seed):
    random = Random(seed)
    some = random_compact_run(seed, 48)
    if some.collectives or fixed_dimensions(some):
        return
    found = find_cases(some)
    tasks = {number: case.task(random.choice(("blocking", "pipelined"))) for number, case in enumerate(found.cases)}
    schedules = {number: best_symmetric(task, 4096) for number, task in tasks.items() if task and random.random() < 0.8}
    names = (random.choice(("ring", "direct")),) * max(1, len(some.network.dimensions))
    planned = with_schedules(some, found, schedules, NativeConfiguration((names,) * 4, policy="FIFO"))
    whole = expand(planned)
    bound = class_bound(some, found.alone_ns, CONGESTION_AWARE)
    for backend in BACKENDS.values():
        try:
            by_rank = replay_run(whole, backend)
        except AstraTacosError:
            continue
        if backend.models_congestion:
            assert bound.end_ns <= by_rank.end_ns
        try:
            classes = replay_run(planned, backend)
        except AstraTacosError as error:
            assert "in an order that may differ" in str(error)
            continue
        place = some.lattice.places(np.arange(some.lattice.num_ranks))
        assert np.array_equal(classes.finish_ns[place], by_rank.finish_ns)
