"""Bounds over all algorithms: below all schedules up to truncation, and equal to known optima, or to those of brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import ALL, dgx1, graph, topologies, topology
from helpers.schedules import goes_by_chunk, root_of, schedules
from helpers.truncation import kept_by_truncation
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds import BOUNDS, CHUNKED_BOUNDS, all_bounds, chunked_lower_bound, lower_bound
from astra_tacos.bounds.any_algorithm.carrying import smallest_times_ns, whole_ns
from astra_tacos.bounds.certificate import certify, efficiency_of, is_optimal
from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED, make_collective
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import LINK_MODELS, compute_timing
from astra_tacos.solver.solve import synthesize
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS

GIB = 1 << 30


def bound_of(network, collective, size, model="pipelined", **options):
    what = make_collective(collective, network.num_npus, size, **options)
    return lower_bound(Problem(network, what, compute_timing(network, what, model)))


def check_above(of):
    """The documented slack: what truncation leaves of the chunks, and 1 ns."""
    kept = kept_by_truncation(of.topology, of.timing, of.collective.class_size_bytes)
    assert 0 < kept <= 1
    for bound in all_bounds(of.problem):
        assert of.collective_time_ns >= int(kept * bound.time_ns) - 1, bound
    for chunked in CHUNKED_BOUNDS.values() if goes_by_chunk(of) else ():
        assert of.collective_time_ns >= chunked(of.problem).time_ns


@examples(10)
@given(schedules(most_npus=12))
def test_no_schedule_is_faster_than_any_bound(of):
    check_above(of)
    certificate = certify(of)
    assert certificate["efficiency"] is None or 0 < certificate["efficiency"] <= 1


@examples(10)
@given(data=st.data())
def test_nor_is_any_synthesizer_on_small_messages_and_groups(data):
    """Also where chunks are so small that truncation takes a large part of them."""
    network = data.draw(topologies(most_npus=9))
    name = data.draw(st.sampled_from(sorted(COLLECTIVES)))
    members = None
    if network.num_npus > 2 and data.draw(st.booleans()):
        some = st.lists(st.integers(0, network.num_npus - 1), min_size=2, max_size=network.num_npus - 1, unique=True)
        members = sorted(data.draw(some))
    root = root_of(data, name, members or range(network.num_npus))
    size = data.draw(st.sampled_from((997, 4096, 60_000, 1 << 20)))
    what = make_collective(name, network.num_npus, size, data.draw(st.integers(1, 4)), root, members)
    able = [each for each, entry in SYNTHESIZERS.items() if entry.why_not(network, what) is None]
    if not able:
        return
    options = {"synthesizer": data.draw(st.sampled_from(able)), "link_model": data.draw(st.sampled_from(LINK_MODELS))}
    try:
        check_above(synthesize(network, what, trials=1, seed=data.draw(st.integers(0, 99)), **options))
    except SynthesisError:  # a chunk takes less than 1 ns
        return


@pytest.mark.parametrize("model", LINK_MODELS)
@examples(20)
@given(network=topologies(), data=st.data())
def test_the_bound_does_not_depend_on_chunks(model, network, data):
    name = data.draw(st.sampled_from(sorted(COLLECTIVES)))
    size = network.num_npus * 6 * data.draw(st.integers(1_000, 100_000))
    times = {bound_of(network, name, size, model, chunks_per_npu=chunks).time_ns for chunks in (1, 2, 6)}
    assert len(times) == 1


# Each at the most by which a schedule can be cut finer: latency, and then bandwidth alone.
PIPELINED = [
    # A ring of 16, 1 KiB: eight hops, and the buffer over both links.
    ("Ring 16", "all-reduce", 1024, 4000 + 1024 / (2 * 53.6870912)),
    ("Ring 16", "all-gather", 1 << 16, 500 + 15 * (1 << 16) / (2 * 53.6870912)),
    ("Ring 16", "broadcast", 1 << 20, 4000 + (1 << 20) / (2 * 53.6870912)),
    ("FullyConnected 8", "all-gather", 1 << 16, 500 + (1 << 16) / 53.6870912),
    # From an NPU to another over their link; what takes another way comes 500 ns later, over six links.
    ("FullyConnected 8", "all-reduce", 1024, 500 + 1024 / 53.6870912),
    ("Switch 8", "all-reduce", 1024, 1000 + 2 * 7 / 8 * 1024 / 53.6870912),
    ("Switch 8", "reduce-scatter", 1 << 20, 1000 + 7 / 8 * (1 << 20) / 53.6870912),
    ("Ring 4, Ring 4", "all-to-all", 1 << 26, 500 + 625_000),
]


@pytest.mark.parametrize("dimensions, collective, size, time", PIPELINED)
def test_by_hand(dimensions, collective, size, time):
    network = topology(dimensions)
    assert bound_of(network, collective, size).time_ns == int(time)
    assert bound_of(network, collective, size, "blocking").time_ns >= int(time)


@examples(20)
@given(data=st.data())
def test_what_links_carry_by_that_time_is_the_amount(data):
    count = data.draw(st.integers(1, 12))
    number = st.floats(0.1, 1e3)
    rate, offset = (np.array(data.draw(st.lists(number, min_size=count, max_size=count))) for _ in range(2))
    group = np.array(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    amount = np.array([data.draw(number) for _ in range(3)])
    times = smallest_times_ns(group, rate, offset, amount)
    for which in range(3):
        mine = group == which
        if not mine.any():
            assert times[which] == np.inf
            continue
        assert (rate[mine] * np.maximum(times[which] - offset[mine], 0)).sum() == pytest.approx(amount[which])


def test_times_are_rounded_down_but_not_below_whole_numbers():
    assert [whole_ns(time) for time in (0.0, 1.9, 2.0, 3 - 1e-13, 3 + 1e-13, 1e12 - 0.5)] == [0, 1, 2, 3, 3, 999_999_999_999]


FLUID = """
    dgx1: all-gather 2916.7, all-reduce 5833.3
    Hypercube 16 50 0: all-to-all 10000
    Ring 4 50 0, Ring 4 50 0: all-gather 4687.5, all-reduce 9375, all-to-all 10000 volume
    Ring 8 50 0, Ring 8 50 0: all-gather 4921.9, all-reduce 9843.8, all-to-all 20000 volume
    Ring 8 50 0, Ring 8 50 0, Ring 8 50 0: all-to-all 20000 volume
    Mesh 4 50 0, Mesh 4 50 0: all-gather 9375, all-reduce 12500, broadcast 10000, all-to-all 20000 cut
    Mesh 8 50 0, Mesh 8 50 0: all-gather 9843.8, all-reduce 11250, all-to-all 40000 cut
    Ring 4 50 0, Ring 4 25 0: all-gather 6250, all-reduce 12500
    Ring 8 50 0, Ring 8 25 0: all-gather 6562.5, all-reduce 13125
    Ring 2 200 0, FullyConnected 4 100 0, Switch 8 50 0: all-gather 2187.5, reduce-scatter 2187.5, all-reduce 4375
    Ring 8 200 0, FullyConnected 8 100 0, Switch 8 50 0: all-reduce 1735.734
    Switch 8 300 0, Switch 4 25 0: all-gather 3750, reduce-scatter 3750, all-reduce 7500, reduce 5000
    Switch 16 50 0: all-to-all 18750 ingress
    FullyConnected 16 50 0: all-to-all 1250 ingress
    Ring 8 50 0: scatter 8750 egress, gather 70000 ingress
