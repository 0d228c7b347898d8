"""Points as outcomes: the figures of a synthesis and of a plan, and whatever goes wrong as a status."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.networks import config
from helpers.sweeps import SMALL, collective_point, results

from astra_tacos import (
    COLLECTIVES,
    SYNTHESIZERS,
    CompactInputs,
    ConfigError,
    LinkSpec,
    NetworkConfig,
    Partition,
    PlanRequest,
    RunInputs,
    SearchOptions,
    VerificationError,
    build_topology,
    divide_endpoint,
    search,
)
from astra_tacos.cli.generate import generate
from astra_tacos.collective import ROOTED, all_reduce
from astra_tacos.network.network_config import write_network
from astra_tacos.planner.plan import plan
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.solver.clock import time_on
from astra_tacos.study.sweep import evaluate as collective_room
from astra_tacos.study.sweep.evaluate import evaluate, warm_up
from astra_tacos.study.sweep.point import OK, RESULT_COLUMNS, CollectiveTask, Conditions, Outcome, Point, WorkloadTask
from astra_tacos.study.sweep.run_source import RUN_KEYS, read_run_source
from astra_tacos.study.sweep.sweep_file import read_sweep_file
from astra_tacos.support.kernels.compiled import Kernel


@pytest.fixture(autouse=True)
def _scratch(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_collective_has_the_figures_of_its_search():
    options: dict[str, Any] = {"trials": 2, "seed": 3, "reduce_bandwidth_gbps": 900.0, "max_sends": 2000}
    point = collective_point(chunks_per_npu="auto", synthesizer="auto", **options)
    outcome = evaluate(point, Conditions())
    topology = build_topology(SMALL)
    asked = SearchOptions(chunks_per_npu="auto", threads=1, link_model="pipelined", **options)
    found = search(topology, all_reduce(8, 1 << 20), asked).schedule
    names = "status time_ns num_sends made_by made_seed made_chunks_per_npu made_link_model verified"
    taken = time_on(found, SMALL, CONGESTION_AWARE)
    expected = ["ok", round(taken.time_ns, 3), found.num_sends, found.synthesizer, found.seed]
    expected += [found.collective.chunks_per_npu, found.timing.link_model, True]
    assert [({"status": outcome.status} | outcome.results)[name] for name in names.split()] == expected
    assert outcome.results["efficiency"] == outcome.results["bound_ns"] / outcome.results["time_ns"]
    assert 0 < outcome.results["synthesis_seconds"] < outcome.results["seconds"]
    assert set(outcome.results) <= set(RESULT_COLUMNS)
    assert Outcome.from_row(outcome.to_row()) == replace(outcome, warnings=())


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"synthesizer": "themis", "collective": "broadcast"}, "refused", "broadcast on Ring 4 x Switch 2: themis: "),
        ({"size_bytes": 4}, "error", "expected at least one byte per chunk"),
        ({"collective": "reduce", "root": 99}, "error", "99"),
        ({"network": NetworkConfig("g.yml", (), (LinkSpec(0, 1, 1.0, 1.0), LinkSpec(1, 0, 1.0, 1.0)))}, "ok", None),
    ],
)
def test_statuses(changes, status, error):
    outcome = evaluate(collective_point(**changes), Conditions())
    assert outcome.status == status
    assert outcome.error is None if error is None else error in outcome.error
    assert (outcome.error is None) == (outcome.status == "ok")
    assert outcome.error is None or "\n" not in outcome.error


def test_after_the_warm_up_no_collective_calls_another_kernel(monkeypatch):
    called: set[str] = set()
    call = Kernel.__call__

    def note(kernel, *arguments):
        called.add(kernel.name)
        return call(kernel, *arguments)

    monkeypatch.setattr(Kernel, "__call__", note)
    warm_up()
    warm = called.copy()
    for name, synthesizer in SYNTHESIZERS.items():
        for collective in sorted(synthesizer.collectives & COLLECTIVES.keys()):
            root = 0 if collective in ROOTED else None
            evaluate(collective_point(synthesizer=name, collective=collective, root=root), Conditions())
    assert warm and called == warm


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (VerificationError("wrong\nindeed"), "error"),
        (MemoryError(), "out-of-memory"),
        (ZeroDivisionError("by\nzero"), "error"),
    ],
)
def test_every_exception_is_an_outcome(error, status, monkeypatch):
    def fail(schedule):
        raise error

    monkeypatch.setattr(collective_room, "check_schedule", fail)
    outcome = evaluate(collective_point(), Conditions())
    assert outcome.status == status
    assert outcome.error and "\n" not in outcome.error
    unchecked = evaluate(collective_point(), Conditions(with_checks=False))
    assert (unchecked.status, unchecked.results["verified"]) == ("ok", False)


def test_sweeps_share_schedules(tmp_path, monkeypatch):
    conditions = Conditions(cache=str(tmp_path))
    point = collective_point(seed=5)
    first = evaluate(point, conditions)
    assert len(list(tmp_path.rglob("*.npz"))) == 1

    def search_again(*_, **__):
        raise AssertionError("searched again")

    monkeypatch.setattr(collective_room, "search", search_again)
    second = evaluate(replace(point, network=replace(SMALL, source="other.yml")), conditions)
    assert results(second) == results(first)
    assert second.results["synthesis_seconds"] == first.results["synthesis_seconds"]
    assert evaluate(collective_point(seed=6), conditions).error == "AssertionError: searched again"


def generated(folder, options):
    sizes = "--hidden 64 --heads 8 --sequence 64 --vocab 512"
    result = CliRunner().invoke(generate, ["--output", str(folder), *options.split(), *sizes.split()], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return generated(tmp_path_factory.mktemp("run") / "run", "--dp 2 --tp 2 --pp 2 --layers 2 --micro-batches 2")


@pytest.fixture(scope="module")
def run_of_one_group(tmp_path_factory):
    """A smaller run, without groups to synthesize together."""
    return generated(tmp_path_factory.mktemp("run") / "run", "--dp 4 --layers 1")


def workload_point(run, network, **changes):
    files = (str(run / "workload" / "w"), str(run / "system.json"), str(run / "comm_group.json"), None, str(run))
    digest = read_run_source({key: key for key in RUN_KEYS}, Path(), *files).digest
    task = WorkloadTask(*files, "congestion-aware", "ring", SearchOptions("ring", threads=1), digest)
    return Point(0, network, replace(task, **changes), {})


def test_a_workload_has_the_figures_of_its_plan(run, tmp_path):
    network = config(("Ring", 4, 50.0, 500.0), ("Ring", 2, 25.0, 500.0))
    outcome = evaluate(workload_point(run, network), Conditions())
    assert list(tmp_path.iterdir()) == []
    write_network(network, tmp_path / "network.yml")
    inputs = replace(RunInputs.in_folder(run, "w"), network=tmp_path / "network.yml")
    result = plan(PlanRequest(inputs, baseline="ring", options=SearchOptions("ring", threads=1)), tmp_path / "plan").result
    assert outcome.status == "ok", outcome.error
    assert results(outcome) == {
        "time_ns": result.time_ns,
        "predicted_ns": result.time_ns,
        "best_native_ns": result.best_native_ns,
        "bound_ns": result.bound_ns,
        "efficiency": result.bound_ns / result.time_ns,
        "verified": True,
        "before_ns": result.before_ns,
        "speed_up": result.speed_up,
        "exposed_before_ns": result.exposed_before_ns,
        "exposed_ns": result.exposed_ns,
        "num_collectives": result.num_collectives,
        "num_cases": len(result.cases),
    }
    assert set(outcome.results) <= set(RESULT_COLUMNS)


def test_a_workload_runs_where_its_ranks_are_placed(tmp_path):
    """The run's groups are neighbours; on other NPUs they are a switch apart, which takes longer, and `best` undoes that."""
    run = generated(tmp_path / "run", "--dp 2 --tp 2 --layers 1")
    network = config(("FullyConnected", 2, 50.0, 500.0), ("Switch", 2, 5.0, 900.0))
    ends: dict[str | None, int] = {}
    for placement in (None, "a:1x2,b:2x1", "a:2x1,b:1x2", "best"):
        outcome = evaluate(workload_point(run, network, placement=placement), Conditions())
        assert outcome.status == "ok", outcome.error
        ends[placement] = results(outcome)["predicted_ns"]
    assert ends[None] == ends["a:1x2,b:2x1"] != ends["a:2x1,b:1x2"]
    assert ends["best"] <= min(ends.values())
    outcome = evaluate(workload_point(run, network, placement="a:4x1"), Conditions())
    assert (outcome.status, outcome.error) == ("error", "placement: found a:4x1, expected levels of 2 x 2, outermost first")


