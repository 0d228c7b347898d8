"""Joining of messages: legal, never slower, and known by hand where latency is all there is."""

from __future__ import annotations

from helpers.examples import examples
from helpers.networks import topology
from helpers.schedules import check, schedules
from hypothesis import given

from astra_tacos.collective import COLLECTIVES
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.synthesizer.algorithms.tacos import tacos
from astra_tacos.synthesizer.search.candidates import join_messages


@examples(20)
@given(schedules())
def test_a_joined_schedule_is_legal_and_not_slower(of) -> None:
    joined = check(join_messages(of))
    assert exact_time_ns(joined) <= exact_time_ns(of)
    assert joined.num_messages <= of.num_messages or exact_time_ns(joined) < exact_time_ns(of)
    assert joined.num_sends == of.num_sends


def test_chunks_of_one_npu_leave_together() -> None:
    """Two NPUs, 1,000 ns: four chunks of one byte each take the latency once instead of four times."""
    pair = topology("FullyConnected 2 1 1000")
    gathered = COLLECTIVES["all-gather"](2, 4, 4)
    apart = tacos(pair, gathered, compute_timing(pair, gathered, "blocking"), 0)
    assert apart.collective_time_ns == 4 * 1000
    joined = join_messages(apart)
    assert (joined.collective_time_ns, joined.num_messages) == (1003, 2)


@examples(20)
@given(schedules())
def test_exact_time_is_near_the_predicted_one(of) -> None:
    """Truncation shortens each delay by less than 1 ns, rounding of reductions moves each by half a microsecond at most."""
    slack = 1.0 + (501.0 if of.timing.reduce_bandwidth_gbps else 1.0)
    assert abs(exact_time_ns(of) - of.collective_time_ns) <= slack * 2 * of.num_sends
