"""The replay of a schedule equals its prediction, to the nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.examples import examples
from helpers.naive_schedule import naive_dependencies, naive_times
from helpers.networks import ALL, topology
from helpers.schedules import changed, columns, schedule, schedules
from hypothesis import given

from astra_tacos.collective import COLLECTIVES
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.support.errors import ReplayError


def assert_as_predicted(of):
    replayed = replay_schedule(of)
    assert np.array_equal(replayed.start_ns, of.start_ns)
    assert np.array_equal(replayed.end_ns, of.end_ns)
    assert np.array_equal(replayed.finish_ns, of.npu_finish_ns)
    assert np.array_equal(replayed.link_busy_ns, of.link_busy_ns)
    assert replayed.collective_time_ns == of.collective_time_ns


@examples(20)
@given(schedules(most_npus=18))
def test_replay_equals_prediction(of):
    assert_as_predicted(of)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("link_model", ["blocking", "pipelined"])
@pytest.mark.parametrize("name", ALL)
def test_replay_equals_prediction_everywhere(name, link_model, collective):
    assert_as_predicted(schedule(topology(name), collective, 777_777, 3, link_model=link_model))


@examples(20)
@given(schedules())
def test_replay_of_other_times_keeps_only_the_order(of):
    """Stretched times say the same about who waits for whom, so the replay brings the schedule back to its own times."""
    late = changed(of, start_ns=of.start_ns * 3, end_ns=of.end_ns * 3)  # a reduction ends before three times its time
    replayed = replay_schedule(late)
    start, end = naive_times(of, naive_dependencies(of))
    assert replayed.start_ns.tolist() == start
    assert replayed.end_ns.tolist() == end


def test_a_cycle_is_an_error():
    """Two sends of one link, of which the first forwards what the second one's answer brings."""
    of = schedule(topology("Ring 2 50 0"), "all-reduce", 1 << 20, link_model="blocking")
    order = np.argsort(-of.start_ns, kind="stable")  # gather before scatter on each link, times as they were
    reversed_rows = {name: column[order] for name, column in columns(of).items()}
    with pytest.raises(ReplayError, match="never starts: sends wait for one another in a cycle"):
        replay_schedule(changed(of, **reversed_rows))
