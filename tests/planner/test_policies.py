"""Every policy on generated runs of all kinds of parallelism: what is written is legal, ends, and is never slower."""

from __future__ import annotations

import contextlib
import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from helpers.examples import examples
from helpers.generated import small_model, write_network
from helpers.plans import candidates_of, generated_run, schedule_run, timed_layer, write_candidate
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import (
    AstraTacosError,
    CommType,
    ConfigError,
    Device,
    LayeredModel,
    LayeredStep,
    Parallelism,
    PlanRequest,
    Step,
    read_run,
    replay_run,
)
from astra_tacos.planner.retime.policies import POLICIES
from astra_tacos.planner.retime.request import SYSTEMS, Request, describe, parse_schedule
from astra_tacos.planner.retime.search import search
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.run.chunks import shared_plans
from astra_tacos.run.trace.reader import read_names

KINDS: dict[str, Any] = {
    "dp": {"parallelism": Parallelism(dp=4), "buckets": 2},
    "dp tp": {"parallelism": Parallelism(dp=2, tp=2)},
    "pp": {"parallelism": Parallelism(dp=2, pp=2), "micro_batches": 2},
    "zero": {"parallelism": Parallelism(dp=4), "shards_optimizer": True},
    "moe": {"parallelism": Parallelism(dp=4, ep=2), "model": small_model(hidden=256, ffn=1024, layers=2, experts=4, top_k=2)},
}
SCHEDULES = [
    *POLICIES,
    "pipeline:messages=yes",
    "reorder:when=idle,priority",
    "reorder,pipeline:pieces=3,messages=yes,priority",
    "bytescheduler:partition=100KB,credit=400KB",
    "dear",
    "lina:partition=100KB",
    "p3",
    "mgwfbp",
]


def made(folder, kind, steps=2):
    more = {"model": small_model(hidden=256, ffn=1024, layers=2)} | KINDS[kind]
    count = more["parallelism"].num_ranks
    network = write_network(folder / "n.yml", ("FullyConnected", count), bandwidth=5)
    return generated_run(folder, Step(batch=8, steps=steps, **more), network)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_legal_and_never_slower(kind, tmp_path):
    inputs = made(tmp_path, kind)
    before = replay_run(read_run(inputs))
    changed = 0
    for number, schedule in enumerate(SCHEDULES):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = schedule_run(PlanRequest(inputs, schedule=schedule), folder)
        assert not any("DEFECT" in note for note in result.notes), result.notes
        after = replay_run(read_run(planned_inputs(folder, inputs)))
        assert after.end_ns == result.after_ns <= before.end_ns == result.as_is_ns
        assert after.compute_ns == pytest.approx(before.compute_ns, rel=1e-3)
        changed += not result.is_as_is
    assert changed >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_policies_that_are_slower_are_legal_too(kind, tmp_path):
    """Candidates are written whether or not they are faster, and judged by their files."""
    inputs = made(tmp_path, kind, steps=1)
    candidates = candidates_of(inputs)
    for schedule in ("split:partition=60KB,of=both", "decouple:barrier=no,priority", "reorder,pipeline:pieces=2"):
        write_candidate(candidates, schedule, inputs, tmp_path / schedule)


def test_gradients_of_weights_wait_until_nothing_else_is_ready(tmp_path):
    """On the last stage the next micro-batch is always ready, so the gradients of all of them come behind its backward passes."""
    candidates = candidates_of(made(tmp_path, "pp", steps=1))
    trace = candidates.workload.run.workload
    name_of = read_names(trace, list(range(trace.num_nodes)))

    def order(schedule):
        candidate = candidates.make(parse_schedule(schedule) or ())
        rows = [task.row for task in candidate.new.ranks[-1] if task.computes]
        return [name_of[row] for row in rows]

    idle = order("reorder:when=idle")
    assert sorted(idle) == sorted(order("reorder"))
    moved = [at for at, name in enumerate(idle) if "weight_gradient_layer" in name]
    others = [at for at, name in enumerate(idle) if "input_gradient_layer" in name]
    assert moved and others and min(moved) > max(others)


@pytest.mark.parametrize("schedule", ["split:partition=1", "pipeline:pieces=1024,messages=yes"])
def test_more_pieces_than_a_rank_may_have_are_refused(schedule, tmp_path, monkeypatch):
    monkeypatch.setattr("astra_tacos.planner.retime.policy.MAX_NODES_OF_RANK", 3000)
    inputs = made(tmp_path, "pp")
    (tmp_path / "out").mkdir()
    result = schedule_run(PlanRequest(inputs, schedule=schedule), tmp_path / "out")
    assert result.is_as_is
    assert any("pieces a rank, expected at most 3,000" in note for note in result.notes), result.notes


def test_cheaper_halves_are_no_gain_of_the_order(tmp_path):
    """ASTRA-sim's All-Reduce in two dimensions without localBWAware sends everything in each; its halves send less."""
    for number, dimensions in enumerate(((("FullyConnected", 2), ("Ring", 2)), (("FullyConnected", 4),))):
        (folder := tmp_path / str(number)).mkdir()
        network = write_network(folder / "n.yml", *dimensions, bandwidth=5)
        step = Step(small_model(hidden=256, ffn=1024, layers=2), Parallelism(dp=4), batch=8, steps=2)
        candidate = candidates_of(generated_run(folder, step, network)).make(parse_schedule("decouple") or ())
        assert any("gained by another algorithm" in note for note in candidate.notes) == (len(dimensions) > 1)


