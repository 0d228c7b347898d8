"""One-shot: every NPU gets the contributions of all others and adds them up itself, once.

The contributions spread as the shards of an All-Gather do by `tacos` or `routed`, whole or in pieces that follow one another; of
these the fastest is taken. It pays the latency of the network once, where a Reduce-Scatter and an All-Gather pay it twice, for N
times the bytes. Source: NVIDIA TensorRT-LLM and NCCL, "one-shot" All-Reduce.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.collective.patterns import all_gather
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.algorithms.routed import routed
from astra_tacos.synthesizer.algorithms.tacos import tacos
from astra_tacos.synthesizer.exchange.stages import one_shot_of
from astra_tacos.synthesizer.work import route_work

_PIECES = (1, 4, 8)
_MOST_SENDS = 1 << 15
_MOST_WORK_OF_ROUTES = 1 << 15


def one_shot(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Gather all contributions everywhere, and add them up.

    Parameters
    ----------
    topology
        The network.
    collective
        The All-Reduce to synthesize. That of the schedule has as many chunks as there are pieces.
    timing
        Its link model and reduce bandwidth.
    seed
        As for `tacos` and `routed`.

    Raises
    ------
    SynthesisError
        If the buffer is too small for the links.
    """
    num_npus, best = topology.num_npus, None
    # A link that is held on the way gains nothing from pieces.
    for pieces in _PIECES[:1] if timing.is_blocking else _PIECES:
        if pieces > collective.size_bytes or pieces * num_npus * (num_npus - 1) > _MOST_SENDS:
            continue
        gathering = all_gather(num_npus, collective.size_bytes, pieces)
        try:
            delays = timing.of(topology, gathering)
        except SynthesisError:
            if best is None and pieces == 1:
                raise
            continue
        for gather in (tacos, routed):
            if gather is routed and route_work(topology, gathering) > _MOST_WORK_OF_ROUTES:
                continue
            schedule = one_shot_of(gather(topology, gathering, delays, seed), "one-shot")
            time = exact_time_ns(schedule)
            if best is None or time < best[0]:
                best = time, schedule
    if best is None:
        raise SynthesisError(f"{topology.name} has {num_npus} NPUs, expected fewer for one-shot")
    return best[1]


def gathering_ns(topology: Topology, collective: Collective) -> float:
    """How long the slowest NPU takes to receive the contributions of all others."""
    rate = np.zeros(topology.num_devices)
    np.add.at(rate, topology.link_dst, bytes_per_ns(topology.link_bandwidth_gibps))
    num_npus = topology.num_endpoints
    return (num_npus - 1) * collective.size_bytes / float(rate[:num_npus].min())


def refuse_too_many_contributions(topology: Topology, collective: Collective) -> str | None:
    """Every NPU gets a contribution of every other."""
    sends = topology.num_npus * (topology.num_npus - 1)
    if sends > _MOST_SENDS:
        return f"gathers at most {_MOST_SENDS:,} contributions, these are {sends:,}"
    return None
