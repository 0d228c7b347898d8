"""TACOS: synthesis by matching links with chunks over the time-expanded network.

Source: Won et al., "TACOS: Topology-Aware Collective Algorithm Synthesizer for Distributed Machine Learning"
(arXiv 2304.05301), section IV. An All-Gather is matched; a Reduce-Scatter is an All-Gather on the transposed network, reversed
in time; an All-Reduce is both, where the gathering of a chunk starts as soon as the chunk is reduced.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.matching.matching import match_all_gather


def tacos(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """One random matching of a collective.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        Breaks ties; the same arguments give the same schedule.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    if not collective.reduces:
        gathered = match_all_gather(topology, collective, timing, seed, reverse=False)
        copies = np.zeros(len(gathered.chunk), np.bool_)
        # The matcher sends as early as can be, unless links differ, where slow ones may be left idle on purpose, or there are
        # switches, whose ports wait for one another.
        if not topology.has_switches and np.all(timing.channel_delay_ns == timing.channel_delay_ns[0]):
            columns = (gathered.chunk, gathered.channel, copies, gathered.start_ns, gathered.end_ns)
            return Schedule(topology, collective, timing, *columns, "tacos", seed)
        return settle(topology, collective, timing, Sends(gathered.chunk, gathered.channel, copies), "tacos", seed)
    scattered = _reduce_scatter(topology, collective, timing, seed)
    if not collective.gathers:
        return scattered
    gathered = match_all_gather(topology, collective, timing, seed, reverse=False, after=scattered)
    chunk, channel = (np.concatenate(pair) for pair in zip((scattered.chunk, scattered.channel), gathered[:2], strict=True))
    sends = Sends(chunk, channel, np.repeat((True, False), scattered.num_sends))
    return settle(topology, collective, timing, sends, "tacos", seed)


def _reduce_scatter(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """An All-Gather on the transposed network, reversed in time."""
    backward = match_all_gather(topology, collective, timing, seed, reverse=True)
    order = np.argsort(-backward.end_ns[::-1], kind="stable")
    chunk, channel = backward.chunk[::-1][order], backward.channel[::-1][order]
    return settle(topology, collective, timing, Sends(chunk, channel, np.ones(len(chunk), np.bool_)), "tacos", seed)
