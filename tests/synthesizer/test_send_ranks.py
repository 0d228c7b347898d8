"""Reductions in the matcher of `tacos`."""

from __future__ import annotations

import pytest
from helpers.networks import topology
from helpers.schedules import schedule

from astra_tacos.network.network_config import LinkSpec
from astra_tacos.verifier.schedule_oracle import verify


@pytest.mark.parametrize("collective", ["reduce-scatter", "all-reduce"])
def test_reductions_longer_than_sends_are_matched(collective):
    """A reduction that takes longer than a send made every link seem slow, and nothing could be brought."""
    network = topology("Ring 2 12.5 0, Ring 2 12.5 30", link_overrides=(LinkSpec(0, 1, 5.0, None),))
    for seed in (1, 3):
        of = schedule(
            network, collective, 50_000, link_model="blocking", reduce_bandwidth_gbps=1.0, seed=seed, synthesizer="tacos"
        )
        assert verify(of) == ()
