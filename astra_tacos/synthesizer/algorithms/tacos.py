"""TACOS: synthesis by matching links with chunks over the time-expanded network.

Source: Won et al., "TACOS: Topology-Aware Collective Algorithm Synthesizer for Distributed Machine Learning"
(arXiv 2304.05301), section IV. An All-Gather is matched; a Reduce-Scatter is an All-Gather on the transposed network, reversed
in time; an All-Reduce is both, where the gathering of a chunk starts as soon as the chunk is reduced.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Ints32
from astra_tacos.synthesizer.matching.matching import match_all_gather


def tacos(problem: Problem, seed: int) -> Schedule:
    """One random matching of a collective.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    topology, collective, timing = problem
    if not collective.reduces:
        gathered = match_all_gather(problem, seed, reverse=False)
        copies = np.zeros(len(gathered.chunk), np.bool_)
        # The matcher sends as early as can be, unless links differ, where slow ones may be left idle on purpose, or there are
        # switches, whose ports wait for one another.
        if not topology.has_switches and np.all(timing.channel_delay_ns == timing.channel_delay_ns[0]):
            columns = (gathered.chunk, gathered.channel, copies, gathered.start_ns, gathered.end_ns)
            return Schedule(topology, collective, timing, *columns, "tacos", seed)
        return settle(problem, Sends(gathered.chunk, gathered.channel, copies), "tacos", seed)
    scattered = _reduce_scatter(problem, seed)
    if not collective.gathers:
        return scattered
    return min(_gather_back(scattered), key=lambda schedule: schedule.collective_time_ns)


def _reduce_scatter(problem: Problem, seed: int) -> Schedule:
    """An All-Gather on the transposed network, reversed in time."""
    backward = match_all_gather(problem, seed, reverse=True)
    order = np.argsort(-backward.end_ns[::-1], kind="stable")
    chunk, channel = backward.chunk[::-1][order], backward.channel[::-1][order]
    return settle(problem, Sends(chunk, channel, np.ones(len(chunk), np.bool_)), "tacos", seed)


def _gather_back(scattered: Schedule) -> list[Schedule]:
    """All-Reduces that continue a Reduce-Scatter: each chunk is gathered as soon as it is reduced.

    One has an All-Gather matched to the links that become free. If every channel has an equal one in the opposite direction,
    another has the Reduce-Scatter reversed.
    """
    topology, collective, timing, seed = scattered.topology, scattered.collective, scattered.timing, scattered.seed
    forward = match_all_gather(Problem(topology, collective, timing), seed, reverse=False, after=scattered)
    gathers = [(forward.chunk, forward.channel)]
    back = _channel_back(topology, timing)
    if back is not None:
        order = np.argsort(-scattered.end_ns[::-1], kind="stable")
        gathers.append((scattered.chunk[::-1][order], back[scattered.channel[::-1][order]]))
    reduces = np.repeat((True, False), scattered.num_sends)
    schedules = []
    for gathered, over in gathers:
        chunk, channel = np.concatenate((scattered.chunk, gathered)), np.concatenate((scattered.channel, over))
        schedules.append(settle(Problem(topology, collective, timing), Sends(chunk, channel, reduces), "tacos", seed))
    return schedules


@lru_cache(maxsize=4)
def _channel_back(topology: Topology, timing: Timing) -> Ints32 | None:
    """int32[num_channels], the channel in the opposite direction; None unless every channel has one of the same speed."""
    back = topology.channel_of(topology.channel_dst, topology.channel_src)
    if np.any(back < 0) or np.any(timing.channel_delay_ns[back] != timing.channel_delay_ns):
        return None
    return back.astype(np.int32)
