"""The oracle passes runs whose nodes were made of others, and finds what is wrong in those that were changed afterwards."""

from __future__ import annotations

import json
import shutil

import pytest
from helpers.command import run as command
from helpers.generated import small_model, write_network
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import QUICK, candidates_of, generated_run, timed_layer, write_candidate, written
from helpers.schedules import codes
from helpers.trace_bytes import encode_messages

from astra_tacos import Device, LayeredModel, LayeredStep, NodeType, Parallelism, PlanRequest, Step, read_run
from astra_tacos import plan as planned
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.run.chunks import read_trace_parts
from astra_tacos.run.trace.node_bytes import attribute, read_messages, set_attribute
from astra_tacos.run.trace.schema import CommType
from astra_tacos.solver.planned_verdict import verify_planned
from astra_tacos.verifier.run_oracle import verify_run

ORIGIN = "astra_tacos_from"


def made(folder, **options):
    network = write_network(folder / "n.yml", ("FullyConnected", 4), bandwidth=5)
    step = Step(small_model(hidden=256, ffn=1024, layers=2), batch=8, steps=2, **{"parallelism": Parallelism(dp=4)} | options)
    return generated_run(folder, step, network)


@pytest.fixture(scope="module")
def only_scheduled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scheduled")
    inputs = made(folder)
    request = PlanRequest(inputs, schedule="decouple:barrier=no", keep_collectives=True)
    assert not planned(request, folder / "plan").scheduled.is_as_is
    return inputs, folder / "plan"


@pytest.fixture(scope="module")
def and_planned(only_scheduled, tmp_path_factory):
    """The plan of the scheduled run, to be judged by the run before both."""
    inputs, plan = only_scheduled
    folder = tmp_path_factory.mktemp("planned") / "plan"
    planned(PlanRequest(planned_inputs(plan, inputs), options=QUICK, cache=None), folder)
    return inputs, folder


def judged(inputs, plan):
    told = plan / "plan.json"
    parts = read_trace_parts(told) if "traces" in json.loads(told.read_text()) else {}
    return verify_run(read_run(planned_inputs(plan, inputs)), parts, read_run(inputs))


def changed(path, change):
    head, nodes = read_messages(path)
    path.write_bytes(encode_messages(head, change(nodes) or nodes))


def of_kind(nodes, kind):
    return [node for node in nodes if node.type == kind]


def gathers(nodes):
    """Second halves of All-Reduces: planned, they may have another type that carries them."""
    second = {}
    for node in of_kind(nodes, NodeType.COMM_COLL):
        pattern = attribute(node, "astra_tacos_pattern") or CommType(attribute(node, "comm_type")).name
        if pattern == "ALL_GATHER":
            second[node.id] = node
    return second


def gone(nodes):
    lost = of_kind(nodes, NodeType.COMM_COLL)[-1].id
    for node in nodes:
        for deps in (node.data_deps, node.ctrl_deps):
            deps[:] = [dep for dep in deps if dep != lost]
    return [node for node in nodes if node.id != lost]


def smaller(nodes):
    node = of_kind(nodes, NodeType.COMM_COLL)[0]
    set_attribute(node, "comm_size", "int64_val", attribute(node, "comm_size") - 4)


def less_work(nodes):
    node = of_kind(nodes, NodeType.COMP)[0]
    set_attribute(node, "num_ops", "int64_val", attribute(node, "num_ops") - 1)


def early(nodes):
    node = next(iter(gathers(nodes).values()))
    del node.data_deps[:], node.ctrl_deps[:]


def unused(nodes):
    second = set(gathers(nodes))
    for node in of_kind(nodes, NodeType.COMP):
        node.data_deps[:] = [dep for dep in node.data_deps if dep not in second]


def other_group(nodes):
    set_attribute(of_kind(nodes, NodeType.COMM_COLL)[0], "pg_name", "string_val", "77")


def unordered(nodes):
    compute = {node.id for node in of_kind(nodes, NodeType.COMP)}
    for node in of_kind(nodes, NodeType.COMP):
        node.ctrl_deps[:] = [dep for dep in node.ctrl_deps if dep not in compute]


