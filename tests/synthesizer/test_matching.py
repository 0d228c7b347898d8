"""The matcher of `tacos`: who is near to whom over faster links, and reductions that take longer than sends."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import topologies, topology
from helpers.schedules import schedule
from hypothesis import given

from astra_tacos.collective import COLLECTIVES
from astra_tacos.network.network_config import LinkSpec
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer.matching.matching_network import neighbourhood
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


@pytest.mark.parametrize("collective", ["reduce-scatter", "all-reduce"])
def test_reductions_longer_than_sends_are_matched(collective):
    """A reduction that takes longer than a send made every link seem slow, and nothing could be brought."""
    network = topology("Ring 2 12.5 0, Ring 2 12.5 30", link_overrides=(LinkSpec(0, 1, 5.0, None),))
    for seed in (1, 3):
        of = schedule(
            network, collective, 50_000, link_model="blocking", reduce_bandwidth_gbps=1.0, seed=seed, synthesizer="tacos"
        )
        assert verify(of) == ()
