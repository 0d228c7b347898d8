"""Generated runs: nothing to find for lint, replayed to the end on any network, whatever the parallelism."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from helpers.examples import examples
from helpers.generated import parse_rank, small_model, steps, write_network
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.directory import generate
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step
from astra_tacos.workload.lint import lint


def replayed(run, network, backend):
    system, memory = run.path / "system.json", run.path / "remote_memory.json"
    return replay_run(read_run(RunInputs(run.path / "workload/w", system, network, run.comm_group, memory)), backend)


def split_in_two(count):
    return max(divisor for divisor in range(1, count) if count % divisor == 0)


def same_on_all(groups, ranks):
    """The ranks of a group issue its collectives in one order, and no other ranks take part."""
    used = set()
    for name, members in groups.items():
        assert int(name) >= 1 and members == sorted(set(members)) and len(members) > 1
        orders = []
        for rank, nodes in enumerate(ranks):
            mine = [node for node in nodes if node.kind == NodeType.COMM_COLL and node["pg_name"] == name]
            if rank in members:
                orders.append([(node.id, node.name, node["comm_type"], node["comm_size"]) for node in mine])
            else:
                assert not mine
        assert all(order == orders[0] for order in orders) and orders[0]
        used.add(name)
    assert used == {node["pg_name"] for nodes in ranks for node in nodes if node.kind == NodeType.COMM_COLL}


def messages_meet(ranks):
    """Each send has one receive, and its tag is its own."""
    ends: dict[NodeType, Counter[tuple[int, ...]]] = {NodeType.COMM_SEND: Counter(), NodeType.COMM_RECV: Counter()}
    for rank, nodes in enumerate(ranks):
        for node in nodes:
            if node.kind in ends:
                kind = NodeType(node.kind)
                assert node["comm_src" if kind == NodeType.COMM_SEND else "comm_dst"] == rank
                ends[kind][node["comm_tag"], node["comm_src"], node["comm_dst"], node["comm_size"]] += 1
    assert ends[NodeType.COMM_SEND] == ends[NodeType.COMM_RECV]
    tags = [tag for tag, *_ in ends[NodeType.COMM_SEND].elements()]
    assert len(tags) == len(set(tags))


@examples(20)
@given(steps(), st.sampled_from(("Ring", "Switch", "FullyConnected")), st.booleans())
def test_any_step_is_sound_and_ends(step, block, with_durations):
    count = step.parallelism.num_ranks
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flat = write_network(folder / "flat.yml", ("Switch" if count == 2 else block, count))
        run = generate(step, folder / "run", Device(writes_durations=with_durations), flat)
        groups = json.loads(run.comm_group.read_text()) if run.comm_group else {}
        ranks = [parse_rank(run.path, rank) for rank in range(count)]
        same_on_all(groups, ranks)
        messages_meet(ranks)
        for nodes in ranks:
            assert [node.id for node in nodes] == list(range(len(nodes)))
            assert all(dep < node.id for node in nodes for dep in (*node.data, *node.ctrl))
            assert len({node.name for node in nodes}) == len(nodes)
        check(run, flat, "congestion-aware")
        inner = split_in_two(count)
        if inner > 1:
            deep = write_network(folder / "deep.yml", ("Switch" if inner == 2 else block, inner), ("Switch", count // inner))
            check(generate(step, folder / "run", Device(writes_durations=with_durations), deep), deep, "congestion-unaware")


def check(run, network, backend):
    """Lint finds nothing in the traces, and every rank finishes."""
    workload, system, memory = run.path / "workload/w", run.path / "system.json", run.path / "remote_memory.json"
    found = lint(RunInputs(workload, system, network, run.comm_group, memory), backend=backend).findings
    assert [finding for finding in found if finding.code != "G10"] == []  # one dimension: ASTRA-sim frees algorithms twice
    assert (replayed(run, network, backend).finish_ns > 0).all()


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_pipeline_takes_as_long_as_its_bubble_says(schedule, tmp_path):
    """M micro-batches through p stages take M + p - 1 passes forward and backward (Narayanan et al. 2021, section 2.2)."""
    stages, micro_batches = 4, 6
    step = Step(small_model(hidden=512, ffn=2048, vocab=8), Parallelism(pp=stages), micro_batches, batch=4, schedule=schedule)
    network = write_network(tmp_path / "n.yml", ("FullyConnected", stages), bandwidth=1e6, latency=0)
    run = generate(step, tmp_path / "run", Device(peak_tflops=0.1, memory_gbps=1e6), network)
    assert json.loads(run.comm_group.read_text()) == {}
    outcome = replayed(run, network, "congestion-aware")
    nodes = {node.name: node["num_ops"] // 100 for node in parse_rank(run.path, 1) if node.kind == NodeType.COMP}  # ns
    update = nodes.pop("optimizer_step0")
    # A stage passes its gradient on before it computes that of its first weights.
    hidden = (stages - 1) * nodes["mb0_attention_weight_gradient_layer1"]
    ideal = sum(nodes.values()) // micro_batches * (micro_batches + stages - 1) - hidden + update
    assert outcome.finish_ns.max() == pytest.approx(ideal, rel=0.005)


def test_durations_are_those_of_the_roofline(tmp_path):
    step = Step(small_model(hidden=512, ffn=2048), Parallelism(tp=4), micro_batches=2, batch=4)
    network = write_network(tmp_path / "n.yml", "Ring 4")
    times = []
    for writes_durations in (False, True):
        device = Device(peak_tflops=0.5, memory_gbps=20, writes_durations=writes_durations)
        run = generate(step, tmp_path / f"run{writes_durations}", device, network)
        times.append(replayed(run, network, "congestion-aware").compute_ns)
        kinds = [set(node.attributes) for node in parse_rank(run.path, 0) if node.kind == NodeType.COMP]
        assert all(("num_ops" in names) != writes_durations for names in kinds)
    num_computes = len(kinds)
    assert (abs(times[0] - times[1]) <= num_computes * 501).all()