def test_a_workload_gives_a_part_of_its_npus_to_communication(run_of_one_group, tmp_path):
    """What a row says is what `endpoint` and then `plan` find, and an endpoint that takes nothing changes nothing."""
    run = run_of_one_group
    network = config(("Ring", 4, 50.0, 500.0))
    ends: dict[str | None, dict[str, Any]] = {}
    for text in (None, "ideal", "ace", "host:comm-cores=2,comm-memory=20", "ideal:peak=1"):
        outcome = evaluate(workload_point(run, network, endpoint=text), Conditions())
        assert outcome.status == "ok", outcome.error
        assert set(outcome.results) <= set(RESULT_COLUMNS)
        ends[text] = results(outcome)
    assert list(tmp_path.iterdir()) == []
    for name, value in ends[None].items():
        assert ends["ideal"][name] == value
    row = ends["host:comm-cores=2,comm-memory=20"]
    assert ends["ideal"]["predicted_ns"] <= min(ends["ace"]["predicted_ns"], row["predicted_ns"])
    assert ends["ideal:peak=1"]["predicted_ns"] > ends["ideal"]["predicted_ns"]
    assert (ends["ideal"]["comm_cores"], ends["ideal"]["comm_memory_gbps"]) == (0, 0.0)
    write_network(network, tmp_path / "network.yml")
    inputs = replace(RunInputs.in_folder(run, "w"), network=tmp_path / "network.yml")
    divided = divide_endpoint(inputs, tmp_path / "divided", "host", partition=Partition(2, 20.0)).written
    options = SearchOptions("ring", threads=1)
    planned = plan(
        PlanRequest(planned_inputs(tmp_path / "divided", inputs), baseline="ring", options=options), tmp_path / "plan"
    ).result
    assert (row["predicted_ns"], row["before_ns"]) == (planned.time_ns, planned.before_ns)
    assert (row["comm_cores"], row["comm_memory_gbps"], row["driven_gbps"]) == (2, 20.0, divided.network_gbps)
    outcome = evaluate(workload_point(run, network, endpoint="ace:comm-memory=0"), Conditions())
    error = "communication gets no cores or no memory bandwidth, and would never end"
    assert (outcome.status, outcome.error) == ("error", error)


