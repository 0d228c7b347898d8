"""Frontiers of steps and rounds: the published tables, both ways, and every point as a schedule that the oracle accepts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from helpers.networks import dgx1, graph, topology

from astra_tacos.errors import SynthesisError
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.synthesizer.rounds.frontier import Task, frontier
from astra_tacos.synthesizer.rounds.lanes import lanes_of
from astra_tacos.synthesizer.rounds.schedules import Algorithm, composed, crossovers
from astra_tacos.verifier.schedule_oracle import verify

DGX1 = dgx1()
RING8 = topology(("Ring", 8, 25.0, 500.0))


@pytest.mark.parametrize(
    ("name", "feasible", "infeasible"),
    [
        ("all-gather", [(1, 2, 2), (2, 2, 3), (2, 3, 3), (3, 3, 4)], [(1, 1, 1), (3, 2, 4), (5, 2, 7), (7, 2, 10), (6, 2, 7)]),
        ("reduce-scatter", [(2, 2, 3)], [(3, 2, 4)]),
        ("gather", [(1, 2, 2), (2, 2, 3), (6, 2, 7)], [(1, 1, 1)]),
        ("scatter", [(1, 2, 2), (6, 2, 7)], [(6, 2, 6)]),
        ("broadcast", [(2, 2, 2), (3, 2, 3), (6, 3, 3)], [(3, 2, 2), (6, 3, 2)]),
        ("all-to-all", [(8, 2, 3)], [(8, 2, 2), (24, 2, 7)]),
    ],
)
def test_dgx1(name: str, feasible: list[tuple[int, int, int]], infeasible: list[tuple[int, int, int]]) -> None:
    """SCCL, table 4, and what follows from the relaxation."""
    task = Task(lanes_of(DGX1), name, 0 if name in ("gather", "scatter", "broadcast") else None)
    for chunks, steps, rounds in feasible:
        sends = task.decide(chunks, steps, rounds)
        assert sends is not None, (chunks, steps, rounds)
        schedule = Algorithm(name, task.root, (point(task, chunks, steps, rounds, sends),)).schedule(DGX1, 1 << 20, "pipelined")
        assert not verify(schedule)
    for instance in infeasible:
        assert task.decide(*instance) is None, instance


def point(task: Task, chunks: int, steps: int, rounds: int, sends):
    from astra_tacos.synthesizer.rounds.frontier import Point

    return Point(chunks, steps, rounds, task.bound(steps) or Fraction(0), False, (), sends)


def test_the_bounds_are_those_of_the_tables() -> None:
    lanes = lanes_of(DGX1)
    assert [Task(lanes, "all-gather").bound(steps) for steps in (1, 2, 3)] == [None, Fraction(3, 2), Fraction(7, 6)]
    assert Task(lanes, "gather", 0).bound(2) == Fraction(7, 6)
    assert [Task(lanes, "broadcast", 0).bound(steps) for steps in (2, 3)] == [1, Fraction(7, 20)]
    assert Task(lanes, "all-to-all").bound(2) == Fraction(1, 3)


def test_a_ring() -> None:
    task = Task(lanes_of(RING8), "all-gather")
    assert task.decide(1, 3, 4) is None and task.decide(2, 3, 7) is None and task.decide(2, 4, 6) is None
    points = list(frontier(task, 4, 7))
    assert [(p.chunks, p.steps, p.rounds, p.is_proven) for p in points] == [(2, 4, 7, True)]


def test_the_frontier_and_its_crossover() -> None:
    """Asynchronous sends take no longer than rounds; the two points cross at 3 latencies times the bandwidth."""
    task = Task(lanes_of(DGX1), "all-gather")
    two, three = (task.decide(*instance) for instance in ((2, 2, 3), (3, 3, 4)))
    assert two and three
    algorithms = [
        Algorithm("all-gather", None, (point(task, 2, 2, 3, two),)),
        Algorithm("all-gather", None, (point(task, 3, 3, 4, three),)),
    ]
    lanes = task.lanes
    for algorithm in algorithms:
        schedule = algorithm.schedule(DGX1, 6 << 20, "pipelined")
        assert not verify(schedule)
        assert replay_schedule(schedule).collective_time_ns == schedule.collective_time_ns
        assert schedule.collective_time_ns <= algorithm.time_ns(lanes, 6 << 20)
    size = crossovers(algorithms, lanes)[1]
    assert algorithms[0].time_ns(lanes, size) == pytest.approx(algorithms[1].time_ns(lanes, size))


def test_an_all_reduce_is_composed() -> None:
    task = Task(lanes_of(DGX1), "all-gather")
    sends = task.decide(1, 2, 2)
    assert sends is not None
    phases = composed(task, point(task, 1, 2, 2, sends))
    assert phases is not None
    algorithm = Algorithm("all-reduce", None, phases)
    assert (algorithm.chunks, algorithm.steps, algorithm.rounds) == (1, 4, 4)
    assert not verify(algorithm.schedule(DGX1, 1 << 20, "pipelined", 100.0))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (topology(("Switch", 4, 50.0, 500.0)), "has switches, expected direct links"),
        (graph((0, 1, 50.0, 1.0), (1, 0, 50.0, 2.0)), "latencies of 1 to 2 ns, expected equal ones"),
        (graph((0, 1, 50.0, 1.0), (1, 0, 20.0, 1.0)), "50 and 20 GiB/s, expected multiples"),
    ],
)
def test_networks_without_lanes_are_refused(network, message: str) -> None:
    with pytest.raises(SynthesisError, match=message):
        lanes_of(network)
