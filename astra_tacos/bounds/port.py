"""Bounds in whole chunks from the bandwidth of links: into one NPU, out of one NPU, and over the whole network.

An All-Gather brings all chunks of other NPUs into every NPU. A Reduce-Scatter, its mirror image, takes as many partial sums out
of every NPU. An All-Reduce brings at least one message per chunk into every NPU and takes one out of it. Spreading one chunk to
all NPUs, or summing it up, costs N-1 messages; doing both costs 2(N-1) (gossiping with one-way calls, see `partition`). A
personalised chunk costs one message out of its owner and one into its target.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.delivery import deliveries, last_step_ns, smallest_time
from astra_tacos.bounds.way_volume import way_volume
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import Timing


def ingress(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """Time that the links into the worst NPU need for the messages that it must receive."""
    if collective.chunk_target is not None:
        messages = np.bincount(collective.chunk_target, minlength=topology.num_npus)
    else:
        messages = _all_messages(collective) if collective.gathers else collective.chunks_owned
    time, npu, links = _worst_npu(topology, collective, timing, topology.link_dst, messages)
    return Bound("ingress", time, f"links into NPU {npu}", (npu,), links)


def egress(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """Time that the links out of the worst NPU need for the messages that it must send."""
    messages = _all_messages(collective) if collective.reduces else collective.chunks_owned
    time, npu, links = _worst_npu(topology, collective, timing, topology.link_src, messages)
    return Bound("egress", time, f"links out of NPU {npu}", (npu,), links)


def volume(topology: Topology, collective: Collective, timing: Timing) -> Bound:
    """Time that all links together need for all messages; a message through a switch uses one link into it and one out of it.

    For personalised chunks, see `way_volume`.
    """
    if collective.is_personalised:
        return way_volume(topology, collective, timing)
    messages = collective.least_sends
    ends = (topology.link_src, topology.link_dst) if topology.has_switches else (topology.link_src,)
    ports = [np.flatnonzero(device < topology.num_npus) for device in ends]
    time = max(smallest_time(topology, collective, timing, links, messages) for links in ports)
    return Bound("volume", time, "all links together")


def _all_messages(collective: Collective) -> NDArray[np.int64]:
    """int64[num_npus], messages into an NPU that gathers, or out of one that contributes: one for each chunk of others."""
    messages = np.zeros(collective.num_npus, np.int64)
    members = collective.member_npus
    messages[members] = collective.num_chunks
    if collective.num_phases == 1:
        messages[members] -= collective.chunks_owned[members]
    return messages


def _worst_npu(
    topology: Topology,
    collective: Collective,
    timing: Timing,
    link_device: NDArray[np.int32],
    messages: NDArray[np.int64],
) -> tuple[int, int, tuple[int, ...]]:
    at_npus = np.flatnonzero(link_device < topology.num_npus)
    times = deliveries(topology, collective, timing).smallest_times(at_npus, link_device[at_npus], messages)
    worst = int(times.argmax())
    links = tuple(np.flatnonzero(link_device == worst).tolist())
    return int(times[worst]) + last_step_ns(collective, timing), worst, links
