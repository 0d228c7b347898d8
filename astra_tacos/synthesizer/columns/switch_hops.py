"""Sends through store-and-forward switches of dimensions, scheduled hop by hop.

There a chunk keeps no link while another is busy: the switch holds it. List scheduling that looks for two free links at once
leaves links idle where many send to one (incast). So sends are scheduled on the graph in which switches are devices that forward,
and the order in which they start there is that of the schedule.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.composition import with_switches_forwarding
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing, compute_timing


def as_hops(topology: Topology, collective: Collective, timing: Timing) -> tuple[Topology, Collective, Timing]:
    """The graph whose devices that forward are the switches of a topology, with the collective and its delays there."""
    graph = with_switches_forwarding(topology)
    among = replace(collective, num_npus=graph.num_npus, members=collective.member_npus.astype(np.int32))
    return graph, among, compute_timing(graph, among, "pipelined", timing.reduce_bandwidth_gbps)


def from_hops(hops: Schedule, topology: Topology, collective: Collective, timing: Timing) -> Schedule:
    """The schedule on a topology whose sends begin in the order in which those of a schedule of `as_hops` do."""
    assert hops.trip is not None
    first = np.flatnonzero(hops.src < topology.num_npus)
    last = np.flatnonzero(hops.dst < topology.num_npus)
    first = first[np.argsort(hops.trip[first], kind="stable")]
    last = last[np.argsort(hops.trip[last], kind="stable")]
    order = np.lexsort((first, hops.start_ns[first]))
    first, last = first[order], last[order]
    channel = topology.channel_of(hops.src[first], hops.dst[last]).astype(np.int32)
    sends = Sends(hops.chunk[first], channel, hops.reduces[last])
    return settle(topology, collective, timing, sends, hops.synthesizer, hops.seed)
