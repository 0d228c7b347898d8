"""Patterns that ASTRA-sim lacks, carried by a type that it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.lint_runs import RunFiles, coll, comp, one_step_exchange
from helpers.plans import attributes, contents, lint_plan, messages, planned, written
from helpers.trace_bytes import encode_messages

from astra_tacos import COLLECTIVES, CommType, ConfigError, PlanRequest, SearchOptions, load_schedule
from astra_tacos.planner.plan import plan
from astra_tacos.run.trace.node_bytes import read_messages, set_attribute


@pytest.mark.parametrize("pattern", [CommType.BROADCAST, CommType.REDUCE, CommType.REDUCE_SCATTER_BLOCK])
def test_a_pattern_is_carried_and_remembered(tmp_path, pattern):
    ranks = [[comp(0, us=2), coll(1, [0], pattern, size=1 << 16), coll(2, [1], size=1 << 16)] for _ in range(4)]
    inputs = written(tmp_path, RunFiles(ranks=ranks, topology=("Ring",)))
    result, after = planned(inputs, tmp_path / "plan")
    assert (result.before_ns is None) == (pattern != CommType.BROADCAST)  # where ASTRA-sim waits no time at all
    assert lint_plan(after).findings == ()
    for nodes in messages(after):
        assert attributes(nodes[1])["astra_tacos_pattern"] == pattern.name
        assert attributes(nodes[1])["comm_type"] == CommType.ALL_REDUCE
        assert attributes(nodes[2])["comm_type"] == CommType.ALL_REDUCE
        assert "astra_tacos_pattern" not in attributes(nodes[2])
    again, _ = planned(after, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "plan")
    assert {case.collective for case in again.cases} == {case.collective for case in result.cases}


@pytest.mark.parametrize("group", [None, 1])
def test_an_all_gather_of_no_bytes_is_carried(tmp_path, group):
    """ASTRA-sim waits for ever for an All-Gather of no bytes, whatever it runs."""
    ranks = [
        [coll(0, (), CommType.ALL_GATHER, size=0, group=group), coll(1, [0], CommType.ALL_GATHER, size=1 << 16, group=group)]
        for _ in range(4)
    ]
    inputs = written(tmp_path, RunFiles(ranks=ranks, topology=("Ring",), groups={"1": [0, 1, 2, 3]}))
    options = SearchOptions("tacos", trials=1)
    result, after = planned(inputs, tmp_path / "plan", options=options)
    assert result.before_ns is None
    assert lint_plan(after).errors == {}
    for nodes in messages(after):
        assert attributes(nodes[0])["comm_type"] == CommType.ALL_REDUCE
        assert attributes(nodes[0])["astra_tacos_pattern"] == "ALL_GATHER"
        assert attributes(nodes[1])["comm_type"] == CommType.ALL_GATHER
    planned(after, tmp_path / "again", options=options)
    assert contents(tmp_path / "again") == contents(tmp_path / "plan")


def test_roots_are_ranks_and_every_root_is_a_case(tmp_path):
    groups = {"1": [1, 3]}
    ranks = []
    for rank in range(4):
        nodes = [coll(0, (), CommType.BROADCAST, size=1 << 16, root=2), coll(1, [0], CommType.BROADCAST, size=1 << 16)]
        if rank in groups["1"]:
            nodes.append(coll(2, [1], CommType.REDUCE, size=1 << 16, group=1, root=3))
        ranks.append(nodes)
    inputs = written(tmp_path, RunFiles(ranks=ranks, topology=("Ring",), groups=groups))
    result, after = planned(inputs, tmp_path / "plan", cache=tmp_path / "cache")
    assert len(result.cases) == 3
    assert lint_plan(after).findings == ()
    schedules = [load_schedule(path) for path in (tmp_path / "cache").rglob("*.npz")]
    roots = {(schedule.collective.name, schedule.collective.root) for schedule in schedules}
    # Positions in the group; what begins at rank 0 is what begins at rank 2, renumbered.
    assert roots == {("broadcast", 2), ("reduce", 1)}


def test_a_pattern_that_no_synthesizer_does_keeps_what_it_had(tmp_path, monkeypatch):
    """Native, or a custom trace of the run's own; where ASTRA-sim has neither, the plan is refused."""
    monkeypatch.setattr("astra_tacos.planner.synthesis.COLLECTIVES", {"all-reduce": COLLECTIVES["all-reduce"]})
    ranks = [[coll(0, size=1 << 16), coll(1, [0], CommType.ALL_TO_ALL, size=1 << 16)] for _ in range(2)]
    result, after = planned(written(tmp_path / "native", RunFiles(ranks=ranks)), tmp_path / "plan")
    assert {case.collective: case.algorithm for case in result.cases}["all-to-all"] == "native"
    assert {case.collective: case.reason for case in result.cases}["all-to-all"] == "no synthesizer does all-to-all"
    assert lint_plan(after).findings == ()

    files = RunFiles(ranks=ranks, collectives={"collective/a2a": one_step_exchange()}, per_node={1: "collective/a2a"})
    _, after = planned(written(tmp_path / "custom", files), tmp_path / "kept")
    copy, original = tmp_path / "kept" / "collective" / "kept_a2a.0.et", tmp_path / "custom" / "collective" / "a2a.0.et"
    assert copy.read_bytes() == original.read_bytes()
    assert "1: collective/kept_a2a\n" in (tmp_path / "kept" / "per_node.yml").read_text()
    assert contents(tmp_path / "kept") == contents(planned(after, tmp_path / "again")[1].directory)

    ranks = [[coll(0, (), CommType.GATHER, size=1 << 16)] for _ in range(2)]
    with pytest.raises(ConfigError, match="GATHER: no synthesizer does gather, and ASTRA-sim has none"):
        plan(PlanRequest(written(tmp_path / "gather", RunFiles(ranks=ranks))), tmp_path / "refused")


@pytest.mark.parametrize(
    ("name", "kind", "value", "message"),
    [
        ("astra_tacos_pattern", "string_val", "NOTHING", "astra_tacos_pattern is 'NOTHING', expected a pattern"),
        ("astra_tacos_pattern", "int64_val", 3, "astra_tacos_pattern is 3, expected a pattern"),
        ("astra_tacos_group", "string_val", "-1", "astra_tacos_group is '-1', expected a number"),
        ("astra_tacos_group", "string_val", "9" * 30, f"astra_tacos_group is '{'9' * 30}', expected a number"),
        ("astra_tacos_group", "bool_val", True, "astra_tacos_group is True, expected a number"),
        ("root", "string_val", "none", "root is 'none', expected a rank"),
        ("root_rank", "double_val", 1.5, "root_rank is 1.5, expected a rank"),
    ],
)
def test_what_a_node_states_and_nobody_understands_is_refused(tmp_path, name, kind, value, message):
    ranks = [[coll(0, (), CommType.BROADCAST, size=1 << 16), coll(5, [0], CommType.BROADCAST, size=1 << 16)] for _ in range(2)]
    inputs = written(tmp_path, RunFiles(ranks=ranks, topology=("Ring",)))
    path = Path(f"{inputs.workload}.1.et")
    metadata, nodes = read_messages(path)
    set_attribute(nodes[1], name, kind, value)
    path.write_bytes(encode_messages(metadata, nodes))
    with pytest.raises(ConfigError) as raised:
        plan(PlanRequest(inputs), tmp_path / "plan")
    assert str(raised.value) == f"{inputs.workload}: rank 1, node 5: {message}"
    assert not (tmp_path / "plan").exists()
