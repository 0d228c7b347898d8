"""The portfolio: what it tries, when it stops, and that it is never worse than its members."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from random import Random
from time import sleep

import pytest
from helpers.examples import examples, refused, some_of
from helpers.networks import ALL, topologies, topology
from helpers.schedules import column_bytes
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds import chunked_lower_bound, lower_bound
from astra_tacos.collective import COLLECTIVES, ROOTED, cut_into, make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.devices import ForwardingDevice
from astra_tacos.network.fabric.kinds import make_fabric
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.schedule.link_use import Allowance, OutOfWorkError, count_work, metered
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.solve import synthesize
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.search.candidates import Candidate, Cut, TimedSchedule, list_candidates, timed
from astra_tacos.synthesizer.search.leaderboard import Leaderboard
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import EFFORTS, SearchOptions
from astra_tacos.synthesizer.work import parse_budget
from astra_tacos.verifier.schedule_oracle import verify

MIB = 1 << 20
UNLIMITED = 1 << 60
MIXED = topology(*ALL["mixed"])
REDUCED = COLLECTIVES["all-reduce"](MIXED.num_npus, MIB)
SMALL = SearchOptions(chunks_per_npu="auto", max_sends=10_000, trials=3, budget=UNLIMITED)


PAIRS = [
    (network, collective, row < 2)
    for row, network in enumerate(("torus", "mesh", "mixed", "switch"))
    for column, collective in enumerate(COLLECTIVES)
    if (row + column) % 4 == 0
]
"""Each collective on one of the networks; on two of these cut into other numbers of chunks, on the others not."""


@pytest.mark.parametrize("network, collective, recut", PAIRS)
def test_no_worse_than_any_member_alone(network, collective, recut):
    where = topology(*ALL[network])
    what = COLLECTIVES[collective](where.num_npus, MIB, 2)
    options = replace(SMALL, chunks_per_npu="auto" if recut else None, max_sends=4_000, trials=2)
    tolerance = 1 / EFFORTS["normal"].worth  # what may gain less is not tried
    best = search(where, what, options)
    assert verify(best.schedule) == ()
    for name in auto_synthesizers():
        if name in best.refusals:
            continue
        alone = search(where, what, replace(options, synthesizer=name))
        # Of schedules that truncation makes faster than links are, one has to be 5% faster.
        handicap = 1.05 if timed(alone.schedule).is_truncated else 1.0
        assert best.exact_ns <= alone.exact_ns * tolerance * handicap, name


def test_the_first_candidate_is_finished_whatever_the_budget():
    cut_off = search(MIXED, REDUCED, SearchOptions(budget=1, chunks_per_npu="auto"))
    assert cut_off.was_cut_off
    assert cut_off.num_tried == 1
    assert verify(cut_off.schedule) == ()
    assert cut_off.schedule.collective.chunks_per_npu == 1
    whole = search(MIXED, REDUCED, SearchOptions(budget=200_000, chunks_per_npu="auto"))
    assert whole.num_tried > 1
    assert whole.schedule.collective_time_ns <= cut_off.schedule.collective_time_ns


def test_it_ends_where_nothing_can_be_faster():
    where = topology(*ALL["full"])
    what, options = COLLECTIVES["all-gather"](where.num_npus, MIB), SearchOptions(trials=30, budget=UNLIMITED)
    found = search(where, what, options, without=("symmetric",))
    bound = chunked_lower_bound(Problem(where, found.schedule.collective, found.schedule.timing)).time_ns
    assert found.schedule.collective_time_ns == bound
    assert found.num_candidates >= 30
    assert found.num_tried <= len(SYNTHESIZERS)
    assert not found.was_cut_off


def test_refusals_are_told_and_skipped(monkeypatch):
    def breaks(*_):
        raise SynthesisError("broke on the way")

    entry = SYNTHESIZERS["tacos"]
    monkeypatch.setitem(SYNTHESIZERS, "proud", replace(entry, refusal=lambda *_: "wants another network"))
    monkeypatch.setitem(SYNTHESIZERS, "narrow", replace(entry, collectives=frozenset({"all-gather"})))
    monkeypatch.setitem(SYNTHESIZERS, "brittle", replace(entry, make=breaks))
    monkeypatch.setitem(SYNTHESIZERS, "slow", replace(entry, work=lambda *_: 10**12))
    found = search(MIXED, REDUCED, SearchOptions(trials=2, budget=10**8))
    assert found.refusals["proud"] == "wants another network"
    assert found.refusals["narrow"] == "does all-gather, not all-reduce"
    assert found.refusals["brittle"] == "broke on the way"
    assert "takes about 1,000,000,000,000 sends examined, more than the rest of the budget" in found.refusals["slow"]
    assert verify(found.schedule) == ()
    for name in ("proud", "narrow", "brittle"):
        with refused(f"all-reduce on test: {name}: {found.refusals[name]}", SynthesisError):
            synthesize(MIXED, REDUCED, synthesizer=name)
    assert synthesize(MIXED, REDUCED, synthesizer="slow", trials=1, budget=10**6).num_sends  # the only one: it is tried


def test_a_synthesizer_may_stay_out_of_auto(monkeypatch):
    calls = []

    def spied(*arguments):
        calls.append(arguments)
        return entry.make(*arguments)

    entry = SYNTHESIZERS["ring"]
    monkeypatch.setitem(SYNTHESIZERS, "shy", replace(entry, make=spied, in_auto=False))
    where = topology(*ALL["ring8"])
    what = COLLECTIVES["all-reduce"](where.num_npus, MIB)
    found = search(where, what, SearchOptions(trials=1))
    assert not calls and "shy" not in found.refusals and "shy" not in auto_synthesizers()
    assert verify(synthesize(where, what, synthesizer="shy")) == () and calls
    monkeypatch.setitem(SYNTHESIZERS, "shy", replace(entry, make=spied))
    assert "shy" in auto_synthesizers()


def cuts_of(where, collective, counts):
    cuts = []
    for count in counts:
        what = COLLECTIVES[collective](where.num_npus, MIB, count)
        timing = compute_timing(where, what, "pipelined")
        chunked = chunked_lower_bound(Problem(where, what, timing)).time_ns
        cuts.append(Cut(Problem(where, what, timing), 0, partial(int, chunked), is_smallest=count == counts[0], is_fixed=False))
    return cuts


def test_the_work_list_is_cheap_first_and_seeds_last():
    where = topology(*ALL["torus"])
    cuts = cuts_of(where, "all-gather", (1, 2, 3, 4))
    candidates, refusals = list_candidates(
        where, cuts, dict.fromkeys(SYNTHESIZERS, 0) | {"ring": 2}, SearchOptions(trials=3, seed=7)
    )
    assert [(c.stage, c.work) for c in candidates] == sorted((c.stage, c.work) for c in candidates)
    stages = [[c for c in candidates if c.stage == stage] for stage in range(4)]
    assert [{c.cut.problem.collective.chunks_per_npu for c in stage} for stage in stages] == [{1, 2, 4}, {2}, {3}, {1, 2, 3, 4}]
    assert [c.synthesizer for c in stages[1] if c.is_advised] == ["ring"]
    assert all((c.trial > 0) == (c.stage == 3) for c in candidates)
    assert {c.synthesizer for c in stages[0]} | set(refusals) == set(SYNTHESIZERS)
    assert {c.seed for c in candidates if c.synthesizer == "tacos"} == {7, 8, 9}


def candidate(cut, trial=0, name="tacos", **more):
    return Candidate(name, cut, trial, trial, 1.0, **more)


def race(effort, *counts):
    """A leaderboard, cuts into so many chunks, and how a schedule of some time and load is entered."""
    where = topology(*ALL["ring8"])
    schedule = synthesize(where, COLLECTIVES["all-gather"](8, MIB), synthesizer="tacos", trials=1)
    board = Leaderboard(16, EFFORTS[effort])

    def enter(one, time, load=0.0):
        late = replace(schedule, end_ns=schedule.end_ns * 0 + time)
        board.enter(one, TimedSchedule(late, time, False, load))

    return board, [replace(cut, chunked_bound=lambda: 1) for cut in cuts_of(where, "all-gather", counts)], enter


def test_more_chunks_and_more_seeds_only_where_they_promise_something():
    board, cuts, enter = race("thorough", 1, 2, 4, 8, 16, 3, 12)
    *_, last, three, twelve = cuts
    for cut, time in zip(cuts, (1000, 900, 901), strict=False):
        assert not board.passes_over(candidate(cut))
        enter(candidate(cut), time)
    assert not board.passes_over(candidate(cuts[3]))
    enter(candidate(cuts[3]), 899)
    for passed, one in (
        (True, candidate(last)),  # two steps have gained next to nothing
        (False, candidate(last, name="other")),
        (True, candidate(three)),  # it is next to 4, but 8 is the best
        (False, candidate(twelve)),
        (False, candidate(three, is_advised=True)),
        (True, candidate(cuts[0], 1)),
        (False, candidate(cuts[1], 1)),
        (True, candidate(replace(cuts[1], bound_ns=899), name="other")),
        (True, candidate(replace(cuts[1], chunked_bound=lambda: 899), name="other", by_chunk=True)),
    ):
        assert board.passes_over(one) == passed, one
    assert board.best.exact_ns == 899


def test_numbers_in_between_wait_for_the_advised_one():
    """They are next to the best number so far: were both under way at a time, threads would say which are tried."""
    board, (one, eight, twelve), enter = race("thorough", 1, 8, 12)
    advised, between = candidate(eight, is_advised=True), candidate(twelve)
    enter(candidate(one), 1000)
    assert board.passes_over(between)
    enter(advised, 900)
    assert not board.passes_over(between)
    assert between.stage > advised.stage


@pytest.mark.parametrize(
    "effort, loads, passed",
    [
        ("normal", (800.0, 799.0), True),
        ("normal", (900.0, 799.0), False),  # the load goes down
        ("normal", (600.0, 600.0), False),  # it leaves time to be faster
        ("thorough", (800.0, 799.0), False),
    ],
)
def test_a_steady_load_ends_a_series(effort, loads, passed):
    board, cuts, enter = race(effort, 1, 2, 4)
    enter(candidate(cuts[0], name="direct"), 700, 650.0)
    for cut, load, time in zip(cuts, loads, (2000, 1200), strict=False):
        enter(candidate(cut), time, load)
    assert board.passes_over(candidate(cuts[2])) == passed


def test_seeds_that_hardly_differ_end_a_series():
    board, (cut,), enter = race("thorough", 1)
    enter(candidate(cut, name="direct"), 700, 650.0)
    for trial, time in enumerate((710, 712, 711, 709, 730)):
        seed = candidate(cut, trial, "routed")
        assert board.passes_over(seed) == (trial == 4)
        enter(seed, time, 1.0)
    assert not board.passes_over(candidate(cut, 5, "routed"))


def test_budgets_as_texts():
    for text, sends in {"20M": 20_000_000, "10": 10_000_000, " 1.5k ": 1500, "1G": 10**9, ".5s": 500_000}.items():
        assert parse_budget(text) == sends
    for text in ["", "9" * 30, "1 x", "0", "-1", "nan", "inf", "1m", "1e99", "0.1e-9", "\N{ARABIC-INDIC DIGIT ONE}s"]:
        expected = r"^--budget: found .*, expected sends examined such as 20M, or seconds such as 10s$"
        with refused(expected):
            parse_budget(text, "--budget")


def test_cut_into_changes_nothing_but_the_cut():
    for name in COLLECTIVES:
        what = make_collective(name, 6, 1000, 1, 3 if name in ROOTED else None)
        other = cut_into(what, 5)
        assert (other.name, other.num_npus, other.size_bytes, other.root) == (name, 6, 1000, what.root)
        assert other.chunks_per_npu == 5
        assert other.buffer_bytes == what.buffer_bytes
    with refused("at least one byte per chunk"):
        cut_into(COLLECTIVES["all-gather"](4, 3), 4)


def test_what_parts_count_is_the_work_of_their_schedule():
    def make():
        count_work(2.5)
        assert metered(lambda: count_work(100)) == (None, 100)
        count_work(3)
        return "made"

    assert metered(make) == ("made", 5)
    assert metered(lambda: "counts nothing") == ("counts nothing", 0)
    timing = compute_timing(MIXED, REDUCED, "pipelined")
    for name, entry in SYNTHESIZERS.items():
        if entry.why_not(MIXED, REDUCED) is None:
            counts = {metered(lambda make=entry.make: make(Problem(MIXED, REDUCED, timing), 1))[1] for _ in range(3)}
            assert len(counts) == 1, name
            assert counts.pop() > 0, name


@examples(8)
@given(network=topologies(), data=st.data())
def test_neither_threads_nor_the_clock_decide_what_fits_into_a_budget(network, data):
    name = data.draw(st.sampled_from(("all-reduce", "all-gather", "all-to-all")))
    what = COLLECTIVES[name](network.num_npus, data.draw(st.integers(50_000, MIB)))
    budget = data.draw(st.sampled_from((1, 3_000, 30_000, 300_000)))
    options = SearchOptions(chunks_per_npu="auto", max_sends=3_000, trials=3, seed=data.draw(st.integers(0, 9)), budget=budget)
    pauses = data.draw(st.lists(st.sampled_from((0.0, 0.003)), min_size=7, max_size=7))
    turn = itertools.count()

    def slowly(make):
        def made(*arguments):
            sleep(pauses[next(turn) % len(pauses)])
            return make(*arguments)

        return made

    one = search(network, what, replace(options, threads=1))
    with pytest.MonkeyPatch.context() as patch:
        for key, entry in SYNTHESIZERS.items():
            patch.setitem(SYNTHESIZERS, key, replace(entry, make=slowly(entry.make)))
        other = search(network, what, replace(options, threads=3))
    assert other.describe() == one.describe()
    assert column_bytes(other.schedule) == column_bytes(one.schedule)


def test_a_candidate_that_does_not_fit_is_passed_over_and_cheaper_ones_are_not(monkeypatch):
    monkeypatch.setitem(SYNTHESIZERS, "routed", replace(SYNTHESIZERS["routed"], work=lambda *_: 10**9))
    found = search(MIXED, REDUCED, SearchOptions(trials=2, budget=10**8))
    assert found.was_cut_off
    assert "routed" in found.refusals
    monkeypatch.delitem(SYNTHESIZERS, "routed")
    assert column_bytes(found.schedule) == column_bytes(search(MIXED, REDUCED, SearchOptions(trials=2, budget=10**8)).schedule)


def test_an_estimate_is_corrected_by_what_the_last_candidate_counted(monkeypatch):
    entry = SYNTHESIZERS["tacos"]

    def thorough(*arguments):
        count_work(1000)
        return entry.make(*arguments)

    monkeypatch.setitem(SYNTHESIZERS, "tacos", replace(entry, make=thorough, work=lambda *_: 10))
    where = topology(*ALL["mesh"])
    what = COLLECTIVES["all-gather"](where.num_npus, MIB, 2)
    found = search(where, what, SearchOptions("tacos", trials=20, budget=3500))
    assert found.work // found.num_tried >= 1000  # the first one is told to be a thousand times as much
    assert found.num_tried <= 3
    assert found.was_cut_off


def test_a_candidate_that_examines_more_than_is_left_is_stopped(monkeypatch):
    """Its estimate is far too small: it is begun, but not finished; without a budget that was asked for it is."""
    entry, counted = SYNTHESIZERS["ring"], []

    def endless(*arguments):
        schedule = entry.make(*arguments)
        for done in range(1000):
            count_work(1_000_000)
            counted.append(done)
        return schedule

    monkeypatch.setitem(SYNTHESIZERS, "ring", replace(entry, make=endless, work=lambda *_: 10_000))
    where = topology(*ALL["ring8"])
    what = COLLECTIVES["broadcast"](8, MIB)
    found = [search(where, what, SearchOptions(trials=2, budget=4_000_000, threads=threads)) for threads in (1, 3)]
    assert found[0].describe() == found[1].describe()
    assert found[0].was_cut_off
    assert 0 < len(counted) < 2 * 5
    counted.clear()
    search(where, what, SearchOptions(trials=2))
    assert len(counted) == 1000


def test_checks_of_the_result_are_a_part_of_a_budget():
    where = topology(*ALL["mixed"])
    what = COLLECTIVES["all-reduce"](where.num_npus, 64 * MIB)
    options = SearchOptions(chunks_per_npu="auto", max_sends=20_000, budget=150_000)
    alone, judged = search(where, what, options), search(where, what, options, work_after=10.0)
    assert judged.was_cut_off
    assert judged.work + 10 * judged.schedule.num_sends <= 1.25 * 150_000
    assert judged.schedule.num_sends < alone.schedule.num_sends


def test_what_is_dropped_is_stopped():
    allowance = Allowance(10)
    count, done = iter(range(100)), []

    def make():
        for at in count:
            done.append(at)
            allowance.most = 10 if at < 3 else -1
            count_work(0)

    with pytest.raises(OutOfWorkError):
        metered(make, allowance)
    assert done == [0, 1, 2, 3]


def test_estimates_are_near_what_parts_count():
    """Else a search would begin what its budget is far too small for: trees through switches look again for every member."""
    for dimensions, collective, chunks in (
        ("Switch 24", "all-reduce", 1),
        ("Ring 6 200, Switch 6", "all-reduce", 1),
        ("Ring 6 200, Ring 6", "all-gather", 4),
        ("Mesh 5, Mesh 5", "all-to-all", 2),
    ):
        where = topology(dimensions)
        what = COLLECTIVES[collective](where.num_npus, MIB, chunks)
        timing = compute_timing(where, what, "pipelined")
        for name, entry in SYNTHESIZERS.items():
            if entry.why_not(where, what) is None:
                counted = metered(partial(entry.make, Problem(where, what, timing), 0))[1]
                assert counted <= 6 * entry.work(where, what), (name, where.num_npus)


def test_a_time_limit_says_when_it_struck(monkeypatch):
    options = SearchOptions(chunks_per_npu="auto", max_sends=3_000, trials=2)
    struck = search(MIXED, REDUCED, replace(options, time_limit_s=1e-9))
    assert struck.num_tried == 1  # the first candidate is made whatever it takes
    assert struck.ran_out_of_time
    assert struck.describe()["cut_off_by_time_limit"]
    assert not struck.was_cut_off
    free, limited = search(MIXED, REDUCED, options), search(MIXED, REDUCED, replace(options, time_limit_s=1e6))
    assert not limited.ran_out_of_time
    assert limited.describe() == free.describe()
    assert column_bytes(limited.schedule) == column_bytes(free.schedule)


def test_trials_are_as_many_as_a_work_list_can_have():
    """Limits are asked for once the list is there, so that the list has to be short."""
    assert SearchOptions(trials=1000).trials == 1000
    with refused("trials: found 1000000, expected 1 to 1,000"):
        SearchOptions(trials=1_000_000)


def share_of_bound(network, name, size):
    """What any algorithm needs over the time of the default search."""
    what = make_collective(name, network.num_npus, size, 1, members=network.endpoints)
    found = search(network, what, SearchOptions(chunks_per_npu="auto", link_model="pipelined"))
    return lower_bound(Problem(network, what, found.schedule.timing)).time_ns / found.exact_ns


def four_switches(npus=8, planes=(4, 5, 5, 4)):
    """NPUs with links to four switches, more to some than to others, and to a CPU, as in an H100 node."""
    speeds = [58.7, *(23.283 * links for links in planes)]
    pairs = [(npu, npus + device, speed) for npu in range(npus) for device, speed in enumerate(speeds)]
    links = tuple(LinkSpec(*ends, speed, 500.0) for npu, device, speed in pairs for ends in ((npu, device), (device, npu)))
    return build_topology(NetworkConfig("x", links=links, forwarding=(ForwardingDevice(),) * 5), may_forward=True)


@pytest.mark.parametrize("mib", some_of([13, 68, 64], 1))
def test_no_size_falls_off_on_four_switches(mib):
    """Where a schedule gets too dear for what cheaper families left of the budget, it is made nevertheless."""
    assert share_of_bound(four_switches(), "all-gather", mib * MIB) > 0.98


GRAPHS = (
    *("leaf-spine", "fat-tree", "rails", "dragonfly", "hxmesh"),
    *(f"{kind} of one node" for kind in ("dgx-a100", "dgx-h100", "mi250")),
)


@pytest.mark.parametrize("name", some_of(GRAPHS, 4))
def test_no_size_falls_off_on_graphs(name):
    kind, _, of_one_node = name.partition(" ")
    network = build_topology(make_fabric(kind, **({"nodes": 1} if of_one_node else {})), may_forward=True)
    sizes = Random(name).sample(range(24, 128), 2)
    shares = [share_of_bound(network, "all-gather", mib * MIB) for mib in sizes]
    assert min(shares) > 0.97 and min(shares) > 0.99 * max(shares)


MESHES = (
    ("Mesh 10 50, Switch 2 50", 128, 0.97),
    ("Mesh 4 50, Switch 5 25", 128, 0.94),
    ("Mesh 6 100, Mesh 3 50", 305, 0.97),
    ("Ring 7 50, Mesh 3 100", 386, 0.96),
    ("Mesh 7 100, FullyConnected 3 25", 65, 0.97),
)
"""Products with a mesh, MiB, and the share of the bound that the default reaches at least: trees need many chunks there."""


@pytest.mark.parametrize("dimensions, mib, least", some_of(MESHES, 2))
def test_what_promises_to_lead_gets_its_chunks_on_meshes(dimensions, mib, least):
    assert share_of_bound(topology(dimensions), "all-reduce", mib * MIB) > least
