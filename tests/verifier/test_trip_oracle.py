"""Trips: every rule has a schedule that breaks it, and nothing else is reported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import refused
from helpers.fabrics import TWO_LEVELS, star
from helpers.schedules import codes

from astra_tacos.collective import make_collective
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.solve import check_schedule
from astra_tacos.support.errors import VerificationError

REDUCE = make_collective("reduce", 7, 4096, 1, 0, [0, 1])
BROADCAST = make_collective("broadcast", 7, 4096, 1, 0, [0, 1, 2])


def played(collective, *rows):
    """Rows of trip, source, destination and whether it adds."""
    trip, src, dst, adds = (np.array(column) for column in zip(*rows, strict=True))
    channel = TWO_LEVELS.channel_of(src, dst).astype(np.int32)
    sends = Sends(np.zeros(len(rows), np.int32), channel, adds.astype(bool), trip=trip.astype(np.int32))
    return settle(Problem(TWO_LEVELS, collective, compute_timing(TWO_LEVELS, collective, "pipelined")), sends)


GOOD = ((0, 1, 4, False), (0, 4, 0, True))
SPREAD = ((0, 0, 4, False), (0, 4, 1, False), (1, 1, 4, False), (1, 4, 6, False), (1, 6, 5, False), (1, 5, 2, False))


def test_hops_of_a_trip_are_one_send():
    assert codes(played(REDUCE, *GOOD)) == set()
    assert codes(played(BROADCAST, *SPREAD)) == set()


@pytest.mark.parametrize(
    "code, rows",
    [
        ("trip-start", ((0, 4, 0, True),)),
        ("trip-end", ((0, 1, 4, False),)),
        ("trip-adds", ((0, 1, 4, True), (0, 4, 0, True))),
        ("trip-gap", ((0, 1, 4, False), (0, 5, 2, False))),
        ("trip-twice", ((0, 1, 4, False), (0, 4, 6, False), (0, 6, 4, False), (0, 4, 0, True))),
        ("trip-pass", ((0, 1, 4, False), (0, 4, 0, False), (0, 0, 4, False), (0, 4, 1, False))),
    ],
)
def test_broken_trips_are_found(code, rows):
    assert code in codes(played(REDUCE, *rows))


def test_a_copy_made_on_the_way_is_none():
    """One arrival at a switch, two departures."""
    schedule = played(BROADCAST, (0, 0, 4, False), (0, 4, 1, False), (0, 4, 6, False), (0, 6, 5, False), (0, 5, 2, False))
    assert codes(schedule) >= {"trip-gap"} or codes(schedule) >= {"trip-pass"}


def test_partial_sums_do_not_meet_on_the_way():
    collective = make_collective("reduce", 7, 4096, 1, 0, [0, 2, 3])
    up = ((0, 2, 5, False), (0, 5, 6, False), (0, 6, 4, False), (0, 4, 0, True))
    assert codes(played(collective, *up)) == {"incomplete"}
    both = tuple((1, 3 if src == 2 else src, dst, adds) for _, src, dst, adds in up)
    assert codes(played(collective, *up, *both)) == set()


def test_a_hop_that_leaves_too_early_is_found():
    schedule, one = played(REDUCE, *GOOD), np.array([0, 1])
    early = replace(schedule, start_ns=schedule.start_ns - one, end_ns=schedule.end_ns - one)
    assert "trip-early" in codes(early)
    with pytest.raises(VerificationError):
        check_schedule(early)
    with refused("trip"):  # rows have trips where devices forward
        replace(schedule, trip=None)


def test_a_copy_that_meets_an_addition_is_a_race():
    """In a device that adds, one of two sends of an instant adds and one replaces: what the device has then nobody knows."""
    network, end = star(3), make_collective("reduce", 4, 4096, 1, 0, [0, 1, 2])

    def summed(*first):
        rows = ((0, 1, 3, first[0]), (1, 2, 3, first[1]), (2, 3, 0, True))
        trip, src, dst, adds = (np.array(column) for column in zip(*rows, strict=True))
        channel = network.channel_of(src, dst).astype(np.int32)
        sends = Sends(np.zeros(len(rows), np.int32), channel, adds.astype(bool), trip=trip.astype(np.int32))
        return settle(Problem(network, end, compute_timing(network, end, "pipelined")), sends)

    good = summed(True, True)
    assert codes(good) == set()
    for reduces in ((False, True), (True, False)):
        assert "race" in codes(replace(good, reduces=np.array([*reduces, True])))
