"""Permutations: an All-to-All of unequal parts over nodes, balanced within nodes and by permutations between them.

Every node first moves bytes between its NPUs, so that all its rails carry as much to any other node. Nodes then exchange by
permutations, so that no two send to one at a time; what arrives is passed on within the node. All three overlap, chunk by chunk.
Source: FAST, "Fast all-to-all scheduling for skewed traffic in mixture of experts", arXiv 2505.09764; there between any NPUs of
two nodes, here over rails.

A stage is a permutation of nodes: every node sends to one other and receives from one other. `nodes_of` finds nodes whose NPUs
all have channels to one another, and the rails that join nodes. `plan_exchange` cuts parts into chunks and gives each chunk its
rail and stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.collective.all_to_allv import of_chunks
from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import settle
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.grouping import group_by
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph

if TYPE_CHECKING:
    from astra_tacos.synthesizer.algorithms._permutation_kernels import Turns


_LEFT = 0.01
"""Share of the busiest node's traffic that is sent last, in no order: it would take most of the stages."""
_MOST_ENTRIES = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    """Stages of an exchange between nodes.

    Parameters
    ----------
    permutation
        int32[num_stages, num_nodes], the node that each node sends to; itself for none.
    units
        int64[num_stages], what it may send there.
    """

    permutation: Ints32
    units: Ints

    def turns(self) -> Turns:
        """Which units every two nodes exchange in which stage."""
        from astra_tacos.synthesizer.algorithms._permutation_kernels import Turns

        count = self.permutation.shape[1]
        pair = (np.arange(count) * count + self.permutation).ravel()
        first, order = group_by(pair, np.arange(len(pair)), count * count)
        stage = order // count
        return Turns(first, self.units[stage], stage, len(self.units))


