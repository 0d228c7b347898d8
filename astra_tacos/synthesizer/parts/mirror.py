"""The mirror image of a network: every link reversed. Spreading on it is summing up on the network, backwards in time.

Forward-backward improvement: a schedule is list-scheduled again from its end, then from its start.

The backward pass works on the mirror image of the network and takes the sends first that ended last. The sends that then have to
start first go first in the next forward pass. Unnecessary gaps close on either side (Li and Willis 1992; Tormos and Lova 2001;
Valls, Ballestin and Quintanilla 2005, for projects with limited resources).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Ints32
from astra_tacos.support.grouping import distinct_places
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph

Make = Callable[[Problem, int], Schedule]


@dataclass(frozen=True, slots=True)
class Mirror:
    """A network with all links reversed.

    Parameters
    ----------
    topology, timing
        The network with its links reversed and the same link numbers, and the delays of its channels.
    channel
        int32[num_channels], the channel of the given network that each channel of the mirror runs against.
    """

    topology: Topology
    timing: Timing
    channel: Ints32


def mirror(topology: Topology, timing: Timing) -> Mirror:
    """Reverse all links of a network."""
    turned = _turned(topology)
    if topology.forwarding:  # channels may be parallel, but each has a link of its own
        channel = topology.channel_of_link()[turned.channel_link].astype(np.int32)
    else:
        channel = topology.channel_of(turned.channel_dst, turned.channel_src).astype(np.int32)
    return Mirror(turned, replace(timing, channel_delay_ns=timing.channel_delay_ns[channel]), channel)


@lru_cache(maxsize=4)
def _turned(topology: Topology) -> Topology:
    return replace(topology, link_src=topology.link_dst, link_dst=topology.link_src)


def mirrored(schedule: Schedule, image: Mirror, topology: Topology, timing: Timing) -> Schedule:
    """The reducing schedule on a network that mirrors a spreading one on its mirror image: sends reversed, last ones first.

    With the same link model both take the same time, except for queueing at switches; times are settled anew.

    Parameters
    ----------
    schedule
        A schedule on the mirror image.
    image
        The mirror image.
    topology
        The network.
    timing
        Delays of chunks on the links of the network.
    """
    order = np.lexsort((np.arange(schedule.num_sends), -schedule.done_ns))
    chunk, channel = schedule.chunk[order], image.channel[schedule.channel[order]]
    reduces = topology.channel_dst[channel] < topology.num_endpoints
    sends = Sends(chunk, channel, reduces, trip=None if schedule.trip is None else schedule.trip[order])
    return settle(Problem(topology, schedule.collective, timing), sends, schedule.synthesizer, schedule.seed)


def backwards(spread: Make, problem: Problem, seed: int) -> Schedule:
    """What only reduces, as what spreads on the mirror image; `spread` makes the schedule there."""
    topology, collective, timing = problem
    image = mirror(topology, timing)
    return mirrored(spread(Problem(image.topology, collective, image.timing), seed), image, topology, timing)


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
        turned_back = dispatch(
            Problem(image.topology, now.collective, image.timing), sends, now.synthesizer, now.seed, busy_share
        )
        sends = _latest_first(turned_back, image.channel)
        now = dispatch(Problem(topology, now.collective, timing), sends, now.synthesizer, now.seed, busy_share)
        is_stale = now.collective_time_ns * _GOOD_ENOUGH >= best.collective_time_ns
        best = min(best, now, key=lambda candidate: candidate.collective_time_ns)
        if is_stale:
            break
    return best


def _latest_first(schedule: Schedule, turned: Ints32) -> SendGraph:
    """The sends reversed in time: a reduction into an NPU becomes a copy out of it, and vice versa."""
    rank = distinct_places(-schedule.done_ns)[1].astype(np.int32)
    return SendGraph(schedule.chunk, turned[schedule.channel], ~schedule.reduces, rank)
