"""The mirror image of a network: every link reversed. Spreading on it is summing up on the network, backwards in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Ints32

Make = Callable[[Topology, Collective, Timing, int], Schedule]


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
    """
    order = np.lexsort((np.arange(schedule.num_sends), -schedule.done_ns))
    chunk, channel = schedule.chunk[order], image.channel[schedule.channel[order]]
    reduces = topology.channel_dst[channel] < topology.num_endpoints
    sends = Sends(chunk, channel, reduces, trip=None if schedule.trip is None else schedule.trip[order])
    return settle(topology, schedule.collective, timing, sends, schedule.synthesizer, schedule.seed)


def backwards(spread: Make, topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """What only reduces, as what spreads on the mirror image; `spread` makes the schedule there."""
    image = mirror(topology, timing)
    return mirrored(spread(image.topology, collective, image.timing, seed), image, topology, timing)
