"""Frontiers of steps and rounds: the published tables, both ways, and every point as a schedule that the oracle accepts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers.examples import examples, refused
from helpers.networks import dgx1, graph, topology
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array

from astra_tacos.collective import ROOTED
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer.parts.frontier import Algorithm, Point, Task, composed, crossovers
from astra_tacos.synthesizer.parts.lanes import lanes_of
from astra_tacos.verifier.schedule_oracle import verify

DGX1 = dgx1()


@pytest.mark.parametrize(
    "name, feasible, infeasible",
    [
        ("all-gather", [(1, 2, 2), (2, 2, 3), (2, 3, 3), (3, 3, 4)], [(1, 1, 1), (3, 2, 4), (5, 2, 7), (7, 2, 10), (6, 2, 7)]),
        ("reduce-scatter", [(2, 2, 3)], [(3, 2, 4)]),
        ("gather", [(1, 2, 2), (2, 2, 3), (6, 2, 7)], [(1, 1, 1)]),
        ("scatter", [(1, 2, 2), (6, 2, 7)], [(6, 2, 6)]),
        ("broadcast", [(2, 2, 2), (3, 2, 3), (6, 3, 3)], [(3, 2, 2), (6, 3, 2)]),
        ("all-to-all", [(8, 2, 3)], [(8, 2, 2), (24, 2, 7)]),
    ],
)
def test_dgx1(name, feasible, infeasible):
    """SCCL, table 4, and what follows from the relaxation."""
    task = Task(lanes_of(DGX1), name, 0 if name in ("gather", "scatter", "broadcast") else None)
    for chunks, steps, rounds in feasible:
        sends = task.decide(chunks, steps, rounds)
        assert sends is not None, (chunks, steps, rounds)
        schedule = Algorithm(name, task.root, (point(task, chunks, steps, rounds, sends),)).schedule(DGX1, 1 << 20, "pipelined")
        assert not verify(schedule)
    for instance in infeasible:
        assert task.decide(*instance) is None, instance


def point(task, chunks, steps, rounds, sends):
    return Point(chunks, steps, rounds, task.bound(steps) or Fraction(0), False, (), sends)


def test_the_bounds_are_those_of_the_tables():
    lanes = lanes_of(DGX1)
    assert [Task(lanes, "all-gather").bound(steps) for steps in (1, 2, 3)] == [None, Fraction(3, 2), Fraction(7, 6)]
    assert Task(lanes, "gather", 0).bound(2) == Fraction(7, 6)
    assert [Task(lanes, "broadcast", 0).bound(steps) for steps in (2, 3)] == [1, Fraction(7, 20)]
    assert Task(lanes, "all-to-all").bound(2) == Fraction(1, 3)


def test_the_frontier_and_its_crossover():
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


def test_an_all_reduce_is_composed():
    task = Task(lanes_of(DGX1), "all-gather")
    sends = task.decide(1, 2, 2)
    assert sends is not None
    phases = composed(task, point(task, 1, 2, 2, sends))
    assert phases is not None
    algorithm = Algorithm("all-reduce", None, phases)
    assert (algorithm.chunks, algorithm.steps, algorithm.rounds) == (1, 4, 4)
    assert not verify(algorithm.schedule(DGX1, 1 << 20, "pipelined", 100.0))


@pytest.mark.parametrize(
    "network, message",
    [
        (topology("Switch 4"), "has switches, expected direct links"),
        (graph("0 1 50 1, 1 0 50 2"), "latencies of 1 to 2 ns, expected equal latencies"),
        (graph("0 1 50 1, 1 0 20 1"), "50 and 20 GiB/s, expected multiples"),
    ],
)
def test_networks_without_lanes_are_refused(network, message):
    with refused(message, SynthesisError):
        lanes_of(network)


SPREADING = ("all-gather", "broadcast", "gather", "scatter", "all-to-all")


@st.composite
def lanes_networks(draw, most=5):
    """A few NPUs with a cycle through all, some more one-way links, and one to three lanes a link."""
    num = draw(st.integers(2, most))
    pairs = {(npu, (npu + 1) % num) for npu in range(num)}
    pairs |= set(draw(st.lists(st.tuples(st.integers(0, num - 1), st.integers(0, num - 1)), max_size=6)))
    links = [(src, dst, 25.0 * draw(st.integers(1, 3)), 500.0) for src, dst in sorted(pairs) if src != dst]
    try:
        lanes_of(graph(*links))
    except SynthesisError:  # 50 and 75 GiB/s alone
        assume(False)
    return graph(*links)


def feasible(lanes, demands, steps, rounds):
    """The same question by another programme: who holds what after each step."""
    holds = [(c, v, s) for c in range(len(demands)) for v in range(lanes.num_npus) for s in range(steps + 1)]
    sends = [(c, link, s) for c in range(len(demands)) for link in range(len(lanes.src)) for s in range(steps)]
    at = {("holds", *key): number for number, key in enumerate(holds)}
    at |= {("sends", *key): len(holds) + number for number, key in enumerate(sends)}
    first_round = len(at)
    total = first_round + steps
    low, high = np.zeros(total), np.ones(total)
    low[first_round:], high[first_round:] = 1, rounds
    for c, demand in enumerate(demands):
        for v in range(lanes.num_npus):
            high[at["holds", c, v, 0]] = v == demand.source
            low[at["holds", c, v, steps]] = v in demand.targets
    rows: list[dict[int, float]] = []
    for c, v, s in holds:
        if s:  # held after a step: held before, or received in it
            row = {at["holds", c, v, s]: 1.0, at["holds", c, v, s - 1]: -1.0}
            rows.append(row | {at["sends", c, int(link), s - 1]: -1.0 for link in np.flatnonzero(lanes.dst == v)})
    for c, link, s in sends:
        rows.append({at["sends", c, link, s]: 1.0, at["holds", c, int(lanes.src[link]), s]: -1.0})
    for link in range(len(lanes.src)):
        for s in range(steps):
            row = {at["sends", c, link, s]: 1.0 for c in range(len(demands))}
            rows.append(row | {first_round + s: -float(lanes.lanes[link])})
    table = lil_array((len(rows) + 1, total))
    for number, row in enumerate(rows):
        for column, value in row.items():
            table[number, column] = value
    for s in range(steps):
        table[len(rows), first_round + s] = 1.0
    limits = LinearConstraint(table.tocsr(), -np.inf, np.append(np.zeros(len(rows)), rounds))
    found = milp(np.zeros(total), integrality=np.ones(total), bounds=Bounds(low, high), constraints=limits)
    assert found.status in (0, 2)
    return found.status == 0


@given(lanes_networks(4), st.sampled_from(SPREADING), st.integers(1, 2), st.integers(0, 1), st.integers(0, 2))
@examples(40)
def test_programmes_agree(network, name, chunks, more_steps, more_rounds):
    """Decided instances are decided alike by a programme of another form, and none is below the bound."""
    task = Task(lanes_of(network), name, 0 if name in ROOTED else None)
    chunks *= task.unit
    steps = task.least_steps + more_steps
    rounds = steps + more_rounds
    answer = feasible(task.links, task.demands(chunks), steps, rounds)
    assert (task.decide(chunks, steps, rounds) is not None) == answer
    bound = task.bound(steps)
    assert bound is not None
    if answer:
        assert Fraction(rounds, chunks) >= bound