"""
"""Optima of 1 GiB (gathered, or of each NPU) in us, and for some the chunked bound that has them."""


@pytest.mark.parametrize("line", FLUID.strip().splitlines())
def test_optima_that_are_known(line):
    dimensions, optima = line.strip().split(": ")
    network = dgx1(50.0, 0.0) if dimensions == "dgx1" else topology(dimensions)
    for optimum in optima.split(", "):
        collective, microseconds, *name = optimum.split()
        size = GIB // network.num_npus if collective == "all-gather" else GIB
        time = float(microseconds)
        if network.num_npus <= 64:
            assert bound_of(network, collective, size).time_ns / 1000 == pytest.approx(time, rel=1e-4)
        # In many small chunks: within two chunks' time of the fluid limit.
        chunks = 16384 if collective in ROOTED else 16384 // network.num_npus
        if collective in PERSONALISED:
            chunks = 1 if network.num_npus > 64 else 8
        what = make_collective(collective, network.num_npus, size, chunks)
        bound = chunked_lower_bound(Problem(network, what, compute_timing(network, what, "blocking")))
        assert bound.time_ns / 1000 == pytest.approx(time, rel=1e-4 if name else 3e-3)
        assert name in ([], [bound.name])


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_bounds_say_where(name):
    for dimensions in ALL.values():
        network = topology(*dimensions)
        for collective in COLLECTIVES:
            what = make_collective(collective, network.num_npus, 1 << 20)
            bound = BOUNDS[name](Problem(network, what, compute_timing(network, what, "blocking")))
            assert bound.name == name and bound.where
            is_for = {"flow": collective in PERSONALISED, "rounds": dimensions[0][3] > 0}
            assert (bound.time_ns > 0) == is_for.get(name, True)


# Information, exactly: who can know what when, by brute force over sets.


def naive_rounds(network, what):
    """The least time by which messages through single ports let every NPU know of all, without limits of bandwidth.

    Breadth-first over what every NPU knows, one exchange of any disjoint messages at a time: for networks of equal latency.
    """
    senders = network.channel_src.tolist()
    receivers = network.channel_dst.tolist()
    ports = [{int(a), int(b)} - {-1} for a, b in zip(network.channel_link, network.channel_down_link, strict=True)]
    everyone = (1 << network.num_npus) - 1
    states = {tuple(1 << npu for npu in range(network.num_npus))}
    count = 0

    def exchanges(at, busy, known, new):
        if at == len(senders):
            return {tuple(new)}
        found = exchanges(at + 1, busy, known, new)
        if not busy & ports[at]:
            more = new.copy()
            more[receivers[at]] |= known[senders[at]]
            found |= exchanges(at + 1, busy | ports[at], known, more)
        return found

    while not any(all(known == everyone for known in state) for state in states):
        states = set().union(*(exchanges(0, frozenset(), list(state), list(state)) for state in states))
        count += 1
    return count


@pytest.mark.parametrize(
    "dimensions, count", [("Switch 4", 2), ("Switch 3", 2), ("Ring 4 50 1000", 2), ("FullyConnected 3 50 1000", 1)]
)
def test_rounds_of_brute_force(dimensions, count):
    network = topology(dimensions)
    what = make_collective("all-reduce", network.num_npus, 4096)
    assert naive_rounds(network, what) == count
    timing = compute_timing(network, what, "blocking")
    assert BOUNDS["rounds"](Problem(network, what, timing)).time_ns == 1000 * count
    assert BOUNDS["rounds"](Problem(network, what, compute_timing(network, what, "pipelined"))).time_ns == 0


def test_rounds_over_links_of_unequal_latency():
    """One port of 600 ns and one of 2,000: K(3000) = 33, and no sooner 32."""

    def known(time):
        later = [known(time - times * hold) for hold in (600.0, 2000.0) for times in range(1, int(time // hold) + 1)]
        return 1 + sum(later)

    network = topology("Switch 8 450 300, Switch 4 50 1000")
    what = make_collective("all-reduce", 32, 8192)
    time = BOUNDS["rounds"](Problem(network, what, compute_timing(network, what, "blocking"))).time_ns
    assert time == 3000 and known(time) >= 32 > known(time - 1)


def test_one_switch_under_blocking_takes_rounds():
    network = topology("Switch 72 900")
    assert bound_of(network, "all-reduce", 1 << 16, "blocking").time_ns == 7000
    assert bound_of(network, "all-reduce", 1 << 18, "blocking").time_ns == 7000
    assert bound_of(network, "all-reduce", 1 << 18, "pipelined").time_ns < 1600


def worst_cut_of_group(network, members, *, reduces):
    """The least bandwidth per member outside, over all sets with a member: from outside into it, or the other way."""
    worst = np.inf
    for chosen in product((False, True), repeat=network.num_devices):
        side = np.array(chosen)
        outside = sum(not side[member] for member in members)
        if outside == 0 or outside == len(members):
            continue
        src, dst = (network.link_dst, network.link_src) if reduces else (network.link_src, network.link_dst)
        worst = min(worst, network.link_bandwidth_gibps[side[dst] & ~side[src]].sum() / outside)
    return worst


@examples(20)
@given(network=topologies(most_npus=7), data=st.data())
def test_the_cut_of_a_group_is_the_worst_of_all_relays_included(network, data):
    if network.num_npus < 3 or network.num_devices > 11:
        return
    some = st.lists(st.integers(0, network.num_npus - 1), min_size=2, max_size=network.num_npus - 1, unique=True)
    members = sorted(data.draw(some))
    name = data.draw(st.sampled_from(("all-gather", "reduce-scatter")))
    shard = 1 << 40
    what = make_collective(name, network.num_npus, shard * (1 if name == "all-gather" else len(members)), 1, None, members)
    bound = BOUNDS["cut"](Problem(network, what, compute_timing(network, what, "pipelined")))
    fluid = shard / worst_cut_of_group(network, members, reduces=name == "reduce-scatter") / GIB * 1e9
    assert bound.time_ns == pytest.approx(fluid, rel=1e-5)


def test_efficiency_is_the_quotient_and_optimal_is_within_a_nanosecond():
    assert efficiency_of(100_000, 50_000) == 0.5
    assert efficiency_of(100_000.5, 100_000) < 1
    assert is_optimal(100_000.9, 100_000) and is_optimal(100_000, 100_000)
    assert not is_optimal(100_002, 100_000)


def test_tiny_chunks_that_beat_light_are_found_out():
    """85 bytes take 1.59 ns of a link of 50 GiB/s, which ASTRA-sim truncates to 1: more than both links could bring."""
    network = topology("Ring 16")
    what = make_collective("all-gather", 16, 1 << 16, 768)
    certificate = certify(synthesize(network, what, synthesizer="ring", trials=1, link_model="pipelined"))
    assert certificate["predicted_ns"] < certificate["bound_ns"]
    assert certificate["time_ns"] >= certificate["bound_ns"] and certificate["efficiency"] <= 1
    assert certificate["bus_bandwidth_gbps"] <= 2 * 50 * 1.073742 * 1.001  # of both links


def test_optimal_where_nothing_is_faster():
    network = graph(*((a, b, 53.0, 0.0) for a, b in product(range(4), repeat=2) if a != b))
    what = make_collective("all-gather", 4, 1 << 24, 1)
    certificate = certify(synthesize(network, what, synthesizer="direct", link_model="pipelined"))
    assert certificate["optimal"] and certificate["efficiency"] == pytest.approx(1.0, abs=1e-5)
    slower = certify(synthesize(topology("Ring 4 50 0"), what, synthesizer="ring", link_model="pipelined"))
    assert not slower["optimal"]
