"""Cuts and partitions: the worst of all there are, by brute force on small networks."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from helpers.examples import examples
from helpers.naive_packing import partitions
from helpers.networks import ALL, graph, topologies, topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.bounds.cut import cut, tightest_sides
from astra_tacos.bounds.delivery import Deliveries
from astra_tacos.bounds.partition import is_symmetric, is_transitive, partition
from astra_tacos.collective import COLLECTIVES, PERSONALISED, ROOTED, make_collective
from astra_tacos.network.network_config import LinkSpec
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import LINK_MODELS, compute_timing

SPEEDS = (5.0, 12.5, 50.0, 77.7)


@st.composite
def small_networks(draw):
    """Few devices: composed ones, some with a slow or failed link, and graphs of one-way links."""
    if draw(st.booleans()):
        npus = draw(st.integers(2, 6))
        ring = [(npu, (npu + 1) % npus) for npu in range(npus)]
        others = sorted({(a, b) for a in range(npus) for b in range(npus) if a != b} - set(ring))
        more = draw(st.lists(st.sampled_from(others), unique=True, max_size=8)) if others else []
        return graph(*((a, b, draw(st.sampled_from(SPEEDS)), draw(st.sampled_from((0.0, 700.0)))) for a, b in ring + more))
    return draw(topologies(most_npus=8))


@st.composite
def questions(draw):
    network = draw(small_networks())
    name = draw(st.sampled_from(sorted(COLLECTIVES.keys() - PERSONALISED)))
    root = draw(st.integers(0, network.num_npus - 1)) if name in ROOTED else None
    what = make_collective(name, network.num_npus, 1 << 20, draw(st.integers(1, 3)), root)
    reduce_bandwidth = draw(st.sampled_from((0.0, 1.0)))
    return network, what, compute_timing(network, what, draw(st.sampled_from(LINK_MODELS)), reduce_bandwidth)


def sets(network):
    """All sets of devices that hold some NPUs, but not all."""
    for chosen in product((False, True), repeat=network.num_devices):
        if 0 < sum(chosen[: network.num_npus]) < network.num_npus:
            yield np.array(chosen)


def must_cross(network, what, side, *, inward):
    """Chunks that have to enter (leave) a set."""
    if what.reduces and what.gathers:
        return what.num_chunks
    if inward != what.gathers:
        return 0
    return sum(not side[owner] for owner in what.chunk_owner.tolist())


def border(network, side, *, inward):
    ends = [(bool(side[a]), bool(side[b])) for a, b in zip(network.link_src, network.link_dst, strict=True)]
    return [link for link, (src, dst) in enumerate(ends) if (src, dst) == ((False, True) if inward else (True, False))]


def naive_distance(network, what, timing):
    """From the root, or to it with a reduction after every hop (Bellman and Ford)."""
    columns = network.channel_src, network.channel_dst, timing.channel_delay_ns[:, 0]
    hops = list(zip(*(column.tolist() for column in columns), strict=True))
    distance = [0.0 if what.root in (None, npu) else np.inf for npu in range(network.num_npus)]
    for _ in range(network.num_npus):
        for src, dst, delay in hops:
            if what.gathers:
                distance[dst] = min(distance[dst], distance[src] + delay)
            else:
                distance[src] = min(distance[src], distance[dst] + delay + int(timing.reduction_ns[0]))
    return distance


def naive_time(network, what, timing, links, messages):
    """When links have delivered so many messages, one delivery after the other."""
    distance = naive_distance(network, what, timing)
    ends = network.channel_dst if what.gathers else network.channel_src
    arrivals: list[int] = []
    for link in links:
        users = [c for c in range(network.num_channels) if link in (network.channel_link[c], network.channel_down_link[c])]
        if not users:
            continue
        delay = [int(timing.channel_delay_ns[c, 0]) for c in users]
        near = [int((network.channel_src if what.gathers else network.channel_dst)[c]) for c in users]
        period = min(delay) if timing.is_blocking else int(timing.link_hold_ns[link, 0])
        first = min(d + int(distance[npu]) for d, npu in zip(delay, near, strict=True))
        own = sum(near.count(owner) for owner in what.chunk_owner.tolist())
        # When the first chunk arrives at an NPU; or how long before the end the last one must leave it.
        step = 0 if what.gathers else int(timing.reduction_ns[0])
        supplied = min(int(timing.channel_delay_ns[c, 0]) + step for c in range(network.num_channels) if ends[c] in near)
        later = max(supplied - own * period, 0) if what.root is None and what.reduces != what.gathers else 0
        arrivals += [first + k * period + (later if k >= own else 0) for k in range(messages)]
    return sorted(arrivals)[messages - 1] + (0 if what.gathers else int(timing.reduction_ns[0]))


@examples(20)
@given(questions())
def test_the_cut_is_one_of_all_and_has_the_least_bandwidth_of_all(question):
    network, what, timing = question
    directions = [inward for inward, has in ((True, what.gathers), (False, what.reduces)) if has]
    worst, least = 0, {True: np.inf, False: np.inf}
    by_links: dict[frozenset[int], int] = {}
    for side in sets(network):
        for inward in directions:
            messages = must_cross(network, what, side, inward=inward)
            if not messages:
                continue
            links = border(network, side, inward=inward)
            least[inward] = min(least[inward], float(network.link_bandwidth_gibps[links].sum()) / messages)
            time = naive_time(network, what, timing, links, messages)
            worst = max(worst, time)
            key = frozenset(links), frozenset(np.flatnonzero(side[: network.num_npus]).tolist())
            by_links[key] = max(time, by_links.get(key, 0))
    bound = cut(Problem(network, what, timing))
    assert 0 < bound.time_ns <= worst
    assert by_links[frozenset(bound.links), frozenset(bound.npus)] == bound.time_ns
    found = np.inf
    for inward in directions:
        for side in tightest_sides(network, what, inward=inward):
            messages = must_cross(network, what, side, inward=inward)
            if messages:
                found = min(found, network.link_bandwidth_gibps[border(network, side, inward=inward)].sum() / messages)
    assert found == pytest.approx(min(least.values()), rel=1e-6)


@examples(10)
@given(questions())
def test_the_partition_is_one_of_all_and_without_switches_the_weakest(question):
    """A message between parts uses a link between them, or one into and one out of a switch: of these, the fewest are counted."""
    network, what, timing = question
    bound = partition(Problem(network, what, timing))
    src, dst = network.link_src.tolist(), network.link_dst.tolist()
    binding = list(bound.links) or list(range(network.num_links))
    phases = int(what.reduces) + int(what.gathers)
    found, weakest, weakest_time = False, np.inf, 0
    for part in partitions(network.num_npus):
        others = int(part.max())
        if not others:
            continue
        crosses = [
            {int(network.channel_link[c]), int(network.channel_down_link[c])} - {-1}
            for c in range(network.num_channels)
            if part[int(network.channel_src[c])] != part[int(network.channel_dst[c])]
        ]
        if all(set(binding) & links for links in crosses):
            messages = phases * others * what.num_chunks
            time = naive_time(network, what, timing, binding, messages)
            found = found or time == bound.time_ns
        if network.num_switches == 0:
            between = [link for link in range(network.num_links) if part[src[link]] != part[dst[link]]]
            ratio = network.link_bandwidth_gibps[between].sum() / others
            if ratio < weakest * (1 - 1e-9):
                weakest, weakest_time = ratio, 0
            if ratio <= weakest * (1 + 1e-9):
                time = naive_time(network, what, timing, between, phases * others * what.num_chunks)
                weakest_time = min(weakest_time or time, time)
    assert found
    if network.num_switches == 0 and phases == 2:
        assert bound.time_ns >= weakest_time


def test_parts_that_neither_nodes_nor_dimensions_show():
    """Two poor NPUs beside a full connection of six: as parts of their own, with the rest as one, they cost most."""
    rich = [(a, b, 100.0, 0.0) for a, b in product(range(6), repeat=2) if a != b]
    poor = [(a, b, 1.0, 0.0) for one, other in ((6, 0), (7, 1), (6, 7)) for a, b in ((one, other), (other, one))]
    network = graph(*rich, *poor)
    what = make_collective("all-reduce", 8, 8 << 20, 64)
    bound = partition(Problem(network, what, compute_timing(network, what, "pipelined")))
    assert bound.where == "3 parts with 6 links between them, 6 GiB/s"
    assert bound.time_ns > 1.3 * cut(Problem(network, what, compute_timing(network, what, "pipelined"))).time_ns


def test_what_is_regular():
    regular = {name: is_transitive(topology(*dimensions)) for name, dimensions in ALL.items()}
    assert regular == {name: name != "mesh" for name in ALL}
    torus = ALL["torus"]
    assert not is_transitive(topology(*torus, failed_links=((0, 1),)))
    assert not is_transitive(topology(*torus, link_overrides=(LinkSpec(0, 1, 5.0, None),)))
    assert is_symmetric(topology(*torus))
    assert not is_symmetric(topology(*torus, failed_links=((0, 1),)))
    assert is_symmetric(topology(*torus, failed_links=((0, 1), (1, 0))))
    assert not is_symmetric(topology(*torus, link_overrides=(LinkSpec(0, 1, 5.0, None),)))


@pytest.mark.parametrize("name", sorted(COLLECTIVES))
def test_regular_networks_are_not_treated_otherwise(name, monkeypatch):
    """One flow for all NPUs, which are alike, finds what a flow for each finds."""
    module = sys.modules["astra_tacos.bounds.cut"]
    for dimensions in ALL.values():
        network = topology(*dimensions)
        what = make_collective(name, network.num_npus, 1 << 20, 2)
        timing = compute_timing(network, what, "blocking")
        first = cut(Problem(network, what, timing)).time_ns
        with monkeypatch.context() as patch:
            patch.setattr(module, "is_transitive", lambda _: False)
            assert cut(Problem(topology(*dimensions), what, timing)).time_ns == first


def delivered(first, period, own, stall, time):
    """Counts arrivals one by one: after its own chunks a link may have to wait."""
    count, arrival = 0, first
    while arrival <= time:
        count += 1
        arrival = first + count * period + (stall if count >= own else 0)
    return count


LINK = st.tuples(st.integers(0, 9), st.integers(1, 7), st.integers(1, 5), st.integers(0, 9), st.integers(0, 2))


@given(
    st.lists(LINK, min_size=1, max_size=6),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_naive_twin(rows, messages):
    first, period, own, stall, group = (np.array(column) for column in zip(*rows, strict=True))
    times = Deliveries(first, period, own, stall).smallest_times(np.arange(len(rows)), group, np.array(messages))
    for one in set(group.tolist()):
        time = 0
        while sum(delivered(*row[:4], time) for row in rows if row[4] == one) < messages[one]:
            time += 1
        assert times[one] == time


def test_links_that_no_channel_uses_deliver_nothing():
    unused, used = np.array([0, 0]), np.array([0, 4])
    links, group = np.arange(2), np.zeros(2, np.int64)
    deliveries = Deliveries(unused, used, np.array([9, 9]), unused)
    assert deliveries.smallest_times(links, group, np.array([3])) == [8]
    assert deliveries.smallest_times(links[:1], group[:1], np.array([3])) == [0]
