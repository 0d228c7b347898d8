"""Forward-backward improvement: a schedule is list-scheduled again from its end, then from its start.

The backward pass works on the mirror image of the network and takes the sends first that ended last. The sends that then have to
start first go first in the next forward pass. Unnecessary gaps close on either side (Li and Willis 1992; Tormos and Lova 2001;
Valls, Ballestin and Quintanilla 2005, for projects with limited resources).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.grouping import distinct_places
from astra_tacos.synthesizer.dispatch.dispatch import dispatch
from astra_tacos.synthesizer.dispatch.send_graph import SendGraph
from astra_tacos.synthesizer.packing.mirror import mirror

_MOST_SENDS = 1_200_000
_MOST_ROUNDS = 2
_GOOD_ENOUGH = 1.001
"""A smaller gain, as a share of the busiest link's time or of the last round's time, is not worth another round."""


def justify(schedule: Schedule, busy_share: float) -> Schedule:
    """The fastest of a schedule and its improvements by a few backward and forward rounds.

    Parameters
    ----------
    schedule
        The schedule to improve.
    busy_share
        See `dispatch`.
    """
    topology, timing = schedule.topology, schedule.timing
    image = mirror(topology, timing)
    turned = np.argsort(image.channel).astype(np.int32)
    goal = float(schedule.link_busy_ns.max(initial=0)) * _GOOD_ENOUGH
    best = now = schedule
    for _ in range(min(_MOST_ROUNDS, _MOST_SENDS // max(schedule.num_sends, 1))):
        if best.collective_time_ns <= goal:
            break
        sends = _latest_first(now, turned)
        backwards = dispatch(image.topology, now.collective, image.timing, sends, now.synthesizer, now.seed, busy_share)
        sends = _latest_first(backwards, image.channel)
        now = dispatch(topology, now.collective, timing, sends, now.synthesizer, now.seed, busy_share)
        is_stale = now.collective_time_ns * _GOOD_ENOUGH >= best.collective_time_ns
        best = min(best, now, key=lambda candidate: candidate.collective_time_ns)
        if is_stale:
            break
    return best


def _latest_first(schedule: Schedule, turned: NDArray[np.int32]) -> SendGraph:
    """The sends reversed in time: a reduction into an NPU becomes a copy out of it, and vice versa."""
    rank = distinct_places(-schedule.done_ns)[1].astype(np.int32)
    return SendGraph(schedule.chunk, turned[schedule.channel], ~schedule.reduces, rank)
