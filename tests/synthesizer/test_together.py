"""Several collectives at once: each is right, and they do not meet on links."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from helpers.networks import topologies, topology
from helpers.schedules import changed
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.schedule.joint import join
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.routing.route import together
from astra_tacos.verifier.schedule_oracle import verify, verify_together

TORUS = topology("Ring 4, Ring 4")


@examples(20)
@given(network=topologies(12), data=st.data())
def test_any_groups_at_once(network, data: st.DataObject) -> None:
    collectives = []
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(COLLECTIVES)))
        members = sorted(data.draw(st.sets(st.integers(0, network.num_npus - 1), min_size=2)))
        root = members[-1] if name in ROOTED else None
        size, chunks = data.draw(st.sampled_from((1 << 20, 100_003))), data.draw(st.integers(1, 2))
        collectives.append(make_collective(name, network.num_npus, size, chunks, root, members))
    schedules = together(network, collectives, data.draw(st.sampled_from(LINK_MODELS)), data.draw(st.sampled_from((0.0, 10.0))))
    assert verify_together(schedules) == ()
    assert [each.collective for each in schedules] == collectives
    joint = join(schedules)
    assert replay_schedule(joint).collective_time_ns == joint.collective_time_ns


def test_what_meets_on_a_link_is_found() -> None:
    what = [make_collective("all-gather", 16, 1 << 20, 2, None, group) for group in ([0, 1, 2, 3], [0, 4, 8, 12])]
    first, second = together(TORUS, what, "pipelined")
    assert verify_together((first, second)) == ()
    late = changed(second, start_ns=second.start_ns + 1, end_ns=second.end_ns + 1)
    assert verify(late) == ()
    shared = np.intersect1d(first.channel, second.channel)
    if len(shared):
        assert verify_together((first, late)) != ()


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match="found collectives on \\[\\] NPUs"):
        together(TORUS, [], "blocking")
    with pytest.raises(ConfigError, match="found collectives on \\[4, 16\\] NPUs"):
        together(TORUS, [make_collective("all-gather", npus, 1 << 20) for npus in (4, 16)], "blocking")
