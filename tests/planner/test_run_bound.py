"""The bound of a whole run: below every run that was replayed, and what it is where that is known."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import chain, combinations, permutations, product
from random import Random

import numpy as np
import pytest
from helpers.command import read_json
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import planned, written

from astra_tacos import CommType, build_topology, replay_run
from astra_tacos.planner.run_bound import PIECES, allowance, run_bound
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.run.graph._order_kernels import Together, Waits, longest_ways
from astra_tacos.run.run import read_run
from astra_tacos.schedule.timing import MOST_TRUNCATED
from astra_tacos.support.units import BYTES_PER_GIB, NS_PER_S

SIZE = 1 << 20
AG, A2A = CommType.ALL_GATHER, CommType.ALL_TO_ALL


def bound_of(folder, files):
    workload = find_workload(read_run(written(folder, files)))
    return run_bound(
        workload, build_topology(workload.run.network), (CaseSolution(None),) * len(workload.cases), CONGESTION_AWARE
    )


def carry_ns(num_bytes, links=1):
    """Of links of 50 GiB/s."""
    return num_bytes / (links * 50 * BYTES_PER_GIB / NS_PER_S)


KEPT = 1 - MOST_TRUNCATED
"""Of times of messages as long as these, of which truncation takes less than a share of `MOST_TRUNCATED`."""


def test_compute_of_the_busiest_rank(tmp_path):
    ranks = [[comp(0, us=10), comp(1, us=20)], [comp(0, us=5)], [comp(0)], [comp(0)]]
    bound = bound_of(tmp_path, RunFiles(ranks=ranks))
    assert bound.parts_ns["compute"] == 30_000
    assert bound.end_ns == 30_000 and "rank 0" in bound.where


def test_one_all_to_all(tmp_path):
    """Each NPU of a switch gets 3 of 4 parts through one port."""
    bound = bound_of(tmp_path, RunFiles(ranks=[[coll(0, comm_type=A2A, size=SIZE)]] * 4, topology=("Switch",)))
    assert bound.parts_ns["cut"] == int(KEPT * carry_ns(0.75 * SIZE))
    assert bound.end_ns == pytest.approx(KEPT * (carry_ns(0.75 * SIZE) + 1000), abs=2)
    assert bound.in_step_ns >= bound.end_ns


def test_many_collectives_share_links(tmp_path):
    """They wait for nothing, so only the links are in the way: ten All-Gathers take ten times as long as one."""
    ranks = [[coll(id, comm_type=AG, size=SIZE) for id in range(10)]] * 4
    bound = bound_of(tmp_path, RunFiles(ranks=ranks, topology=("Switch",)))
    assert (
        bound.parts_ns["cut"] == bound.end_ns == int(KEPT * carry_ns(10 * 3 * SIZE))
    )  # every NPU has so many bytes for all others
    assert bound.parts_ns["path"] < bound.end_ns


def test_a_member_that_is_late(tmp_path):
    """Nobody has the sum before the last one has computed; what the others have is with it by then."""
    ranks = [[comp(0, us=100 if rank == 3 else 1), coll(1, [0], size=SIZE), comp(2, [1], us=50)] for rank in range(4)]
    bound = bound_of(tmp_path, RunFiles(ranks=ranks, topology=("Switch",)))
    assert bound.parts_ns["path"] == 150_000
    assert bound.in_step_ns > 150_000 + KEPT * carry_ns(SIZE)


@pytest.mark.parametrize("rate", [0.3, 1.0, 53.7])
def test_no_message_of_a_size_or_more_loses_more_than_what_is_allowed_for(rate):
    for least in (0.5 * rate, rate, 1.9 * rate, 7.3 * rate, 300.2 * rate):
        kept = float(allowance(np.array([least]), rate)[0])
        held = np.linspace(least, 3 * least + 10 * rate, 2000) / rate
        assert np.all(np.floor(held) >= kept * held - 1e-9)
        assert kept <= KEPT and PIECES >= 16


def test_a_message_takes_time(tmp_path):
    ranks = [[comp(0, us=7), send(1, 1, [0], size=SIZE)], [recv(0, 0, size=SIZE), comp(1, [0], us=3)]]
    bound = bound_of(tmp_path, RunFiles(ranks=ranks, topology=("Ring",)))
    assert bound.end_ns == pytest.approx(10_000 + 500 + carry_ns(SIZE), abs=1)
    run = find_workload(read_run(written(tmp_path / "again", RunFiles(ranks=ranks, topology=("Ring",))))).run
    assert 0 <= replay_run(run, CONGESTION_AWARE).end_ns - bound.end_ns <= 2


@pytest.mark.parametrize("seed", range(40))
def test_the_longest_ways_are_those_of_the_naive_twin(seed):
    source, rows, items, before = Random(seed), 0, [], []
    deps, durations, sends = {}, {}, {}
    for _ in range(source.randint(1, 12)):  # an item is a node by itself, or the members of a collective
        members = list(range(rows, rows := rows + source.choice((1, 1, 2, 4))))
        items.append(members)
        for row in members:
            deps[row] = source.sample([*before, -1], source.randint(0, min(3, len(before))))
            durations[row] = source.randint(0, 9)
            sends[row] = (source.choice(before), source.randint(0, 9)) if before and source.random() < 0.3 else (-1, 0)
        before += members
    together = [members for members in items if len(members) > 1 or source.random() < 0.3]
    least = [(source.randint(0, 1), *sorted(source.randint(0, 30) for _ in range(3))) for _ in together]

    def ready(row, ends):
        return max((ends[each] for each in deps[row] if each >= 0), default=0)

    end, in_step, ways = {}, {}, ([0], [0])
    for members in items:
        if members not in together:
            (row,) = members
            for ends, way in zip((end, in_step), ways, strict=True):
                arrived = ends[sends[row][0]] + sends[row][1] if sends[row][0] >= 0 else 0
                ends[row] = max(ready(row, ends) + durations[row], arrived)
                way.append(ends[row])
            continue
        waits, first_ns, all_ns, step_ns = least[together.index(members)]
        begun = {row: ready(row, end) for row in members}
        step = max(ready(row, in_step) for row in members) + step_ns
        for row in members:
            end[row] = max(begun[row], max(begun.values()) if waits else 0, min(begun.values()) + first_ns)
            in_step[row] = step
        ways[0].append(min(begun.values()) + all_ns)
        ways[1].append(step)

    def starts(lists):
        return np.cumsum([0, *map(len, lists)])

    order = [rows + together.index(each) if each in together else each[0] for each in items]
    of_row = [deps[row] for row in range(rows)]
    send, message = zip(*(sends[row] for row in range(rows)), strict=True)
    waiting = Waits(starts(of_row), flat(of_row), np.array(list(durations.values())), np.array(send), np.array(message))
    columns = np.array(least, np.int64).reshape(-1, 4).T
    found = longest_ways(np.array(order), waiting, Together(starts(together), flat(together), columns[0] == 1, *columns[1:]))
    assert found == (max(ways[0]), max(ways[1]))


def flat(lists):
    return np.array(list(chain.from_iterable(lists)), np.int64)


def test_a_plan_has_it(tmp_path):
    ranks = [[comp(0, us=3), coll(1, [0], size=SIZE)]] * 8
    result, _ = planned(written(tmp_path, RunFiles(ranks=ranks, topology=("Ring",))), tmp_path / "plan")
    plan = read_json(tmp_path / "plan" / "plan.json")
    assert plan["bound_ns"] == result.bound.end_ns <= result.time_ns
    assert plan["efficiency"] == result.bound.end_ns / result.time_ns > 0.5
    assert plan["bound_ns"] <= plan["in_step_ns"] <= 1.005 * result.time_ns  # which has truncated delays
    assert set(plan["bounds_ns"]) == {"compute", "cut", "path"}


def orders_of(rows, deps):
    """All orders of some nodes of a rank in which each comes after all that it depends on, by way of others as well."""

    def behind(row):
        return {each for dep in deps[row] for each in (dep, *behind(dep))}

    for order in permutations(rows):
        if not any(later in behind(earlier) for earlier, later in combinations(order, 2)):
            yield order


def least_end(ranks, took):
    """The earliest end of a run over all orders in which messages of one kind may meet, None if all of them are cycles."""
    nodes = {(rank, id): rest for rank, listed in enumerate(ranks) for id, *rest in listed}
    deps = {(rank, id): [(rank, dep) for dep in waits] for (rank, id), (_, waits, _) in nodes.items()}
    kinds = [[key for key in nodes if key[0] == rank and nodes[key][0] is make] for make in (send, recv) for rank in (0, 1)]
    ends = []
    for *sent, first_received, second_received in product(*(list(orders_of(kind, deps)) for kind in kinds)):
        source = dict(zip(second_received + first_received, sent[0] + sent[1], strict=True))
        waits = {key: [*deps[key], *([source[key]] if key in source else [])] for key in nodes}
        end = {}
        try:
            for key in TopologicalSorter(waits).static_order():
                ready = max((end[dep] for dep in deps[key]), default=0)
                end[key] = max(ready + nodes[key][2] * 1000, end[source[key]] + took if key in source else 0)
        except CycleError:
            continue
        ends.append(max(end.values()))
    return min(ends, default=None)


@pytest.mark.parametrize("seed", range(80))
def test_a_path_holds_in_whatever_order_messages_of_one_kind_meet(seed, tmp_path):
    source, ranks = Random(seed), []
    counts = [source.randint(0, 3), source.randint(0, 2)]
    for rank in (0, 1):
        made = [send] * counts[rank] + [recv] * counts[1 - rank] + [comp] * source.randint(1, 4)
        source.shuffle(made)
        listed = []
        for id, make in enumerate(made):
            deps = source.sample(range(id), source.randint(0, min(2, id)))
            listed.append((id, make, deps, source.randint(1, 40) if make is comp else 0))
        ranks.append(listed)
    files = [
        [make(id, deps, us=us) if make is comp else make(id, 1 - rank, deps, size=SIZE) for id, make, deps, us in listed]
        for rank, listed in enumerate(ranks)
    ]
    bound = bound_of(tmp_path, RunFiles(ranks=files, topology=("Ring",), npus=(2,)))
    least = least_end(ranks, int(500 + carry_ns(SIZE)))
    if least is not None:
        assert bound.parts_ns["path"] <= least
        if max(counts) <= 1:
            assert bound.parts_ns["path"] == least


def test_messages_in_a_chain_are_certain_and_a_receive_by_itself_waits_for_the_first(tmp_path):
    """Three sends in a row: receives in a row meet them one by one, receives by themselves wait for the first."""
    sends = [comp(0, us=10), send(1, 1, [0], size=SIZE), comp(2, [1], us=10), send(3, 1, [2], size=SIZE)]
    in_a_row = [recv(0, 0, size=SIZE), recv(1, 0, [0], size=SIZE), comp(2, [1], us=5)]
    alone = [recv(0, 0, size=SIZE), recv(1, 0, size=SIZE), comp(2, [1], us=5)]
    found = [
        bound_of(tmp_path / name, RunFiles(ranks=[sends, receives], topology=("Ring",), npus=(2,))).parts_ns["path"]
        for name, receives in (("row", in_a_row), ("alone", alone))
    ]
    took = 500 + carry_ns(SIZE)
    assert found == [pytest.approx(25_000 + took, abs=1), pytest.approx(15_000 + took, abs=1)]
