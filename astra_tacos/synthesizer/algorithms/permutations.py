"""Permutations: an All-to-All of unequal parts over nodes, balanced within nodes and by permutations between them.

Every node first moves bytes between its NPUs, so that all its rails carry as much to any other node. Nodes then exchange by
permutations, so that no two send to one at a time; what arrives is passed on within the node. All three overlap, chunk by chunk.
Source: FAST, "Fast all-to-all scheduling for skewed traffic in mixture of experts", arXiv 2505.09764; there between any NPUs of
two nodes, here over rails.
"""

from __future__ import annotations

import numpy as np

from astra_tacos.collective.all_to_allv import of_chunks
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.parts.two_level import nodes_of, plan_exchange

_ROUNDS = 8


def permutations(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Plan the exchange and schedule its sends. It cuts parts as it needs them.

    Parameters
    ----------
    topology
        The network, with nodes and rails.
    collective
        The collective, whose parts have sizes of their own.
    timing
        The link model.
    seed
        Recorded in the schedule; this algorithm makes no random choices.

    Raises
    ------
    SynthesisError
        If pieces of parts are too small for the links.
    """
    nodes = nodes_of(topology)
    assert nodes is not None and collective.part_bytes is not None
    plan = plan_exchange(collective.part_bytes, nodes.size)
    cut = of_chunks(collective.part_bytes, collective.size_bytes, collective.chunks_per_npu, plan.chunk_bytes, plan.src, plan.dst)
    chunk = np.arange(cut.num_chunks)
    crosses = plan.rail >= 0
    # Of what stays in its node, the only hop; of what leaves it, the hop to its rail, if that is another NPU's.
    first_at = np.where(crosses, plan.rail, plan.dst % nodes.size)
    last_from = plan.dst // nodes.size * nodes.size + plan.rail
    hops = (
        (first_at != plan.src % nodes.size, nodes.within[plan.src, first_at]),
        (crosses, nodes.across[plan.rail, plan.src // nodes.size, plan.dst // nodes.size]),
        (crosses & (plan.rail != plan.dst % nodes.size), nodes.within[last_from, plan.dst % nodes.size]),
    )
    sent = np.concatenate([chunk[used] for used, _ in hops]).astype(np.int32)
    channel = np.concatenate([channels[used] for used, channels in hops]).astype(np.int32)
    graph = SendGraph(sent, channel, np.zeros(len(sent), np.bool_), plan.stage[sent])
    timing = timing.of(topology, cut)
    schedule = dispatch(topology, cut, timing, graph, "permutations", seed)
    if timing.is_blocking or nodes.size == 1:
        return schedule
    return _passed_on_as_they_come(schedule, nodes.size)


def _passed_on_as_they_come(schedule: Schedule, node_size: int) -> Schedule:
    """The schedule with chunks passed on within nodes in the order in which they arrive, as long as that makes it faster.

    List scheduling keeps messages from waiting in switches, but they set out as soon as they can, wait there, and arrive in
    another order; then a chunk that comes late would keep others from being passed on.
    """
    topology, collective = schedule.topology, schedule.collective
    best = schedule
    for _ in range(_ROUNDS):
        crosses = schedule.src // node_size != schedule.dst // node_size
        arrival = np.zeros(collective.num_chunks, np.int64)
        arrival[schedule.chunk[crosses]] = schedule.end_ns[crosses]
        passes_on = ~crosses & (schedule.src != collective.chunk_owner[schedule.chunk])
        ready = np.where(passes_on, arrival[schedule.chunk], schedule.start_ns)
        order = np.lexsort((passes_on, ready))
        sends = schedule.sends.in_order(order)
        schedule = settle(topology, collective, schedule.timing, sends, schedule.synthesizer, schedule.seed)
        if schedule.collective_time_ns >= best.collective_time_ns:
            break
        best = schedule
    return best


def refuse_without_rails(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network has no nodes and rails; None if it has."""
    if nodes_of(topology) is None:
        return "needs dimensions in which NPUs have channels to one another, and a last dimension that joins nodes pair by pair"
    return None
