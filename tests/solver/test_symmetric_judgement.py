"""Times of symmetric schedules on the judges, without a replay: those of a replay of the expanded schedule."""

from __future__ import annotations

from helpers.examples import examples
from helpers.symmetric import tasks
from hypothesis import given

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.schedule.symmetric_schedule import SymmetricTask
from astra_tacos.solver.judgement import judge_schedule
from astra_tacos.solver.symmetric_judgement import has_equal_delays, symmetric_times
from astra_tacos.synthesizer.symmetric.symmetric import synthesize_symmetric


@examples(20)
@given(tasks(12))
def test_known_times_are_those_of_a_replay(what: SymmetricTask) -> None:
    schedule = synthesize_symmetric(what, 0)
    known = symmetric_times(schedule, None)
    assert schedule.collective_time_ns in known.values()
    if not has_equal_delays(what):
        return
    judged = judge_schedule(schedule.expand(), NetworkConfig("test", what.dimensions))
    assert known.keys() == judged.times_ns.keys()
    for figure, time_ns in judged.times_ns.items():
        assert known[figure] is None or time_ns in (known[figure], None)
