"""The synthesizer `optimal`: legal on all networks that it takes, and its programmes against others that say the same."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import dgx1, graph, topology
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array

from astra_tacos.bounds import lower_bound
from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.errors import AstraTacosError, SynthesisError
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import LINK_MODELS, compute_timing
from astra_tacos.schedule.work_meter import metered
from astra_tacos.solver.synthesize import synthesize
from astra_tacos.synthesizer import SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.algorithms import optimal as algorithm
from astra_tacos.synthesizer.rounds.frontier import Task
from astra_tacos.synthesizer.rounds.lanes import Demand, Lanes, lanes_of
from astra_tacos.topology.topology import Topology
from astra_tacos.verifier.schedule_oracle import verify

SPREADING = ("all-gather", "broadcast", "gather", "scatter", "all-to-all")


@st.composite
def lanes_networks(draw: st.DrawFn, most: int = 5) -> Topology:
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


@given(lanes_networks(), st.sampled_from(sorted(COLLECTIVES)), st.sampled_from(LINK_MODELS), st.data())
@examples(25)
def test_any_small_network(network: Topology, name: str, model, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, network.num_npus - 1)) if name in ROOTED else None
    what = make_collective(name, network.num_npus, data.draw(st.integers(50_000, 1 << 20)), 3, root)
    rate = data.draw(st.sampled_from((0.0, 10.0)))
    of = synthesize(network, what, synthesizer="optimal", link_model=model, reduce_bandwidth_gbps=rate)
    assert verify(of) == () and of.synthesizer == "optimal"
    assert (of.collective.name, of.collective.size_bytes, of.collective.root) == (name, what.size_bytes, root)
    assert replay_schedule(of).collective_time_ns == of.collective_time_ns
    assert exact_time_ns(of) >= lower_bound(network, of.collective, of.timing).time_ns * (1 - 1e-6)


def feasible(lanes: Lanes, demands: list[Demand], steps: int, rounds: int) -> bool:
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
def test_programmes_agree(network: Topology, name: str, chunks: int, more_steps: int, more_rounds: int) -> None:
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


def test_counts_do_not_depend_on_what_is_kept() -> None:
    network = dgx1()
    what = make_collective("scatter", 8, 1 << 20, 1, 0)
    timing = compute_timing(network, what, "pipelined")
    entry = SYNTHESIZERS["optimal"]
    algorithm._algorithms.cache_clear()
    (first, work), (again, same) = (metered(lambda: entry.make(network, what, timing, 0)) for _ in range(2))
    assert work == same > 0
    assert first.start_ns.tobytes() == again.start_ns.tobytes() and first.chunk.tobytes() == again.chunk.tobytes()


def test_few_bytes_get_few_chunks() -> None:
    """Of the two algorithms of the frontier, the one with fewer steps is for small messages: see `test_rounds`."""
    found = {}
    for size in (16 << 10, 1 << 20):
        what = make_collective("gather", 8, size, 1, 0)
        found[size] = synthesize(dgx1(), what, synthesizer="optimal", link_model="pipelined").collective.chunks_per_npu
    assert found[16 << 10] <= found[1 << 20]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (topology(("Switch", 4, 50.0, 500.0)), "has switches, expected a network of at most 10 NPUs"),
        (topology(("Ring", 11, 50.0, 500.0)), "has 11 NPUs, expected a network of at most 10 NPUs"),
        (topology(("Ring", 3, 50.0, 500.0), ("Ring", 3, 50.0, 100.0)), "has latencies of 100 to 500 ns, expected a network"),
    ],
)
def test_other_networks_are_refused(network: Topology, message: str) -> None:
    with pytest.raises(SynthesisError, match=f"optimal: {message}"):
        synthesize(network, make_collective("all-gather", network.num_npus, 1 << 20), synthesizer="optimal")


def test_large_programmes_are_refused() -> None:
    network = topology(("Mesh", 10, 50.0, 500.0))
    with pytest.raises(SynthesisError, match=r"optimal: needs 3,648 variables, expected a programme of at most 1,200"):
        synthesize(network, make_collective("all-to-all", 10, 1 << 20), synthesizer="optimal")


def test_chunks_that_are_too_small_are_refused() -> None:
    with pytest.raises(AstraTacosError):
        synthesize(dgx1(), make_collective("all-gather", 8, 1), synthesizer="optimal", link_model="pipelined")


def test_auto_does_without_it() -> None:
    assert "optimal" not in auto_synthesizers()
