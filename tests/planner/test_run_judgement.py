"""Plans on networks of several dimensions: the end of the run on both judges, and what the other backend would gain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import planned, read_json, written

from astra_tacos import BACKENDS, SearchOptions, read_network, read_run, replay_run
from astra_tacos.cli.shared.plan_table import _native_rows
from astra_tacos.planner.best_native import best_native
from astra_tacos.planner.plan_result import JudgedRun, fair_judges, notes_on_other_plan
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.backend import CONGESTION_AWARE, CONGESTION_UNAWARE
from astra_tacos.solver.judges import Judge
from astra_tacos.synthesizer.search.search_options import THOROUGH

NETWORK = "topology: [FullyConnected, Switch]\nnpus_count: [4, 2]\nbandwidth: [100, 25]\nlatency: [300, 1000]\n"
OPTIONS = SearchOptions(chunks_per_npu="auto", trials=1, budget=2_000_000, max_sends=20_000)
BRANCH = "congestion-aware (ASTRA-sim's branch will/congestion-multidim)"


@pytest.fixture
def inputs(tmp_path):
    ranks = [[comp(0, us=3), coll(1, [0], size=1 << 18), comp(2, [1], us=2)] for _ in range(8)]
    found = written(tmp_path / "run", RunFiles(ranks=ranks, system={"all-reduce-implementation": ["direct", "direct"]}))
    found.network.write_text(NETWORK)
    return found


def test_the_speed_up_says_where_the_best_native_run_is_faster(inputs, tmp_path):
    """The line has the best native run on the judge with queues, which is that of a search there, where it is 1% faster."""
    result, _ = planned(inputs, tmp_path / "plan", options=OPTIONS)
    stock, aware = result.judged
    there = best_native(find_workload(inputs), CONGESTION_AWARE).fastest_possible
    assert aware.native_ns == there.end.possible_ns
    assert stock.native_ns is None and aware.after_ns is not None
    stored = read_json(tmp_path / "plan" / "plan.json")
    assert stored["congested_best_native_ns"] == aware.native_ns
    for native_ns, loses in ((aware.after_ns, False), (aware.after_ns * 2 // 3, True)):
        told = replace(result, judged=(stock, replace(aware, native_ns=native_ns)))
        (row,) = (text for name, text in _native_rows(told) if name == "speed-up over it")
        lost = f", but 0.667 on congestion-aware over the best native run there, {native_ns:,} ns"
        assert row.endswith(lost) if loses else row == f"{result.speed_up_over_best_native:.3f}"


def ends(result):
    return {judged.judge.figure: (judged.before_ns, judged.after_ns) for judged in result.judged}


def test_a_plan_tells_what_it_takes_on_both_judges(inputs, tmp_path):
    results = {}
    for backend in BACKENDS.values():
        result, after = planned(inputs, tmp_path / str(backend), backend=backend, options=replace(OPTIONS, effort=THOROUGH))
        results[backend] = result
        for figure, judge in (("stock_ns", CONGESTION_UNAWARE), ("congested_ns", CONGESTION_AWARE)):
            own = tuple(replay_run(read_run(files), judge).end_ns for files in (inputs, after))
            assert ends(result)[figure] == own
        stored = read_json(tmp_path / str(backend) / "plan.json")
        for figure, (before_ns, after_ns) in ends(result).items():
            assert (stored[figure.replace("_ns", "_before_ns")], stored[figure]) == (before_ns, after_ns)
        assert stored["notes"] == list(result.notes)
    default, aware = results[CONGESTION_UNAWARE], results[CONGESTION_AWARE]
    assert default.after_ns == default.judged[0].after_ns
    there = default.judged[1].after_ns
    assert aware.after_ns < there
    (note,) = default.notes
    assert note.startswith(f"on {BRANCH} a plan for the congestion-aware backend ends at ")
    assert note.endswith(f" instead of {there:,} ns: --backend congestion-aware makes such")
    (note,) = aware.notes
    assert note.startswith("stock ASTRA-sim (congestion-unaware backend) has no queues: ")
    script = (tmp_path / "congestion-aware" / "run_astra_sim.sh").read_text()
    assert "built with branch will/congestion-multidim of https://" in script
    assert "built with" not in (tmp_path / "congestion-unaware" / "run_astra_sim.sh").read_text()


def test_what_is_slower_or_does_not_end_is_told(inputs):
    network = read_network(inputs.network)
    stock, aware = (
        Judge("stock_ns", network, CONGESTION_UNAWARE),
        Judge("congested_ns", network, CONGESTION_AWARE),
    )
    assert JudgedRun(aware, 10, 10).note(CONGESTION_UNAWARE) is None
    assert JudgedRun(aware, None, 10).note(CONGESTION_UNAWARE) is None
    slower = JudgedRun(aware, 1000, 2000)
    assert (
        slower.note(CONGESTION_UNAWARE)
        == f"on {BRANCH} the planned run is slower than the run before: 2,000 ns instead of 1,000 ns"
    )
    stuck = JudgedRun(aware, 10, None, "deadlock")
    assert stuck.note(CONGESTION_UNAWARE) == f"on {BRANCH} the planned run does not end: deadlock"
    for theirs, told in ((1999, True), (2000, False), (None, False)):
        notes = notes_on_other_plan((slower,), (JudgedRun(aware, 1000, theirs),), CONGESTION_AWARE)
        assert bool(notes) is told
    # A judge without queues says nothing of schedules that need them.
    assert fair_judges((stock, aware), CONGESTION_AWARE) == (aware,)
    assert fair_judges((stock, aware), CONGESTION_UNAWARE) == (stock, aware)