def test_errors_of_a_workload_name_no_temporary_file(run, tmp_path):
    outcome = evaluate(workload_point(run, config(("Ring", 4, 50.0, 500.0))), Conditions())
    assert outcome.status == "error"
    assert "sends to rank 4, there are 4" in outcome.error and str(tmp_path) not in outcome.error
    outcome = evaluate(workload_point(run, SMALL, system=str(run / "none.json")), Conditions())
    assert (outcome.status, "none.json" in outcome.error) == ("error", True)


def test_files_of_a_workload_that_change_meanwhile(run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    point = workload_point(copy, SMALL)
    assert evaluate(point, Conditions()).status == "ok"
    system = copy / "system.json"
    system.write_text(system.read_text() + "\n")
    outcome = evaluate(point, Conditions())
    assert outcome.status == "error" and "the run's files are not those with which the sweep began" in outcome.error


def test_a_damaged_schedule_of_the_cache_is_made_again_and_told(tmp_path):
    point, conditions = collective_point(), Conditions(cache=str(tmp_path))
    made = evaluate(point, conditions)
    (kept,) = tmp_path.rglob("*.npz")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:100])
    again = evaluate(point, conditions)
    assert (made.status, results(again)) == ("ok", results(made))
    (warning,) = again.warnings
    assert warning.startswith(f"{kept}: ")
    assert kept.read_bytes() == whole
    assert Outcome.from_row(again.to_row()) == replace(again, warnings=())
    assert evaluate(point, conditions).warnings == made.warnings == ()


