"""The writer of runs: odd attributes keep their nodes legal, and files that change while a plan is made are noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.examples import refused
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import QUICK, attributes, written
from helpers.trace_bytes import encode_messages

from astra_tacos import PlanRequest, plan, read_run, replay_run
from astra_tacos.planner.permuted_run import permuted
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.trace.node_bytes import read_messages, set_number

BROADCAST = 5


@pytest.fixture
def inputs(tmp_path):
    ranks = [
        [comp(0, us=3), coll(1, size=1 << 20, group=1 + rank % 2), coll(2, size=4096, comm_type=BROADCAST, group=1 + rank % 2)]
        for rank in range(4)
    ]
    ranks[0] += [send(3, dst=1, size=64, tag=7)]
    ranks[1] += [recv(3, src=0, size=64, tag=7)]
    return written(tmp_path / "in", RunFiles(ranks=ranks, groups={"1": [0, 2], "2": [1, 3]}))


def edited(inputs, change):
    """The traces with nodes that `change` has changed."""
    for rank in range(4):
        path = Path(f"{inputs.workload}.{rank}.et")
        head, nodes = read_messages(path)
        for node in nodes:
            change(node, rank)
        path.write_bytes(encode_messages(head, nodes))
    return inputs


def two_roots(node, rank):
    if attributes(node).get("comm_type") == BROADCAST:
        for name in ("comm_root", "root"):
            set_number(node, name, rank % 2)


def text_beside_a_number(node, rank):
    for name in ("comm_src", "comm_dst"):
        if name in attributes(node):
            node.attr.add(name=name).string_val = "zz"


def bool_root(node, rank):
    if attributes(node).get("comm_type") == BROADCAST:
        node.attr.add(name="root").bool_val = bool(rank % 2)


@pytest.mark.parametrize("change", [two_roots, text_beside_a_number, bool_root])
def test_odd_attributes_follow_their_ranks(inputs, tmp_path, change):
    """Of several attributes of one name the first counts; a kind that cannot hold a number becomes one that can."""
    workload = find_workload(read_run(edited(inputs, change)))
    npu = np.array([2, 3, 0, 1])
    moved = permuted(workload, npu)
    (tmp_path / "out").mkdir()
    again = moved.write(tmp_path / "out", "w")
    assert replay_run(again).finish_ns[npu].tolist() == replay_run(workload.run).finish_ns.tolist()


def test_sums_of_fused_collectives_need_not_fit_their_kind(tmp_path):
    files = RunFiles(ranks=[[coll(0, size=1_500_000_000), coll(1, size=1_500_000_000)]] * 4)
    inputs = written(tmp_path / "in", files)

    def narrow(node, rank):
        for entry in node.attr:
            if entry.name == "comm_size":
                entry.int32_val = 1_500_000_000

    request = PlanRequest(edited(inputs, narrow), schedule="fuse:cap=100GB", keep_collectives=True)
    assert not plan(request, tmp_path / "out").scheduled.is_as_is
    after = read_run(planned_inputs(tmp_path / "out", inputs))
    assert int(after.workload.size_bytes.max()) == 3_000_000_000


def test_a_directory_called_empty_has_groups(inputs, tmp_path):
    """ASTRA-sim is started in the directory, where the path of its groups has no "empty" in it."""
    result = plan(PlanRequest(inputs, options=QUICK), tmp_path / "empty_plan").result
    assert replay_run(read_run(planned_inputs(tmp_path / "empty_plan", inputs))).end_ns == result.time_ns


NETWORK, TRACE = "network.yml", "workload/w.0.et"


@pytest.mark.parametrize("of", [NETWORK, TRACE, "gone"])
def test_files_that_change_while_a_plan_is_made_are_noticed(inputs, tmp_path, of):
    path = inputs.network if of != TRACE else Path(f"{inputs.workload}.0.et")

    def change(done, total):
        if of == "gone":
            path.unlink(missing_ok=True)
        elif of == NETWORK:
            path.write_text(path.read_text().replace("50", "5"))
        else:
            head, nodes = read_messages(path)
            nodes[0].duration_micros = 1 << 20
            path.write_bytes(encode_messages(head, nodes))

    with refused("has changed since it was read|expected files that stay as they are"):
        plan(PlanRequest(inputs, options=QUICK), tmp_path / "out", on_progress=change)
    assert not (tmp_path / "out").exists()