def test_buckets_that_would_wait_for_one_another_are_halved(tmp_path):
    """Tensor parallel groups and data parallel ones reduce in turns, so two buckets can each have what the other waits for."""
    network = write_network(tmp_path / "n.yml", ("FullyConnected", 4), ("Ring", 2), bandwidth=5)
    step = Step(small_model(hidden=64, ffn=256, layers=2), Parallelism(dp=1, tp=4, pp=2), 4, batch=1, steps=2)
    inputs = generated_run(tmp_path, step, network)
    candidates = candidates_of(inputs)
    for schedule in ("fuse", "dear", "fuse:rule=mgwfbp", "horovod"):
        write_candidate(candidates, schedule, inputs, tmp_path / schedule)


def test_no_policy_makes_astra_sim_free_an_algorithm_twice(tmp_path):
    """Tensor parallel ranks gather and scatter, data parallel ones reduce: halves of All-Reduces would share plans with them."""
    network = write_network(tmp_path / "n.yml", ("FullyConnected", 4), bandwidth=5)
    model = small_model(hidden=256, ffn=1024, layers=2)
    step = Step(model, Parallelism(dp=2, tp=2), batch=8, sequence_parallel=True)
    candidates = candidates_of(generated_run(tmp_path, step, network))
    # The loss is reduced in tensor parallel groups, gradients in others, so All-Reduces share plans already.
    assert set(shared_plans(candidates.workload.run)) == {CommType.ALL_REDUCE}
    candidates.make(parse_schedule("priority") or ())
    with pytest.raises(ConfigError, match=r"ASTRA-sim may abort at its end \(lint: G10\)"):
        candidates.make(parse_schedule("decouple") or ())


@st.composite
def loops(draw):
    count = draw(st.integers(2, 3))
    times = st.integers(1, 40)
    layers = tuple(timed_layer(draw(times) * 10_000, draw(times), draw(times), draw(times)) for _ in range(count))
    return LayeredStep(LayeredModel("loop", layers), Parallelism(dp=2), steps=2)


@examples(3)
@given(loops())
def test_the_search_is_as_good_as_all_orders_and_as_every_policy(step):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        network = write_network(folder / "n.yml", ("FullyConnected", 2), bandwidth=2)
        candidates = candidates_of(generated_run(folder, step, network, Device(1e6, 1e9, writes_durations=True)))
        found = search(candidates, 4, lambda done, total: None)
        best = found.best.end_ns if found.best else candidates.before.end_ns
        assert best <= min(one.end_ns for one in found.tried if one.end_ns is not None)
        # What is written is a row of tables and figures, also in an order that no policy found.
        assert found.best is None or (found.best.name, best) in [(one.name, one.end_ns) for one in found.tried]
        start = candidates.make(())
        graph, _ = candidates.rewritten(())
        for sequence in permutations(graph.operations):
            with contextlib.suppress(AstraTacosError):
                assert best <= candidates.in_sequence(start, graph, sequence).end_ns


RUNS = (Parallelism(dp=4), Parallelism(dp=8), Parallelism(dp=2, tp=2), Parallelism(dp=2, pp=2), Parallelism(dp=4, tp=2))
NETWORKS = ("Ring", "FullyConnected", "Switch")


@examples(3)
@given(st.sampled_from(RUNS), st.sampled_from(NETWORKS), st.integers(1, 3), st.sampled_from([1, 4, 40]), st.data())
def test_random_runs_are_never_slower(parallelism, block, layers, gibps, data):
    """Any policies on any run: what is written is legal, takes what the replay in memory took, and no longer than before."""
    names = data.draw(st.lists(st.sampled_from([*POLICIES, *SYSTEMS]), min_size=1, max_size=3, unique=True))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        network = write_network(folder / "n.yml", (block, parallelism.num_ranks), bandwidth=gibps)
        model = small_model(hidden=256, ffn=1024, layers=2 * layers)
        step = Step(model, parallelism, 2, batch=8, steps=data.draw(st.integers(1, 2)))
        inputs = generated_run(folder, step, network)
        (folder / "out").mkdir()
        result = schedule_run(PlanRequest(inputs, schedule=",".join(names)), folder / "out")
        assert not any("DEFECT" in note for note in result.notes), result.notes
        after = replay_run(read_run(planned_inputs(folder / "out", inputs)))
        assert after.end_ns == result.after_ns <= result.as_is_ns


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_stands_for_policies(name):
    requests = parse_schedule(name)
    assert parse_schedule(describe(requests)) == requests
    for option, (policy, key) in SYSTEMS[name].options.items():
        assert key in POLICIES[policy].options, option


WRONG = """
fast | schedule: found 'fast', expected as-is, search, fifo, reorder
split:size=4 | schedule: split: found option 'size', expected partition or of
split:partition=0 | schedule: split: partition
search,priority | found 'search' in 'search,priority', expected it alone
decouple:barrier=maybe | expected yes or no
partition=4MB | expected a policy before its options
 as-is | expected it alone
 | expected POLICY
"""


@pytest.mark.parametrize("case", WRONG.strip("\n").splitlines())
def test_what_is_no_schedule_is_refused(case):
    text, message = case.split(" | ")
    with pytest.raises(ConfigError, match=message):
        parse_schedule(text)


def test_options_of_several_policies_are_told_apart():
    assert parse_schedule("bytescheduler:partition=1MB,credit=3MB") == parse_schedule("split:partition=1MB,priority:credit=3MB")
    assert parse_schedule("wfbp") == ()
    assert isinstance(parse_schedule("tictac")[0], Request)