@pytest.mark.parametrize(("collective", "synthesizer"), [("all-reduce", "auto"), ("all-to-all", "symmetric")])
def test_symmetric_points_without_expansion_have_the_rows_of_the_expanded_schedule(collective, synthesizer, monkeypatch):
    network = config(("Ring", 4, 50.0, 500.0), ("Ring", 4, 50.0, 500.0))
    task = CollectiveTask(collective, None, 1 << 28, SearchOptions(synthesizer, chunks_per_npu=2))
    compact = collective_room.evaluate_collective(network, task, Conditions())
    monkeypatch.setattr(collective_room, "_without_expansion", lambda *_: None)
    expanded = collective_room.evaluate_collective(network, task, Conditions())
    names = {"synthesis_seconds", "bound", "stock_ns", "congested_ns", "packets_ns"}  # of equal bounds, either may be named
    assert {k: v for k, v in compact.items() if k not in names} == {k: v for k, v in expanded.items() if k not in names}


def test_a_symmetric_point_of_thousands_of_npus_is_not_expanded():
    network = config(("Ring", 64, 50.0, 500.0), ("Switch", 32, 25.0, 500.0))
    outcome = evaluate(Point(0, network, CollectiveTask("all-reduce", None, 1 << 30, SearchOptions()), {}), Conditions())
    assert outcome.status == OK
    assert outcome.results["made_by"] == "symmetric"
    assert outcome.results["num_sends"] == 2 * 2048 * 2047


def test_a_compact_run_has_the_figures_of_its_plan(tmp_path):
    network = config(("Ring", 4, 50.0, 500.0), ("Ring", 4, 50.0, 500.0), ("Switch", 128, 50.0, 500.0))
    write_network(network, tmp_path / "n.yml")
    sizes = (
        "--layers 4 --hidden 64 --heads 8 --sequence 512 --vocab 512 --micro-batches 2 --dp 128 --tp 4 --pp 4 --order tp,pp,dp"
    )
    where = ["--network", str(tmp_path / "n.yml"), "--output", str(tmp_path / "run")]
    assert CliRunner().invoke(generate, [*where, *sizes.split()]).exit_code == 0
    (tmp_path / "sweep.yml").write_text("point: { workload: run, network: n.yml, effort: quick, baseline: ring }\n")
    outcome = evaluate(next(iter(read_sweep_file(tmp_path / "sweep.yml").points)), Conditions())
    inputs, options = CompactInputs(tmp_path / "run", tmp_path / "n.yml"), SearchOptions(effort="quick")
    planned = plan(PlanRequest(inputs, baseline="ring", options=options), tmp_path / "planned").result
    figures = outcome.results
    assert (outcome.status, figures["time_ns"], figures["before_ns"]) == (OK, planned.time_ns, planned.before_ns)
    assert figures["bound_ns"] == planned.bound_ns and figures["speed_up"] == planned.speed_up
    (tmp_path / "sweep.yml").write_text("point: { workload: run, network: n.yml, system: other.json }\n")
    with pytest.raises(ConfigError, match=r"point\.system: found other.json, expected none: .*run is a compact run"):
        read_sweep_file(tmp_path / "sweep.yml")
