"""The oracle for planned runs passes what `plan` writes, and finds what is wrong in runs that were changed afterwards."""

from __future__ import annotations

import copy
import json
import shutil

import pytest
from helpers.command import run as command
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import quickly_planned, written
from helpers.schedules import codes
from helpers.trace_bytes import encode_messages

from astra_tacos.run.chunks import read_trace_parts
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.verifier.run_oracle import verify_run

GATHER, REDUCE = CommType.ALL_GATHER, CommType.REDUCE_SCATTER
OF_RANK = [1, 1, 2, 2]


def of_rank(rank):
    """Two collectives of pairs and one of all, computation and a message."""
    message = send(4, 1, [3]) if rank == 0 else recv(4, 0, [3]) if rank == 1 else comp(4, [3], us=2)
    own = OF_RANK[rank]
    return [
        comp(0, us=3),
        coll(1, [0], GATHER, 1 << 14, own),
        coll(2, [1], REDUCE, 1 << 12, own),
        coll(3, [2], size=1 << 13),
        message,
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    inputs = written(folder, RunFiles(ranks=[of_rank(rank) for rank in range(4)], groups={"1": [0, 1], "2": [2, 3]}, npus=(4,)))
    quickly_planned(inputs, folder / "plan")
    return inputs, folder / "plan"


def judged(inputs, plan, *, with_before=True):
    files = plan / "system.json", plan / "network.yml", plan / "comm_group.json"
    after = read_run(RunInputs(plan / "workload" / inputs.workload.name, *files, directory=plan))
    return verify_run(after, read_trace_parts(plan / "plan.json"), read_run(inputs) if with_before else None)


def changed(path, change):
    """Change the nodes of a trace file."""
    metadata, nodes = read_messages(path)
    change(nodes)
    path.write_bytes(encode_messages(metadata, nodes))


def value(node, name):
    return next(entry for entry in node.attr if entry.name == name)


def put(entry, number):
    setattr(entry, entry.WhichOneof("value"), number)


@pytest.mark.parametrize("with_before", [True, False])
def test_a_plan_passes(made, with_before):
    inputs, plan = made
    verdict = judged(inputs, plan, with_before=with_before)
    assert verdict.violations == ()
    assert verdict.proven
    assert (verdict.num_collectives, verdict.num_native) == (12, 0)
    assert verdict.num_traces == 3
    assert json.loads((plan / "plan.json").read_text())["verified"]


def longer(nodes):
    nodes[0].duration_micros += 1


def elsewhere(nodes):
    value(nodes[4], "comm_tag").int32_val += 1


def forgets(nodes):
    del nodes[1].data_deps[:], nodes[1].ctrl_deps[:]


def swapped(nodes):
    nodes[1].id, nodes[2].id = nodes[2].id, nodes[1].id


def extra(nodes):
    nodes.append(copy.deepcopy(nodes[0]))
    nodes[-1].id = 1000


@pytest.mark.parametrize(
    "change, code",
    [
        (longer, "nodes-changed"),
        (elsewhere, "nodes-changed"),
        (forgets, "dependency-lost"),
        (lambda nodes: put(value(nodes[1], "comm_size"), 1 << 13), "nodes-changed"),
        (swapped, "wrong-collective"),
        (lambda nodes: nodes.pop(), "nodes-changed"),
        (extra, "nodes-added"),
    ],
)
def test_changed_nodes_are_found(made, tmp_path, change, code):
    inputs, plan = made
    shutil.copytree(plan, tmp_path / "plan")
    changed(tmp_path / "plan" / "workload" / f"{inputs.workload.name}.0.et", change)
    assert code in codes(judged(inputs, tmp_path / "plan"))


def not_ordered(nodes):
    del nodes[2].ctrl_deps[:], nodes[2].data_deps[:]


def test_collectives_without_an_order_are_found(made, tmp_path):
    inputs, plan = made
    shutil.copytree(plan, tmp_path / "plan")
    changed(tmp_path / "plan" / "workload" / f"{inputs.workload.name}.3.et", not_ordered)
    found = codes(judged(inputs, tmp_path / "plan", with_before=False))
    assert "no-order" in found


def other_chunk(nodes):
    node = next(node for node in nodes if any(entry.name == "msg_chunk_idx" for entry in node.attr))
    entry = value(node, "msg_chunk_idx")
    put(entry, (getattr(entry, entry.WhichOneof("value")) + 1) % 4)


def half(nodes):
    for node in nodes:
        for entry in node.attr:
            if entry.name == "comm_size":
                put(entry, getattr(entry, entry.WhichOneof("value")) // 2)


def test_traces_that_compute_something_else_are_found(made, tmp_path):
    inputs, plan = made
    for number, change in enumerate((other_chunk, half)):
        folder = tmp_path / str(number)
        shutil.copytree(plan, folder)
        for path in sorted((folder / "collective").glob("all_reduce*")):
            if change is half or path.name.endswith(".0.et"):
                changed(path, change)
        found = judged(inputs, folder).violations
        assert found
        assert any(violation.code == "message-size" for violation in found) or change is other_chunk


def test_what_traces_are_said_to_be_for_is_checked(made, tmp_path):
    inputs, plan = made
    shutil.copytree(plan, tmp_path / "plan")
    figures = json.loads((plan / "plan.json").read_text())
    for told in figures["traces"].values():
        told["parts"][0]["size_bytes"] *= 2
    (tmp_path / "plan" / "plan.json").write_text(json.dumps(figures))
    found = codes(judged(inputs, tmp_path / "plan"))
    assert {"wrong-collective", "message-size"} <= found


def test_the_command_says_what_was_checked(made, tmp_path):
    inputs, plan = made
    done = command("verify", str(plan), "--before", str(inputs.workload), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok: a planned run of 12 collective nodes, 3 traces" in done.stdout
    shutil.copytree(plan, tmp_path / "plan")
    changed(tmp_path / "plan" / "workload" / f"{inputs.workload.name}.0.et", longer)
    done = command("verify", "plan", "--before", str(inputs.workload), cwd=tmp_path)
    assert done.returncode == 1
    assert "rank 0, node 0 differs from the run before" in done.stdout
    (tmp_path / "plan" / "plan.json").write_text("{}")
    done = command("verify plan", cwd=tmp_path)
    assert done.returncode == 2
    assert "Object missing required field `traces`" in done.stderr


@pytest.mark.parametrize(
    "value", ["-", [], 1.5, True, -1, 10**300], ids=["text", "list", "fraction", "bool", "negative", "digits"]
)
@pytest.mark.parametrize("key", ["num_owners", "root", "chunks_per_npu", "size_bytes"])
def test_a_part_with_a_value_that_is_no_whole_number_gets_one_line(tmp_path, key, value):
    part = {
        "collective": "all-reduce",
        "size_bytes": 64,
        "chunks_per_npu": 1,
        "num_owners": None,
        "root": None,
        "members": [0, 1],
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"traces": {"collective/a": {"positions": 2, "parts": [part | {key: value}]}}}))
    with pytest.raises(ConfigError, match=rf"^{path}: Expected `int.*`.* - at `\$.traces\[...\].parts\[0\].{key}`") as caught:
        read_trace_parts(path)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)
