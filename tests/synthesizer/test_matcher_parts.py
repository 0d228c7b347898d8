"""What the matcher plans with: who is near to whom, which chunks slow links wait for, how phases divide links' time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import ALL, broken_torus, dgx1, topologies, topology
from helpers.schedules import check, schedule
from hypothesis import assume, given
from hypothesis import strategies as st

from astra_tacos.bounds import chunked_lower_bound
from astra_tacos.collective import COLLECTIVES
from astra_tacos.network.network_config import LinkSpec
from astra_tacos.schedule.timing import LINK_MODELS, compute_timing
from astra_tacos.synthesizer.matching.matching import far_chunks
from astra_tacos.synthesizer.matching.matching_network import as_words, neighbourhood
from astra_tacos.synthesizer.parts._tree_kernels import Hops, hops_to_come
from astra_tacos.synthesizer.parts.overlap import link_shares, overlap_phases
from astra_tacos.verifier.schedule_oracle import verify


def naive_distances(num_npus, channels):
    """From the first NPU to the second, over channels of (src, dst, ns) (Floyd-Warshall)."""
    distance = np.full((num_npus, num_npus), np.inf)
    np.fill_diagonal(distance, 0)
    for src, dst, ns in channels:
        distance[src, dst] = min(distance[src, dst], ns)
    for middle in range(num_npus):
        distance = np.minimum(distance, distance[:, middle, None] + distance[middle])
    return distance


def channels_of(network):
    what = COLLECTIVES["all-gather"](network.num_npus, 1 << 20, 1)
    ns = compute_timing(network, what, "blocking").channel_delay_ns[:, 0]
    return list(zip(network.channel_src.tolist(), network.channel_dst.tolist(), ns.tolist(), strict=True)), ns


@examples(20)
@given(network=topologies())
def test_near_is_what_faster_links_bring_sooner(network):
    channels, ns = channels_of(network)
    around = neighbourhood(network.num_npus, network.channel_src, network.channel_dst, ns)
    levels = len(around.level_ns)
    assert around.level_ns.tolist() == sorted(set(ns.tolist()))[1:][:levels]
    for level, limit_ns in enumerate(around.level_ns.tolist()):
        distance = naive_distances(network.num_npus, [channel for channel in channels if channel[2] < limit_ns])
        for npu in range(network.num_npus):
            near = {int(other) for other in np.flatnonzero(distance[:, npu] < limit_ns)} - {npu}
            place = npu * levels + level
            listed = around.near[around.near_first[place] : around.near_first[place + 1]].tolist()
            group = around.group[npu, level]
            if group >= 0:
                members = np.flatnonzero(around.group[:, level] == group).tolist()
                assert not listed
                assert set(members) - {npu} == near
            else:
                assert len(set(listed)) == len(listed) == min(len(near), 16)
                assert set(listed) <= near


def test_slow_links_of_a_dgx1_wait_for_the_opposite_npu():
    network = dgx1()
    what = COLLECTIVES["all-gather"](8, 1 << 27, 1)
    timing = compute_timing(network, what, "blocking")
    slow_ns, is_far = far_chunks(
        network, timing, what.chunk_owner, chunked_lower_bound(network, what, timing).time_ns, reverse=False
    )
    assert slow_ns == timing.channel_delay_ns.max()
    opposite = {0: 5, 1: 4, 2: 7, 3: 6}
    assert [np.flatnonzero(row).tolist() for row in is_far] == [
        [(opposite | {b: a for a, b in opposite.items()})[n]] for n in range(8)
    ]


@pytest.mark.parametrize("num_chunks", [1, 63, 64, 65, 256, 257])
def test_sets_of_chunks_as_words(num_chunks):
    chunks = np.random.default_rng(num_chunks).random((3, num_chunks)) < 0.5
    words = as_words(chunks)
    found = [[(int(row[c // 64]) >> c % 64) & 1 for c in range(num_chunks)] for row in words]
    assert found == chunks.astype(int).tolist()
    assert sum(int(word).bit_count() for word in words.ravel()) == chunks.sum()


@pytest.mark.parametrize(
    "network",
    [topology("Mesh 4, Mesh 4"), topology(*ALL["mesh"]), broken_torus(6, 12, 3), dgx1()],
    ids=("mesh", "unequal mesh", "broken torus", "DGX-1"),
)
def test_shares_of_links_give_every_npu_and_every_two_what_they_need(network):
    what = COLLECTIVES["all-reduce"](network.num_npus, 1 << 24, 1)
    timing = compute_timing(network, what, "blocking")
    shares = link_shares(network, timing)
    assert shares is not None
    period = np.empty(network.num_links)
    period[network.channel_link] = timing.channel_delay_ns[:, 0]
    src, dst = network.link_src, network.link_dst
    pairs = {tuple(sorted(pair)) for pair in zip(src.tolist(), dst.tolist(), strict=True)}
    needed_ns = 0.0
    for members in [*itertools.combinations(range(network.num_npus), 1), *pairs]:
        inside = [np.isin(end, members) for end in (src, dst)]
        chunks = what.num_chunks * (1 - shares.root[list(members)].sum())
        out_of = (shares.reducing / period)[inside[0] & ~inside[1]].sum()
        into = ((1 - shares.reducing) / period)[inside[1] & ~inside[0]].sum()
        needed_ns = max(needed_ns, chunks / out_of, chunks / into)
    assert shares.root.sum() == pytest.approx(1)
    assert shares.reducing.min() >= 0
    assert shares.reducing.max() <= 1
    # Meshes, tori and the cube mesh can reach the volume bound; a broken torus comes close.
    assert needed_ns <= chunked_lower_bound(network, what, timing).time_ns * 1.05


@examples(20)
@given(network=topologies(12), data=st.data())
def test_overlapping_phases_on_any_network_without_switches(network, data):
    assume(not network.has_switches)
    what = COLLECTIVES["all-reduce"](network.num_npus, data.draw(st.integers(50_000, 1 << 20)), data.draw(st.integers(1, 4)))
    model = data.draw(st.sampled_from(LINK_MODELS))
    timing = compute_timing(network, what, model, data.draw(st.sampled_from((0.0, 1.0))))
    of = overlap_phases(network, what, timing, "tacos", data.draw(st.integers(0, 1 << 62)))
    assert of is not None
    check(of)


@given(st.randoms(use_true_random=False), st.integers(2, 7), st.integers(1, 3))
def test_hops_to_come(random, num_npus, num_chunks):
    root = np.array([random.randrange(num_npus) for _ in range(num_chunks)], np.int32)
    trees = []
    for _ in range(2):
        edges = []
        for chunk in range(num_chunks):
            reached = [int(root[chunk])]
            for npu in random.sample([n for n in range(num_npus) if n != root[chunk]], num_npus - 1):
                edges.append((chunk, random.choice(reached), npu))
                reached.append(npu)
        trees.append(edges)
    upwards, downwards = trees

    def below(chunk, npu):
        return max((1 + below(c, child) for c, parent, child in downwards if (c, parent) == (chunk, npu)), default=0)

    def above(chunk, npu):
        if npu == root[chunk]:
            return below(chunk, npu)
        return 1 + next(above(c, parent) for c, parent, child in upwards if (c, child) == (chunk, npu))

    columns = [np.array(column, np.int32) for edges in trees for column in zip(*edges, strict=True)]
    sum_hops, copy_hops = np.empty((2, len(upwards)), np.int32)
    up_chunk, up_parent, up_child, down_chunk, down_parent, down_child = columns
    sums, copies = Hops(up_chunk, up_child, up_parent, sum_hops), Hops(down_chunk, down_parent, down_child, copy_hops)
    hops_to_come(root, sums, copies, num_npus)
    assert sum_hops.tolist() == [above(chunk, parent) for chunk, parent, _ in upwards]
    assert copy_hops.tolist() == [below(chunk, child) for chunk, _, child in downwards]


@pytest.mark.parametrize("collective", ["reduce-scatter", "all-reduce"])
def test_patience_counts_reductions_as_the_matcher_does(collective):
    """A reduction that takes longer than a send made every link seem slow, and nothing could be brought."""
    network = topology("Ring 2 12.5 0, Ring 2 12.5 30", link_overrides=(LinkSpec(0, 1, 5.0, None),))
    for seed in (1, 3):
        of = schedule(
            network, collective, 50_000, link_model="blocking", reduce_bandwidth_gbps=1.0, seed=seed, synthesizer="tacos"
        )
        assert verify(of) == ()