def stages_of(traffic: Ints) -> Stages:
    """Stages that together take no longer than the busiest node must send or receive.

    Traffic is made up to equal sums of rows and columns, and taken apart into permutations, large ones first (Birkhoff, "Tres
    observaciones sobre el algebra lineal", 1946; for switches: FAST, arXiv 2505.09764).

    Parameters
    ----------
    traffic
        int64[num_nodes, num_nodes], units from each node to each other.
    """
    from astra_tacos.synthesizer.algorithms._permutation_kernels import decompose

    count = len(traffic)
    most = int(max(traffic.sum(axis=0).max(), traffic.sum(axis=1).max()))
    padded = traffic + _slack(most - traffic.sum(axis=1), most - traffic.sum(axis=0))
    room = max(min(count * count, _MOST_ENTRIES // count), 1)
    permutation, units = np.empty((room, count), np.int32), np.empty(room, np.int64)
    num_stages = decompose(np.ascontiguousarray(padded), int(_LEFT * most), permutation, units)
    return Stages(permutation[:num_stages], units[:num_stages])


def _slack(rows: Ints, columns: Ints) -> Ints:
    """A matrix of these sums, with few entries: its rows and columns are used up one after another."""
    ends = [np.cumsum(side) for side in (rows, columns)]
    end = np.sort(np.concatenate(ends))
    begin = np.concatenate(([0], end[:-1]))
    is_positive = end > begin
    begin, end = begin[is_positive], end[is_positive]
    slack = np.zeros((len(rows), len(columns)), np.int64)
    row, column = (np.searchsorted(side, begin, side="right") for side in ends)
    slack[row, column] = end - begin
    return slack


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The nodes of a network. NPU `node * size + place` is in `node`, on the rail `place`.

    Parameters
    ----------
    within
        int64[num_npus, size], the channel from each NPU to each place of its node, -1 to itself.
    across
        int64[size, num_nodes, num_nodes], the channel of each rail from each node to each other, -1 to itself.
    """

    size: int
    within: Ints
    across: Ints


@lru_cache(maxsize=4)
def nodes_of(topology: Topology) -> Nodes | None:
    """The nodes of a network: all dimensions but the last are within them; None if some pair of NPUs has no channel there.

    A network of one dimension has nodes of one NPU.
    """
    if not topology.dimensions:
        return None
    count = topology.dimensions[-1].size
    size = topology.num_npus // count
    npu, place = np.arange(topology.num_npus)[:, None], np.arange(size)
    within = topology.channel_of(*(ends.ravel() for ends in np.broadcast_arrays(npu, npu // size * size + place)))
    node = np.arange(count) * size
    ends = np.broadcast_arrays(place[:, None, None] + node[:, None], place[:, None, None] + node)
    across = topology.channel_of(*(end.ravel() for end in ends))
    within, across = within.reshape(-1, size), across.reshape(size, count, count)
    if np.count_nonzero(within < 0) > topology.num_npus or np.count_nonzero(across < 0) > topology.num_npus:
        return None
    return Nodes(size, within, across)


_PIECES = 128
"""The busiest rail carries at least about so many pieces, so that hops of different pieces overlap."""
_MOST_PIECES = 1 << 21


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Chunks, of which those of an earlier stage are more urgent.

    Parameters
    ----------
    src, dst
        int32[num_chunks], the NPUs that have and need each.
    rail
        int32[num_chunks], the place in both nodes over which it goes from node to node; -1 if it stays in its node.
    stage
        int32[num_chunks], the stage in which it goes from node to node; for others the number of stages.
    chunk_bytes
        int64[num_chunks].
    """

    stages: Stages
    src: Ints32
    dst: Ints32
    rail: Ints32
    stage: Ints32
    chunk_bytes: Ints


def plan_exchange(part_bytes: Ints, node_size: int) -> Plan:
    """Plan an exchange: balance what leaves every node over its rails, and order it by permutations of nodes.

    Parameters
    ----------
    part_bytes
        int64[num_npus, num_npus], bytes from each NPU to each; some are not for the NPU itself.
    """
    from astra_tacos.synthesizer.algorithms._permutation_kernels import Pieces, lay_pieces

    parts = part_bytes.copy()
    np.fill_diagonal(parts, 0)
    unit = max(int(np.gcd.reduce(parts, axis=None)), 1)
    parts //= unit
    count = len(parts) // node_size
    traffic = parts.reshape(count, node_size, count, node_size).sum(axis=(1, 3))
    inside = np.arange(count)
    traffic[inside, inside] = 0
    busiest = max(int(traffic.sum(axis=0).max()), int(traffic.sum(axis=1).max())) // node_size
    most = max(-(-max(busiest, int(parts.sum(axis=1).max()) // node_size) // _PIECES), int(parts.sum()) // _MOST_PIECES, 1)
    stages = stages_of(traffic) if traffic.any() else Stages(np.empty((0, count), np.int32), np.empty(0, np.int64))
    turns, room = stages.turns(), np.count_nonzero(parts) * 2
    while True:
        src, dst, rail, stage = (np.empty(room, np.int32) for _ in range(4))
        pieces = Pieces(src, dst, rail, stage, np.empty(room, np.int64))
        num_pieces = lay_pieces(parts, node_size, most, turns, pieces)
        if num_pieces <= room:
            break
        room = num_pieces
    return Plan(
        stages, src[:num_pieces], dst[:num_pieces], rail[:num_pieces], stage[:num_pieces], pieces.units[:num_pieces] * unit
    )


_ROUNDS = 8


def permutations(problem: Problem, seed: int) -> Schedule:
    """Plan the exchange and schedule its sends. It cuts parts as it needs them.

    Parameters
    ----------
    seed
        Recorded in the schedule; this algorithm makes no random choices.

    Raises
    ------
    SynthesisError
        If pieces of parts are too small for the links.
    """
    topology, collective = problem.topology, problem.collective
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
    schedule = dispatch(problem.on(topology, cut), graph, "permutations", seed)
    if problem.timing.is_blocking or nodes.size == 1:
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
        schedule = settle(Problem(topology, collective, schedule.timing), sends, schedule.synthesizer, schedule.seed)
        if schedule.collective_time_ns >= best.collective_time_ns:
            break
        best = schedule
    return best


def refuse_without_rails(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network has no nodes and rails; None if it has."""
    if nodes_of(topology) is None:
        return "needs dimensions in which NPUs have channels to one another, and a last dimension that joins nodes pair by pair"
    return None
