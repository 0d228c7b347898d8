"""Nodes in columns are mended as nodes that all are messages, and few of them become messages."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from helpers.mutated_runs import mutated_runs
from helpers.random_runs import broken_runs
from helpers.trace_bytes import encode_messages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_tacos.run.trace.node_bytes import new_metadata, new_node, read_messages
from astra_tacos.run.trace.reader import load_file
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.workload.mends import messages
from astra_tacos.workload.repairer import rank_nodes
from astra_tacos.workload.repairer.node import DraftNode
from astra_tacos.workload.repairer.rank_nodes import RankNodes
from astra_tacos.workload.repairer.reading import RepairInputs
from astra_tacos.workload.repairer.repair import repair


def mended(inputs, output):
    """What comes of a repair: its error, or its changes, its end and all nodes."""
    try:
        result = repair(inputs, output)
    except AstraTacosError as error:
        return (str(error).replace(str(output), ""),)
    files = sorted((output / "workload").iterdir())
    return result.changes, result.outcome.finish_ns.tolist(), [read_messages(file) for file in files]


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(run=st.one_of(broken_runs(), mutated_runs()))
def test_columns_are_mended_as_messages(run):
    def refuse(*_):
        raise ConfigError("no columns")

    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        inputs = RepairInputs(**run.write(folder))
        by_columns = mended(inputs, folder / "out")
        patch.setattr(RankNodes, "of_file", refuse)
        assert by_columns == mended(inputs, folder / "messages")


def test_few_nodes_become_messages_and_others_keep_their_bytes(tmp_path, monkeypatch):
    nodes = [DraftNode(new_node(number, "c", NodeType.COMP, num_ops=1, is_cpu_op=False)) for number in range(1000)]
    for node in nodes[1:]:
        node.depend((node.id - 1,))
    nodes[500].depend((5000,))
    nodes.append(DraftNode(new_node(1000, "a", NodeType.COMM_COLL, comm_type=0, comm_size=64, is_cpu_op=False)))
    for rank in range(2):
        (tmp_path / f"w.{rank}.et").write_bytes(encode_messages(new_metadata(), (node.message for node in nodes)))
    odd = b"\x05\x18\x04\x08\xd0\x0f"  # a compute node with its type before its id, which protobuf's encoder writes after it
    with (tmp_path / "w.1.et").open("ab") as file:
        file.write(odd)
    looked_at = []
    node_at = rank_nodes.node_at
    monkeypatch.setattr(rank_nodes, "node_at", lambda data, offset: looked_at.append(offset) or node_at(data, offset))
    result = repair(RepairInputs(tmp_path / "w"), tmp_path / "out")
    assert [(change.step, change.node) for change in result.changes] == [("dangling-dependencies", 500)] * 2
    assert len(set(looked_at)) <= 4
    assert (tmp_path / "out/workload/w.1.et").read_bytes().endswith(odd)


def test_columns_answer_for_collectives_and_messages_that_no_step_changes(tmp_path, monkeypatch):
    for rank in range(2):
        kind, own, peer = ((NodeType.COMM_SEND, "comm_src", "comm_dst"), (NodeType.COMM_RECV, "comm_dst", "comm_src"))[rank]
        nodes = [DraftNode(new_node(0, "c", NodeType.COMP, num_ops=1, is_cpu_op=False))]
        for number in range(1, 100, 2):
            ends = {own: rank, peer: 1 - rank}
            what = {"comm_type": 0, "comm_size": 64, "is_cpu_op": False, "pg_name": "1"}
            nodes.append(DraftNode(new_node(number, "a", NodeType.COMM_COLL, **what)))
            nodes.append(DraftNode(new_node(number + 1, "m", kind, comm_size=8, comm_tag=number, is_cpu_op=False, **ends)))
        for node in nodes[1:]:
            node.depend((node.id - 1,))
        nodes.append(DraftNode(new_node(101, "c", NodeType.COMP, num_ops=1, is_cpu_op=False, data=(5000, 100))))
        (tmp_path / f"w.{rank}.et").write_bytes(encode_messages(new_metadata(), (node.message for node in nodes)))
    looked_at = set()
    node_at = rank_nodes.node_at

    def looked(data, offset):
        node = node_at(data, offset)
        looked_at.add(node.id)
        return node

    monkeypatch.setattr(rank_nodes, "node_at", looked)
    result = repair(RepairInputs(tmp_path / "w"), tmp_path / "out")
    assert [(change.step, change.node) for change in result.changes if change.node] == [("dangling-dependencies", 101)] * 2
    assert looked_at == {101}


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(run=st.one_of(broken_runs(), mutated_runs()))
def test_kinds_of_collectives_are_those_of_the_nodes(run):
    """Of a file, and after some nodes were changed, removed and added."""
    with tempfile.TemporaryDirectory() as name:
        inputs = RepairInputs(**run.write(Path(name)))
        for path in sorted(inputs.workload.parent.glob(f"{inputs.workload.name}.*.et")):
            try:
                nodes = RankNodes.of_file(0, load_file(path))
            except ConfigError:
                continue
            for _ in range(2):
                counted = Counter((node.group_name, node.pattern, node.size) for node in nodes if node.is_collective)
                assert list(nodes.collective_kinds().items()) == list(counted.items())
                collectives = nodes.of_kind(NodeType.COMM_COLL)
                for node in collectives[::2]:
                    node.set("comm_size", 77)
                nodes.remove(collectives[1::3])
                nodes.append(DraftNode(new_node(1 << 40, "a", NodeType.COMM_COLL, comm_type=0, comm_size=5, is_cpu_op=False)))


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(run=st.one_of(broken_runs(), mutated_runs()))
def test_messages_that_columns_call_paired_need_nothing(run):
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        inputs = RepairInputs(**run.write(folder))
        by_columns = mended(inputs, folder / "out")
        patch.setattr(messages, "_are_paired", lambda _: False)
        assert by_columns == mended(inputs, folder / "pairs")
