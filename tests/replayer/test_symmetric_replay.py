"""Replay and link loads of symmetric schedules without a list of all sends: those of the expanded schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from helpers.symmetric import task, tasks
from hypothesis import given, settings

from astra_tacos.bounds.symmetric import link_busy_ns
from astra_tacos.replayer.schedule_replay import replay_schedule, replay_symmetric
from astra_tacos.solver.clock import has_equal_delays
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric


@settings(max_examples=20, deadline=None)
@given(tasks(16))
def test_it_agrees_with_the_replay_of_all_sends(what):
    schedule = synthesize_symmetric(what)
    replayed = replay_symmetric(schedule)
    assert np.array_equal(replayed.start_ns, schedule.start_ns) and np.array_equal(replayed.end_ns, schedule.end_ns)
    assert replayed.collective_time_ns == schedule.collective_time_ns
    if has_equal_delays(what):
        expanded = schedule.expand()
        everybody = replay_schedule(expanded)
        assert set(everybody.finish_ns.tolist()) == {replayed.collective_time_ns}
        assert np.array_equal(link_busy_ns(schedule, expanded.topology), everybody.link_busy_ns)


def test_times_follow_from_the_order_not_from_the_times_written():
    schedule = synthesize_symmetric(task([("Ring", 5, 50.0, 500.0), ("Switch", 3, 25.0, 100.0)], "all-reduce"))
    later = replace(schedule, start_ns=schedule.start_ns + 7, end_ns=schedule.end_ns + 7)
    assert replay_symmetric(later).collective_time_ns == schedule.collective_time_ns == later.collective_time_ns - 7
