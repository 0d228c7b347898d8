"""Synthesizers for networks of NPUs, made to take graphs with devices that forward: they run on networks that stand for these.

Each send becomes a trip over devices. What a trip carries, a chunk or a value, passes devices as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.packet_links import DeviceRoutes
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.arrays import Ints
from astra_tacos.synthesizer.chunk_counts import advise_for_trips
from astra_tacos.synthesizer.exchange.best import counted_ns
from astra_tacos.synthesizer.npu_networks import NpuNetwork, network_of_pairs
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.synthesizer import Synthesizer

_MOST_PAIRS = 1 << 18
_MOST_SENDS = 1 << 22
_ADVISED_SENDS = 100_000
"""Of the number of chunks that is tried beside the fewest: for long pipelines there is column generation."""
_LINKS_OF_TRIP = 4


def on_fabrics(
    entry: Synthesizer,
    make_all: Callable[[Topology, Problem, int], Iterable[Schedule]] | None = None,
    network: Callable[[Topology], NpuNetwork | None] = network_of_pairs,
) -> Synthesizer:
    """A synthesizer for networks of NPUs that also takes graphs with devices that forward.

    Parameters
    ----------
    make_all
        What makes schedules on the network that stands for a fabric, of which the fastest over devices counts: of the fabric and
        the arguments of `entry.make`; None for that alone.
    network
        The network that stands for a fabric, None where none does.
    """

    def make(problem: Problem, seed: int) -> Schedule:
        topology = problem.topology
        if not topology.forwarding:
            return entry.make(problem, seed)
        stands_for = network(topology)
        assert stands_for is not None, "refused"
        fabric_problem = problem.on(stands_for.topology, _on(stands_for, problem.collective))
        if make_all is None:
            return over_devices(problem, entry.make(fabric_problem, seed), stands_for.npu)
        schedules = make_all(topology, fabric_problem, seed)
        return min((over_devices(problem, schedule, stands_for.npu) for schedule in schedules), key=counted_ns)

    def refusal(topology: Topology, collective: Collective) -> str | None:
        if not topology.forwarding:
            return entry.refusal(topology, collective)
        num_pairs = topology.num_endpoints * (topology.num_endpoints - 1)
        if num_pairs > _MOST_PAIRS:
            return f"takes at most {_MOST_PAIRS:,} pairs of NPUs on such graphs, these are {num_pairs:,}"
        if collective.least_sends > _MOST_SENDS:
            return f"schedules at most {_MOST_SENDS:,} sends on such graphs, these are {collective.least_sends:,}"
        stands_for = network(topology)
        if stands_for is None:
            return "it is a graph of links in which NPUs make no levels of equal parts, expected levels or dimensions"
        return entry.refusal(stands_for.topology, _on(stands_for, collective))

    def work(topology: Topology, collective: Collective) -> int:
        stands_for = network(topology) if topology.forwarding else None
        if stands_for is None:
            return entry.work(topology, collective)
        return entry.work(stands_for.topology, _on(stands_for, collective)) + _LINKS_OF_TRIP * collective.least_sends

    def advise(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
        if topology.forwarding:
            return advise_for_trips(topology, name, size_bytes, link_model, min(max_sends, _ADVISED_SENDS))
        return 0 if entry.advise is None else entry.advise(topology, name, size_bytes, link_model, max_sends)

    return replace(entry, make=make, refusal=refusal, work=work, advise=advise, does_forwarding=True)


def _on(stands_for: NpuNetwork, collective: Collective) -> Collective:
    """A collective of a fabric on the network that stands for the fabric."""
    count = stands_for.topology.num_npus
    place = np.empty(count, np.int32)
    place[stands_for.npu] = np.arange(count)
    return collective.renumbered(place, count)


_MOST_ROUTES = 64
"""Equally good routes of a pair among which its chunks take turns."""


def over_devices(problem: Problem, schedule: Schedule, npu: Ints | None = None) -> Schedule:
    """The sends of a schedule between NPUs, over devices, as soon as links are free, in the order of the schedule.

    Chunks of a pair take turns on routes that are equally good.

    Parameters
    ----------
    problem
        The fabric, the collective on it, and the delays of its chunks. A schedule that cuts the collective otherwise keeps its
        chunks.
    npu
        int64[num_endpoints], which NPU of the fabric each NPU of the schedule is; None if it has the same number.
    """
    topology = problem.topology
    npu = np.arange(topology.num_endpoints) if npu is None else npu
    if schedule.collective.num_chunks != problem.collective.num_chunks:
        problem = problem.on(topology, schedule.collective.renumbered(npu, topology.num_npus))
    src, dst = npu[schedule.src], npu[schedule.dst]
    first, link = DeviceRoutes(topology).find(src, dst, dst + (schedule.chunk % _MOST_ROUTES).astype(np.int64))
    hops = np.diff(first)
    channel_of_link = topology.channel_of_link()
    trip = np.repeat(np.arange(schedule.num_sends), hops)
    is_last = np.zeros(len(link), np.bool_)
    is_last[first[1:] - 1] = True
    rank = np.unique(schedule.start_ns, return_inverse=True)[1]
    graph = SendGraph(
        schedule.chunk[trip],
        channel_of_link[link].astype(np.int32),
        schedule.reduces[trip] & is_last,
        rank[trip].astype(np.int32),
        sums=None if schedule.sums is None else schedule.sums.renumbered(npu),
        value=None if schedule.value is None else schedule.value[trip],
        trip=trip.astype(np.int32),
    )
    return dispatch(problem, graph, schedule.synthesizer, schedule.seed)
