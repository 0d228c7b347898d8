"""The graph of a run: its parts, made once and when they are asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from helpers.lint_runs import RunFiles, coll, comp, recv, send

from astra_tacos.run.graph.run_graph import RunGraph
from astra_tacos.run.run import RunInputs, read_run


def graph_of(folder, ranks, **more):
    return RunGraph(read_run(RunInputs(**RunFiles(ranks, **more).write(folder))))


def met(graph):
    """By rank and id, the node that each node runs together with, on the other one of two ranks."""
    trace, instances = graph.run.workload, graph.instances
    nodes = zip(instances.nodes.rank.tolist(), trace.node_id[instances.nodes.row].tolist(), strict=True)
    return dict(zip(nodes, instances.instance.tolist(), strict=True))


def test_parts_are_made_once_and_when_asked_for(tmp_path):
    graph = graph_of(tmp_path, "comp 0; coll 1 [0]; send 2 1 [1] | coll 1; recv 2 0 [1]")
    assert set(vars(graph)) == {"run"}
    assert graph.messages is graph.messages and graph.messages.certain.tolist() == [True]
    assert "_together" not in vars(graph)
    assert graph.instances is graph.instances and graph.instances.certain.tolist() == [True]
    order = graph.order.tolist()
    assert len(order) == len(set(order)) and not graph.has_cycle
    place = {vertex: at for at, vertex in enumerate(order)}
    assert place[0] < place[5] < place[2] < place[4]


def test_collectives_match_by_name_only_where_nothing_orders_them(tmp_path):
    free = [[coll(1, name="a"), coll(2, name="b")], [coll(1, name="b"), coll(2, name="a")]]
    graph = graph_of(tmp_path / "free", free)
    number = met(graph)
    assert number[0, 1] == number[1, 2] != number[0, 2] == number[1, 1]
    assert graph.instances.certain.tolist() == [False, False]
    chained = [[coll(1, name="a"), coll(2, [1], name="b")], [coll(1, name="b"), coll(2, [1], name="a")]]
    graph = graph_of(tmp_path / "chained", chained)
    number = met(graph)
    assert number[0, 1] == number[1, 1] != number[0, 2] == number[1, 2] and not graph.has_cycle
    assert graph.instances.certain.tolist() == [True, True]


def test_names_that_would_make_a_cycle_do_not_count(tmp_path):
    """Rank 1 runs b only after a message that rank 0 sends when its a is done, and its a after b."""
    first = [coll(1, name="a"), send(2, 1, [1]), coll(3, name="b")]
    second = [recv(1, 0), coll(2, [1], name="b"), coll(3, [2], name="a")]
    graph = graph_of(tmp_path, [first, second])
    number = met(graph)
    assert number[0, 1] == number[1, 2] != number[0, 3] == number[1, 3] and not graph.instances.certain.any()


def test_other_instances_share_what_does_not_depend_on_them(tmp_path):
    graph = graph_of(tmp_path, [[coll(1), coll(2), comp(3)], [coll(1), coll(2), comp(3)]])
    instances = graph.instances
    columns = {name: getattr(instances, name)[:1] for name in ("group", "pattern", "size_bytes", "root", "certain")}
    joined = graph.with_instances(replace(instances, instance=np.zeros_like(instances.instance), **columns))
    assert joined.messages is graph.messages and joined.issue is graph.issue
    assert len(joined.merged.waits) == len(graph.merged.waits) - 1
    assert graph.instances is instances