def cycle(nodes):
    nodes[0].ctrl_deps.append(nodes[-1].id)


def nothing_to_wait_for(nodes):
    nodes[-1].data_deps.append(1 << 40)


def other_origin(nodes):
    one, other = of_kind(nodes, NodeType.COMP)[:2]
    set_attribute(one, ORIGIN, "string_val", attribute(other, ORIGIN))


def twice(nodes):
    collectives = of_kind(nodes, NodeType.COMM_COLL)
    set_attribute(collectives[0], ORIGIN, "string_val", attribute(collectives[-1], ORIGIN))


def no_origin(nodes):
    entries = [entry for entry in nodes[0].attr if entry.name != ORIGIN]
    del nodes[0].attr[:]
    nodes[0].attr.extend(entries)


FAULTS = [
    (gone, {"nodes-changed", "wrong-collective"}),
    (smaller, {"wrong-collective"}),
    (less_work, {"nodes-changed"}),
    (early, {"dependency-lost"}),
    (unused, {"dependency-lost"}),
    (other_group, {"wrong-collective"}),
    (unordered, {"dependency-lost"}),
    (cycle, {"dependency-lost"}),
    (nothing_to_wait_for, {"dependency-lost"}),
    (other_origin, {"nodes-changed"}),
    (twice, {"wrong-collective", "nodes-changed"}),
    (no_origin, {"nodes-added"}),
]


@pytest.mark.parametrize("which", ["only_scheduled", "and_planned"])
def test_a_scheduled_run_is_proven_and_every_fault_is_found(which, tmp_path, request):
    inputs, plan = request.getfixturevalue(which)
    verdict = judged(inputs, plan)
    assert verdict.proven and verdict.rewriting.all_reduces_halved > 0
    assert (verdict.num_traces > 0) == (which == "and_planned")
    shutil.copytree(plan, tmp_path / "plan")
    path = tmp_path / "plan" / "workload" / "w.1.et"
    whole = path.read_bytes()
    for change, expected in FAULTS:
        changed(path, change)
        found = codes(judged(inputs, tmp_path / "plan"))
        assert found & expected, (change.__name__, found)
        path.write_bytes(whole)


def swapped(nodes):
    """Two collectives of one group, pattern and size in the other order: each node is in the place of the other."""
    one, other = of_kind(nodes, NodeType.COMM_COLL)
    first, second = (attribute(node, ORIGIN) for node in (one, other))
    set_attribute(one, ORIGIN, "string_val", second)
    set_attribute(other, ORIGIN, "string_val", first)


def independent(rank):
    """Two collectives that nothing orders, each for a node of its own."""
    work = {"num_ops": 1000, "tensor_size": 8}
    collectives = [coll(2, [0], size=1 << 20), coll(3, [1], size=1 << 20)]
    return [comp(0, **work), comp(1, **work), *collectives, comp(4, [2], **work), comp(5, [3], **work)]


def test_another_order_on_one_rank_is_found(tmp_path):
    """Each node still waits for what it waited for; but the collectives that meet are different ones."""
    inputs = written(tmp_path, RunFiles(ranks=[independent(rank) for rank in range(4)], npus=(4,)))
    write_candidate(candidates_of(inputs), "priority", inputs, tmp_path / "plan")
    before, after = read_run(inputs), planned_inputs(tmp_path / "plan", inputs)
    assert verify_run(read_run(after), {}, before).proven
    for rank in range(4):
        changed(tmp_path / "plan" / "workload" / f"w.{rank}.et", reordered)
        found = codes(verify_run(read_run(after), {}, before))
        assert found == ({"out-of-step"} if rank < 3 else set())


def reordered(nodes):
    """What the two collectives are of, and what waits for them, change places; so does what they wait for."""
    swapped(nodes)
    one, other = (node.id for node in of_kind(nodes, NodeType.COMM_COLL))
    first, second = of_kind(nodes, NodeType.COMM_COLL)
    first_data, second_data = list(first.data_deps), list(second.data_deps)
    first.data_deps[:], second.data_deps[:] = second_data, first_data
    for node in of_kind(nodes, NodeType.COMP):
        node.data_deps[:] = [{one: other, other: one}.get(dep, dep) for dep in node.data_deps]


