"""Trees: their loads against cuts, partitions and a linear program; what the schedules reach; parts against slow twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples
from helpers.naive_packing import cut_bound_ns, partition_bound_ns, reduce_broadcast_bound_ns
from helpers.networks import ALL, graph, topologies, topology
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import LINK_MODELS, compute_timing
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.algorithms.routed import routed
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import justify, mirror, mirrored
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.routing.tree_growth import grow_trees, may_choose_roots
from astra_tacos.verifier.schedule_oracle import verify

GIB = 1 << 30


@st.composite
def small_graphs(draw, paired=False):
    """Strongly connected graphs of 3 to 5 NPUs; with `paired`, every link has one like it against it."""
    npus = draw(st.integers(3, 5))
    speed = st.sampled_from((10.0, 25.0, 50.0, 100.0))
    links = {(npu, (npu + 1) % npus): draw(speed) for npu in range(npus)}
    for ends in draw(st.lists(st.permutations(range(npus)), max_size=4)):
        links[ends[0], ends[1]] = draw(speed)
    if paired:
        pairs = {(min(ends), max(ends)): bandwidth for ends, bandwidth in links.items()}
        links = {**pairs, **{(dst, src): bandwidth for (src, dst), bandwidth in pairs.items()}}
    return graph(*((src, dst, bandwidth, 0.0) for (src, dst), bandwidth in sorted(links.items())))


def packed(network, name, chunks, link_model="pipelined", seed=0, size=GIB):
    """The trees of a collective's chunks, and the collective and delays that they are for."""
    what = COLLECTIVES[name](network.num_npus, size // network.num_npus if name == "all-gather" else size, chunks)
    timing = compute_timing(network, what, link_model)
    return grow_trees(Problem(network, what, timing), seed, free_roots=may_choose_roots(network, what)), what, timing


def check_packing(network, packing, timing):
    """Every tree joins all NPUs to its root, and the loads are the sum of what the trees use."""
    link_ns = np.zeros(network.num_links)
    size = timing.link_hold_ns.shape[1] - 1
    for is_sum, channels in zip(packing.inward, packing.channel, strict=True):
        for root, tree in zip(packing.root.tolist(), channels, strict=True):
            near, far = (network.channel_dst, network.channel_src) if is_sum else (network.channel_src, network.channel_dst)
            assert tree[root] == -1
            for npu in range(network.num_npus):
                at, steps = npu, 0
                while at != root:
                    assert far[tree[at]] == at
                    at, steps = near[tree[at]], steps + 1
                    assert steps < network.num_npus
            for channel in tree[tree >= 0].tolist():
                for link in (network.channel_link[channel], network.channel_down_link[channel]):
                    if link >= 0:
                        delay = timing.channel_delay_ns[channel, size] if timing.is_blocking else timing.link_hold_ns[link, size]
                        link_ns[link] += delay
    assert np.allclose(link_ns, packing.link_ns)


@examples(20)
@given(topologies(12), st.sampled_from(sorted(COLLECTIVES)), st.integers(1, 3), st.sampled_from(LINK_MODELS), st.integers(0, 9))
def test_packings_are_trees_that_load_links_as_they_say(network, name, chunks, link_model, seed):
    packing, _, timing = packed(network, name, chunks, link_model, seed, 1 << 22)
    check_packing(network, packing, timing)
    for is_sum, channels, along in zip(packing.inward, packing.channel, packing.branches, strict=True):
        far = network.channel_src if is_sum else network.channel_dst
        near = network.channel_dst if is_sum else network.channel_src
        hop = timing.channel_delay_ns[:, -1] + (timing.reduction_ns[-1] if is_sum else 0)
        for tree, away in zip(channels, along.away_ns, strict=True):
            used = tree[tree >= 0]
            assert np.array_equal(away[far[used]], away[near[used]] + hop[used])
        behind = along.away_ns[:, :, None] + along.ahead_ns[:, :, None]
        assert np.all(behind.max(axis=(1, 2)) == along.away_ns.max(axis=1))
        assert np.all(along.away_ns + along.ahead_ns <= along.away_ns.max(axis=1)[:, None])


@pytest.mark.parametrize(
    "name, paired, bound, within",
    [
        ("all-gather", False, cut_bound_ns, 1.02),
        ("all-reduce", True, partition_bound_ns, 1.02),  # the packing rate of spanning trees
        ("all-reduce", False, reduce_broadcast_bound_ns, 1.05),  # near the linear programme on one-way links
    ],
)
@given(data=st.data())
def test_packings_come_near_what_is_possible(name, paired, bound, within, data):
    network = data.draw(small_graphs(paired))
    packing, what, _ = packed(network, name, 100)
    bound_ns = bound(network, GIB)
    assert bound_ns * (1 - 1e-4) <= packing.link_ns.max() <= bound_ns * (within + (name == "all-reduce") * 2 / what.num_chunks)


@pytest.mark.parametrize("link_model", LINK_MODELS)
@pytest.mark.parametrize("network", ALL)
def test_sums_take_as_long_as_their_mirror_image(network, link_model):
    whole = topology(*ALL[network])
    spread, summed = COLLECTIVES["all-gather"](whole.num_npus, 1 << 20, 2), COLLECTIVES["reduce-scatter"]
    timing = compute_timing(whole, what := summed(whole.num_npus, (1 << 20) * whole.num_npus, 2), link_model)
    image = mirror(whole, timing)
    there = routed(Problem(image.topology, spread, image.timing), 3)
    back = mirrored(there, image, whole, timing)
    assert verify(replace(back, collective=what)) == ()
    if not whole.has_switches or link_model == "blocking":
        added = int(timing.reduction_ns.max()) * whole.num_npus
        assert there.collective_time_ns - added <= back.collective_time_ns <= there.collective_time_ns + added


@examples(20)
@given(topologies(10), st.sampled_from(sorted(COLLECTIVES)), st.sampled_from(LINK_MODELS), st.integers(0, 99))
def test_justified_schedules_are_legal_and_no_slower(network, name, link_model, seed):
    what = COLLECTIVES[name](network.num_npus, 1 << 20, 3)
    timing = compute_timing(network, what, link_model)
    first = SYNTHESIZERS["tacos"].make(Problem(network, what, timing), seed)
    better = justify(first, 0.8)
    assert verify(better) == ()
    assert better.collective_time_ns <= first.collective_time_ns


def efficiency(network, name, size, chunks, bound_us, link_model="pipelined"):
    what = COLLECTIVES[name](network.num_npus, size, chunks)
    schedule = routed(Problem(network, what, compute_timing(network, what, link_model)), 0)
    assert verify(schedule) == ()
    return bound_us * 1e3 / schedule.collective_time_ns


@pytest.mark.parametrize("name", ["all-gather", "reduce-scatter"])
def test_hierarchies_of_switches(name):
    three = topology("Ring 2 200, FullyConnected 4 100, Switch 8")
    two = topology("Switch 8 300, Switch 4 25")
    size = [GIB // 64, GIB // 32] if name == "all-gather" else [GIB, GIB]
    assert efficiency(three, name, size[0], 16, 2187.5) >= 0.97
    assert efficiency(two, name, size[1], 24, 3750) >= 0.97
    assert efficiency(two, name, size[1], 16, 3750, "blocking") >= 0.97


def test_partitions_of_the_oracle():
    """The mesh's packing rate as the bounds page has it, 2k / (k + 1) links."""
    mesh = topology("Mesh 2 50 0, Mesh 2 50 0")
    assert np.isclose(partition_bound_ns(mesh, GIB), GIB / (4 / 3 * 50 * GIB / 1e9))


def test_a_slow_link_that_nobody_needs_does_no_harm():
    network = graph("0 3 .001 0", *((npu, (npu + step) % 6, 50.0, 0.0) for npu in range(6) for step in (1, 5)))
    for name, most in (("all-gather", 1.02), ("all-reduce", 1.05 * 2)):
        packing, _, timing = packed(network, name, 12)
        check_packing(network, packing, timing)
        assert packing.link_ns.max() <= most * cut_bound_ns(network, GIB)


@pytest.mark.parametrize("link_model", LINK_MODELS)
def test_busy_switches_pair_their_links_by_what_they_have_left(link_model):
    """Every NPU sends to every other through one switch: rank alone leaves some port with too much to do in the end."""
    network = topology("Switch 12")
    what = COLLECTIVES["all-gather"](12, GIB, 2)
    timing = compute_timing(network, what, link_model)
    channel = np.repeat(np.arange(network.num_channels, dtype=np.int32), 2)
    chunk = (2 * network.channel_src[channel] + np.tile((0, 1), network.num_channels)).astype(np.int32)
    times = []
    for seed in range(8):
        rank = np.random.default_rng(seed).permutation(len(chunk)).astype(np.int32)
        plan = SendGraph(chunk, channel, np.zeros(len(chunk), bool), rank)
        both = [dispatch(Problem(network, what, timing), plan, busy_share=share) for share in (1.5, 0.5)]
        assert [verify(schedule) for schedule in both] == [(), ()]
        times.append([schedule.collective_time_ns for schedule in both])
        assert np.array_equal(both[0].start_ns, dispatch(Problem(network, what, timing), plan).start_ns)
    by_rank, by_work = np.mean(times, axis=0)
    assert by_work < by_rank
    assert by_work <= 1.15 * 22 * int(timing.link_hold_ns[0, 0])
