"""Linting as a whole: what is read in spite of damage, what is counted, what is chosen by default."""

from __future__ import annotations

import numpy as np
from helpers.lint_runs import RunFiles, coll, comp, recv, send

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.inputs import read_inputs, read_trace_files
from astra_tacos.rules.run_order import Pairs, cycles
from astra_tacos.run.run import RunInputs
from astra_tacos.workload.lint import lint


def test_ranks_that_can_be_read_are_checked_although_others_cannot(tmp_path):
    run = RunFiles("comp 0 | comp 1 [9] | coll 2 group=5 | comp 3; comp 4 [3]", npus=(5,), groups="'7': [0]")
    arguments = run.write(tmp_path)
    (tmp_path / "workload/w.0.et").write_bytes(b"\xff")
    files = read_trace_files("w", tmp_path / "workload/w")
    assert files.ranks == (0, 1, 2, 3) and set(files.unreadable) == {0} and files.trace is not None
    assert np.diff(files.trace.rank_first).tolist() == [0, 1, 1, 2]
    assert files.trace.node_id.tolist() == [1, 2, 3, 4]
    assert files.trace.dep.tolist() == [-1, 2]
    assert files.trace.workload is not None and files.trace.workload.group_names == ("5",)
    assert files.trace.workload.group.tolist() == [-1, 0, -1, -1]
    report = lint(RunInputs(**arguments))
    assert report.errors == {"F06": 1, "F08": 1, "D01": 1, "G04": 1}
    assert {finding.rank for finding in report.findings} == {0, 1, 2, 4}


def test_a_tab_separates_in_yaml_as_in_astra_sim(tmp_path):
    files = RunFiles("comp 0 | comp 0", per_node="7: collective/c").write(tmp_path)
    files["network"].write_text(files["network"].read_text().replace(": ", ":\t"))
    (tmp_path / "per_node.yml").write_text("7:\tcollective/c\n")
    assert not {"F01", "F05"} & set(lint(RunInputs(**files)).errors)


def test_collectives_meet_by_name_where_nothing_orders_them(tmp_path):
    """Two All-Reduces without an order, with ids the other way round: each meets the one of its name."""
    first = [coll(1, name="a"), coll(2, name="b"), comp(3, [1])]
    second = [coll(1, name="b"), coll(2, name="a"), comp(3, [2])]
    facts = Facts(read_inputs(RunInputs(**RunFiles([first, second]).write(tmp_path))))
    collectives = facts.collectives
    assert collectives is not None and not collectives.certain.any()
    instance = dict(zip(zip(collectives.rank.tolist(), collectives.row.tolist(), strict=True), collectives.instance, strict=True))
    assert instance[0, 0] == instance[1, 4] != instance[0, 1] == instance[1, 3]


def test_an_order_by_way_of_another_rank_is_an_order(tmp_path):
    """Rank 1 runs B only after a message that rank 0 sends when A is done, so that A is done on rank 1 too."""
    groups = {"1": [0, 1], "2": [0, 1]}
    after = [coll(1, group=1), send(2, 1, [1]), coll(3, [2], group=2)]
    run = RunFiles([after, [coll(1, group=1), recv(2, 0), coll(3, [2], group=2)]], groups=groups)
    assert lint(RunInputs(**run.write(tmp_path / "ordered"))).findings == ()
    run = RunFiles([after, [coll(1, group=1), recv(2, 0), coll(3, group=2)]], groups=groups)
    assert lint(RunInputs(**run.write(tmp_path / "free"))).warnings == {"C05": 1}


def test_a_custom_collective_that_does_not_synchronise_makes_no_cycle(tmp_path):
    """Rank 0 only sends: it can go on to the next collective although rank 1 waits to start the first."""
    one_way = "send 0 1 | recv 0 0"
    back = "recv 0 1 tag=5 | send 0 0 tag=5"
    run = RunFiles(
        "coll 1; coll 2 [1] | coll 2; coll 1 [2]",
        {"collective/a": one_way, "collective/b": back},
        per_node="{1: collective/a, 2: collective/b}",
    )
    assert "C04" not in lint(RunInputs(**run.write(tmp_path))).errors


def test_a_cycle_needs_the_same_collectives_all_the_way_round():
    def pairs(rows):
        first, second = np.array(rows).T
        groups = np.array([[1, 2], [2, 3], [3, 1]]).T
        nothing = np.zeros(3, np.bool_)
        return Pairs(first, second, np.arange(3), groups[0], groups[1], nothing, nothing)

    instance = {10: 0, 20: 1, 21: 1, 30: 2, 31: 2, 11: 0, 12: 9}
    assert [cycle.ranks for cycle in cycles(pairs([(10, 20), (21, 30), (31, 11)]), instance, {})] == [(0, 1, 2)]
    assert cycles(pairs([(10, 20), (21, 30), (31, 12)]), instance, {}) == []
    # Where dependencies order a group's collectives, an earlier one will do: the next one waits for it.
    assert len(cycles(pairs([(10, 20), (21, 30), (31, 12)]), instance, {10: 4, 12: 3})) == 1
    assert cycles(pairs([(10, 20), (21, 30), (31, 12)]), instance, {10: 4, 12: 5}) == []
