"""The bound on exposed communication: against all schedules of tiny runs, and below what every policy leaves."""

from __future__ import annotations

import heapq
from itertools import product

import pytest
from helpers.examples import examples
from helpers.plans import candidates_of
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import CommType, NodeType
from astra_tacos.planner.retime.exposure_bound import QuickestBytes, least_exposed_ns
from astra_tacos.planner.retime.request import parse_schedule
from astra_tacos.planner.retime.task_reader import read_graph
from astra_tacos.planner.retime.tasks import Operation, Task, TaskGraph

from .test_policies import KINDS, SCHEDULES, made


def graph_of(kinds, durations, deps):
    """A rank whose tasks compute or broadcast; each waits for some of those before, through control dependencies."""
    tasks: list[Task] = []
    operations: list[Operation] = []
    for number, (is_compute, duration) in enumerate(zip(kinds, durations, strict=True)):
        task = Task(0, number, NodeType.COMP if is_compute else NodeType.COMM_COLL, number, duration)
        waits = [tasks[dep] for dep in deps[number]]
        if is_compute:
            task.ctrl = waits
        else:
            task.data = waits
            # Nothing is known of a Broadcast but that it takes time: it is not cut with its producer.
            operation = Operation(int(CommType.BROADCAST), 0, 4, (0,), (), number, [task])
            task.operation = operation
            operations.append(operation)
        tasks.append(task)
    return TaskGraph([tasks], operations)


def least_by_search(kinds, durations, deps):
    """The shortest time of communication without compute, over all schedules that may stop and go on at whole times."""
    start = tuple(durations)
    best = {start: 0}
    queue = [(0, start)]
    while queue:
        cost, left = heapq.heappop(queue)
        if not any(left):
            return cost
        if cost > best[left]:
            continue
        ready = [at for at, rest in enumerate(left) if rest and not any(left[dep] for dep in deps[at])]
        for one, other in product([None, *(at for at in ready if kinds[at])], [None, *(at for at in ready if not kinds[at])]):
            if one is None and other is None:
                continue
            after = tuple(rest - (at in (one, other)) for at, rest in enumerate(left))
            more = cost + (one is None)
            if more < best.get(after, 1 << 30):
                best[after] = more
                heapq.heappush(queue, (more, after))
    raise AssertionError("a task waits for itself")


@st.composite
def tiny(draw):
    count = draw(st.integers(1, 6))
    kinds = [draw(st.booleans()) for _ in range(count)]
    durations = [draw(st.integers(1, 3)) for _ in range(count)]
    deps = [sorted(draw(st.sets(st.integers(0, number - 1), max_size=2))) if number else [] for number in range(count)]
    return kinds, durations, deps


@examples(60)
@given(tiny())
def test_no_schedule_of_a_tiny_run_exposes_less(case):
    kinds, durations, deps = case
    # Two control dependencies of communication only fix an order, so here all of a collective are data.
    bound = least_exposed_ns(graph_of(kinds, durations, deps), lambda task: durations[task.row])
    assert bound == [bound[0]]
    assert 0 <= bound[0] <= least_by_search(kinds, durations, deps)


def test_the_bound_is_reached():
    """A chain hides nothing; what is free of one compute task of 2 hides 2 of its 3."""
    chain = [True, False, True], [2, 3, 2], [[], [0], [1]]
    assert least_exposed_ns(graph_of(*chain), lambda task: chain[1][task.row]) == [3] == [least_by_search(*chain)]
    beside = [True, False, True], [2, 3, 2], [[], [0], [0]]
    assert least_exposed_ns(graph_of(*beside), lambda task: beside[1][task.row]) == [1] == [least_by_search(*beside)]


@pytest.mark.parametrize("kind", KINDS)
def test_no_policy_exposes_less(kind, tmp_path):
    """With what the fastest collectives take a byte, in any size that a policy makes, and messages without latency."""
    candidates = candidates_of(made(tmp_path, kind))
    graph = read_graph(candidates.workload, candidates.before)
    least_of = QuickestBytes(candidates.workload.run, candidates.backend, candidates.setting.duration_of)
    bound = least_exposed_ns(graph, least_of)
    program = graph.programs.of_rank.tolist()
    assert sum(bound) > 0
    for schedule in ("fifo", *SCHEDULES, "reorder,pipeline:pieces=8,messages=yes,decouple:barrier=no,priority"):
        candidate = candidates.make(parse_schedule(schedule) or ())
        for rank, own in enumerate(program):
            assert candidate.exposed_ns[rank] >= bound[own] * 0.999, schedule
