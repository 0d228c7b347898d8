"""Groups that see one network under other numbers: one is synthesized, all run what the oracle passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import QUICK, contents, planned, written

from astra_tacos import (
    SYNTHESIZERS,
    CommType,
    NetworkConfig,
    build_topology,
    make_collective,
    read_network,
    synthesize,
    verify,
)
from astra_tacos.network.failures import find_renumbering
from astra_tacos.planner import rank_planning as planning
from astra_tacos.planner.alike import find_alike
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.run import read_run
from astra_tacos.schedule.settle import renumbered

TORUS = """topology: [ Ring, Ring ]
npus_count: [ 4, 2 ]
bandwidth: [ 50, 25 ]
latency: [ 500, 700 ]
astra_tacos: { failed_links: [ [0, 1], [1, 0], [6, 7], [7, 6] ] }
"""
"""Each of the two rings lacks a pair of links, and so is a line, at another place."""
GROUPS = {"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}


def inputs_of(folder, text, groups, pattern=CommType.ALL_REDUCE):
    group = {rank: int(name) for name, ranks in groups.items() for rank in ranks}
    ranks = [
        [comp(0, us=2 + rank % 3), coll(1, [0], size=1 << 20, group=group[rank], comm_type=pattern), comp(2, [1], us=1)]
        if rank in group
        else [comp(0, us=1)]
        for rank in range(8)
    ]
    found = written(folder, RunFiles(ranks=ranks, groups=groups, topology=("Ring", "Ring"), npus=(4, 2)))
    found.network.write_text(text)
    return found


@pytest.mark.parametrize("pattern", [CommType.ALL_REDUCE, CommType.ALL_GATHER, CommType.REDUCE_SCATTER])
def test_rows_that_lack_different_links_are_synthesized_once(tmp_path, monkeypatch, pattern):
    inputs = inputs_of(tmp_path / "run", TORUS, GROUPS, pattern)
    cases = find_workload(read_run(inputs)).cases
    assert len(cases) == 2
    assert [like is None for like in find_alike(cases).values()] == [True, False]
    solved = []
    real = planning.solve_case
    monkeypatch.setattr(planning, "solve_case", lambda case, *rest: solved.append(case) or real(case, *rest))
    result, after = planned(inputs, tmp_path / "plan", options=QUICK, backend="congestion-aware")
    assert len(solved) == 1 and len(result.cases) == 2
    first, second = (case.predicted_ns or 0 for case in result.cases)
    assert abs(first - second) < 9  # chunks differ by a byte
    for threads in (1, 3):
        options = replace(QUICK, threads=threads)
        planned(inputs, tmp_path / str(threads), options=options, backend="congestion-aware")
        assert contents(tmp_path / str(threads)) == contents(tmp_path / "plan")
    again, _ = planned(after, tmp_path / "again", options=QUICK, backend="congestion-aware")
    assert contents(tmp_path / "again") == contents(tmp_path / "plan") or again.time_ns < result.time_ns


def test_groups_around_the_end_of_a_ring_are_like_those_in_its_middle(tmp_path):
    text = "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n"
    cases = find_workload(read_run(inputs_of(tmp_path, text, {"1": [2, 3, 4, 5], "2": [0, 1, 6, 7]}))).cases
    (like,) = [each for each in find_alike(cases).values() if each is not None]
    assert len(cases) == 2
    line = like.npu.tolist()
    first, second = (sorted(case.groups[0]) for case in (cases[like.number], cases[1 - like.number]))
    steps = {(second[line[at + 1]] - second[line[at]]) % 8 for at in range(3)} if first == [2, 3, 4, 5] else {1}
    assert len(steps) == 1 and steps <= {1, 7}


@pytest.mark.parametrize("name", ["tacos", "ring", "routed"])
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "gather", "all-to-all"])
def test_renumbered_schedules_pass_the_oracle(name, collective, tmp_path):
    if collective not in SYNTHESIZERS[name].collectives:
        pytest.skip(f"{name} does no {collective}")
    (tmp_path / "n.yml").write_text(TORUS.replace("[1, 0], [6, 7], [7, 6]", "[1, 0]"))
    (tmp_path / "m.yml").write_text(TORUS.replace("[0, 1], [1, 0], ", ""))
    networks = [read_network(tmp_path / file) for file in ("n.yml", "m.yml")]
    here, there = (
        build_topology(NetworkConfig(each.source, each.dimensions, failed_links=each.failed_links)) for each in networks
    )
    root = 3 if collective in ("broadcast", "gather") else None
    npu = find_renumbering([here], [there])
    assert npu is not None and not np.array_equal(npu, np.arange(8))
    made = make_collective(collective, 8, 1 << 16, 2, root)
    schedule = synthesize(here, made, synthesizer=name, link_model="pipelined", trials=1)
    other = make_collective(collective, 8, 1 << 16, 2, None if root is None else int(npu[root]))
    moved = renumbered(schedule, there, other, npu)
    if schedule.sums is not None:
        assert moved is None
        return
    assert not verify(moved)
    assert moved.collective_time_ns == schedule.collective_time_ns
