"""Orders of nodes, against plain reachability."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tacos.rules import _order_kernels as kernels
from astra_tacos.run.graph.issue_order import keep_dependencies
from astra_tacos.run.graph.merged_graph import merge
from astra_tacos.run.trace._row_kernels import precedes
from astra_tacos.run.trace.trace import Trace

Ranks = list[list[list[int]]]
"""By rank and node, the nodes of the rank that it depends on; -1 for one that does not exist."""


@st.composite
def ranks(draw, cycles=False):
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    return [
        [
            draw(st.lists(st.integers(-1, (size if cycles else node) - 1), max_size=3)) if size else []
            for node in draw(st.permutations(range(size)))
        ]
        if cycles
        else [draw(st.lists(st.integers(-1, node - 1), max_size=3)) for node in range(size)]
        for size in sizes
    ]


class Case:
    """Arrays as the kernels take them, and the graph they stand for."""

    def __init__(self, ranks):
        self.rank_first = np.cumsum([0, *map(len, ranks)])
        deps = [
            [dep + int(begin) if dep >= 0 else -1 for dep in node]
            for begin, nodes in zip(self.rank_first, ranks, strict=False)
            for node in nodes
        ]
        self.dep_first = np.cumsum([0, *map(len, deps)])
        self.dep = np.array([dep for node in deps for dep in node], np.int64)
        self.num = len(deps)
        self.rank = np.repeat(np.arange(len(ranks)), np.diff(self.rank_first))
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from(range(self.num))
        self.graph.add_edges_from((dep, row) for row, node in enumerate(deps) for dep in node if dep >= 0)
        absent = np.full(self.num, -1)
        ids, kinds = np.arange(self.num, dtype=np.uint64), np.zeros(self.num, np.uint8)
        self.trace = Trace("w", self.rank_first, ids, kinds, *(absent,) * 4, self.dep_first, self.dep)
        children = [[after for _, after in self.graph.out_edges(row)] for row in range(self.num)]
        first = np.cumsum([0, *map(len, children)])
        issue = keep_dependencies(self.rank, first, np.array([row for rows in children for row in rows], np.int64))
        self.order, self.place = issue.order, issue.place
        self.ordered = np.bincount(self.rank[issue.runs], minlength=len(ranks))


@settings(deadline=None)
@given(ranks(cycles=True))
def test_nodes_behind_cycles_have_no_place(case_ranks):
    case = Case(case_ranks)
    stuck = {row for part in nx.strongly_connected_components(case.graph) if len(part) > 1 for row in part}
    stuck |= set(nx.nodes_with_selfloops(case.graph))
    stuck |= {row for start in list(stuck) for row in nx.descendants(case.graph, start)}
    for rank in range(len(case_ranks)):
        rows = case.order[case.rank_first[rank] : case.rank_first[rank + 1]].tolist()
        assert sorted(rows) == list(range(case.rank_first[rank], case.rank_first[rank + 1]))
        good = rows[: case.ordered[rank]]
        assert set(good) == set(rows) - stuck
        assert all(case.place[a] < case.place[b] for a, b in case.graph.edges if a in good and b in good)
        if len(good) < len(rows):
            mask = np.isin(np.arange(case.num), sorted(stuck))
            cycle = kernels.find_cycle(case.dep_first, case.dep, mask, rows[len(good)]).tolist()
            assert all(case.graph.has_edge(cycle[(i + 1) % len(cycle)], cycle[i]) for i in range(len(cycle)))


@settings(deadline=None)
@given(ranks(), st.data())
def test_precedes_is_reachability(case_ranks, data):
    case = Case(case_ranks)
    pairs = [(a, b) for a in range(case.num) for b in range(case.num) if case.rank[a] == case.rank[b]]
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=200))
    chosen.sort(key=lambda pair: case.place[pair[0]])
    before, after = np.array(chosen).T
    answer = precedes(case.rank, case.place, case.order, case.dep_first, case.dep, before, after)
    assert answer.tolist() == [a != b and nx.has_path(case.graph, a, b) for a, b in chosen]


@settings(deadline=None)
@given(ranks(), st.data())
def test_unordered_pairs_are_those_without_a_path(case_ranks, data):
    case = Case(case_ranks)
    sort = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=case.num, max_size=case.num)), np.int64)
    arguments = kernels.RankOrders(case.rank_first, case.ordered, case.order, case.dep_first, case.dep), sort
    first, second, cut = kernels.unordered_pairs(*arguments, 1 << 20, 1 << 20)
    expected = {
        frozenset((a, b))
        for a in range(case.num)
        for b in range(a)
        if case.rank[a] == case.rank[b]
        and min(sort[a], sort[b]) >= 0
        and sort[a] != sort[b]
        and not nx.has_path(case.graph, a, b)
        and not nx.has_path(case.graph, b, a)
    }
    found = [frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)]
    assert len(found) == len(expected) and set(found) == expected and not cut.any()
    first, _, cut = kernels.unordered_pairs(*arguments, 1 << 20, 1)
    assert len(first) <= len(case_ranks)
    assert {rank for rank in range(len(case_ranks)) if cut[rank]} == {
        rank for rank in range(len(case_ranks)) if sum(case.rank[min(pair)] == rank for pair in expected) > 1
    }


@settings(deadline=None)
@given(ranks(), st.data())
def test_reaches_follows_collectives_and_messages(case_ranks, data):
    """Rows of several ranks merged into vertices, sends joined to receives, against reachability in the merged graph."""
    case = Case(case_ranks)
    vertex = np.arange(case.num)
    send_of = np.full(case.num, -1, np.int64)
    for row in range(case.num):
        other = data.draw(st.integers(-1, case.num - 1))
        if other >= 0 and case.rank[other] != case.rank[row]:
            if data.draw(st.booleans()):
                vertex[row] = vertex[other]
            else:
                send_of[row] = other
    usable = np.ones(case.num, np.bool_)
    # A vertex that several rows share stands for a collective, whose number comes after the rows.
    _, number = np.unique(vertex, return_inverse=True)
    is_shared = np.bincount(number)[number] > 1
    rows, received = np.flatnonzero(is_shared), np.flatnonzero(send_of >= 0)
    together = merge(case.trace, usable, (rows, number[rows]), (send_of[received], received))
    vertex = together.vertex
    merged = kernels.Rows(case.dep_first, case.dep, vertex, usable, send_of)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(together.waits)))
    needs = [*case.graph.edges, *((int(send), row) for row, send in enumerate(send_of) if send >= 0)]
    graph.add_edges_from((int(vertex[before]), int(vertex[after])) for before, after in needs)
    acyclic = nx.is_directed_acyclic_graph(graph)
    order = together.order()
    assert acyclic == (len(order) == len(together.waits))
    if not acyclic:
        return
    sources = np.unique(vertex)
    queries = [(s, row, own) for s in sources.tolist() for row in range(case.num) for own in (False, True)]
    source_first = np.searchsorted([query[0] for query in queries], [*sources.tolist(), len(together.waits)])
    answer = kernels.reaches(
        kernels.Graph(order, *together.needed()),
        merged,
        kernels.Queries(
            sources,
            source_first,
            np.array([query[1] for query in queries]),
            np.array([query[2] for query in queries]),
        ),
    )
    for (s, row, own), said in zip(queries, answer.tolist(), strict=True):
        deps = [*case.dep[case.dep_first[row] : case.dep_first[row + 1]].tolist(), int(send_of[row])]
        starts = [int(vertex[dep]) for dep in deps if dep >= 0]
        expected = any(s == at or nx.has_path(graph, s, at) for at in starts)
        if own:
            expected = s != vertex[row] and nx.has_path(graph, s, int(vertex[row]))
        assert said == expected, (s, row, own)