def test_messages_that_get_another_part_are_found(tmp_path):
    inputs = made(tmp_path, parallelism=Parallelism(dp=2, pp=2), micro_batches=2)
    write_candidate(candidates_of(inputs), "pipeline:pieces=2,messages=yes", inputs, tmp_path / "plan")
    before, after = read_run(inputs), planned_inputs(tmp_path / "plan", inputs)
    verdict = verify_run(read_run(after), {}, before)
    assert verdict.proven and verdict.rewriting.nodes_cut > 0

    def crossed(nodes):
        receives = [node for node in of_kind(nodes, NodeType.COMM_RECV) if ":0/2" in attribute(node, ORIGIN)]
        other = next(
            node
            for node in of_kind(nodes, NodeType.COMM_RECV)
            if attribute(node, ORIGIN) == attribute(receives[0], ORIGIN).replace(":0/", ":1/")
        )
        tags = [attribute(node, "comm_tag") for node in (receives[0], other)]
        assert tags[0] != tags[1]
        for node, tag in zip((receives[0], other), reversed(tags), strict=True):
            entry = next(entry for entry in node.attr if entry.name == "comm_tag")
            setattr(entry, entry.WhichOneof("value"), tag)

    receivers = [
        path
        for path in sorted((tmp_path / "plan" / "workload").glob("*.et"))
        if any(":0/2" in attribute(node, ORIGIN) for node in of_kind(read_messages(path)[1], NodeType.COMM_RECV))
    ]
    changed(receivers[0], crossed)
    assert codes(verify_run(read_run(after), {}, before)) == {"wrong-message"}


def test_dropped_orders_count_only_behind_the_attribute(tmp_path):
    """The same files without the attribute are judged node by node: what only fixed an order counts as well."""
    layers = tuple(timed_layer(100_000, 4, 4, 4) for _ in range(3))
    step = LayeredStep(LayeredModel("loop", layers), Parallelism(dp=2), steps=2)
    network = write_network(tmp_path / "n.yml", ("FullyConnected", 2), bandwidth=2)
    inputs = generated_run(tmp_path, step, network, Device(1e6, 1e9, writes_durations=True))
    write_candidate(candidates_of(inputs), "reorder", inputs, tmp_path / "plan")
    before, after = read_run(inputs), planned_inputs(tmp_path / "plan", inputs)
    verdict = verify_run(read_run(after), {}, before)
    assert verdict.proven and verdict.rewriting.compute_orders_gone > 0
    assert any("only fixed an order" in line for line in verdict.rewriting.lines())

    def stripped(nodes):
        for node in nodes:
            entries = [entry for entry in node.attr if entry.name != ORIGIN]
            del node.attr[:]
            node.attr.extend(entries)

    for path in (tmp_path / "plan" / "workload").glob("*.et"):
        changed(path, stripped)
    verdict = verify_run(read_run(after), {}, before)
    assert verdict.violations and verdict.rewriting is None


def test_the_command_takes_a_directory_and_counts(only_scheduled, tmp_path):
    inputs, plan = only_scheduled
    run = inputs.workload.parent.parent
    for before in (run, inputs.workload):
        done = command("verify", str(plan), "--before", str(before), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "made a Reduce-Scatter and an All-Gather" in done.stdout
    told = json.loads(command("verify", str(plan), "--before", str(run), "--json", cwd=tmp_path).stdout)["checked"][0]
    assert told["proven"] and told["rewriting"]["all_reduces_halved"] > 0
    alone = command("verify", str(plan), cwd=tmp_path)
    assert alone.returncode == 2 and "nothing to prove of them alone: expected --before" in alone.stderr


def test_a_plan_of_a_scheduled_run_is_judged_node_by_node(only_scheduled, and_planned):
    """Its nodes have the attribute of the run before, so nothing is allowed that is not as it was there."""
    verdict = verify_planned(and_planned[1], only_scheduled[1])
    assert verdict.proven and verdict.rewriting is None and "rewriting" not in verdict.to_json()
