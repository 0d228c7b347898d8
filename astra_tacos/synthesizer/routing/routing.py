"""Routing of logical sends, between any two NPUs, over channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.grouping import group_by, row_places
from astra_tacos.synthesizer.parts.dispatch import link_occupancy
from astra_tacos.synthesizer.parts.send_graph import SendGraph

_MUCH = 500_000_000
"""Limit on the number of trees of paths times channels; above it, paths are computed only once."""
_MOST_TREES = 64
"""For the personalised chunks of an NPU, which are as many as there are others."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How every chunk spreads from one NPU to all (or to its target): an out-tree per chunk, as sends between any two NPUs.

    Parameters
    ----------
    chunk, src, dst
        int32[num_sends].
    step
        int32[num_sends], 0 or more, the algorithm's step; a chunk comes to an NPU in an earlier one than it leaves it in.
    """

    chunk: Ints32
    src: Ints32
    dst: Ints32
    step: Ints32


SpreadOut = Callable[[bool], Spread]
"""What an algorithm is: chunks spread out over the network (False) or over the network with all its links turned round (True)."""


def make_send_graph(problem: Problem, spread_out: SpreadOut) -> SendGraph:
    """The sends of an algorithm: gathering spreads chunks out; reduction is the same on the reversed network, backwards in time.

    Where there is no channel, a send takes the fastest path through other NPUs, which keep the chunks that they relay. A send is
    left out if it would bring a chunk to an NPU for the second time, or if it is not on the path of a personalised chunk. What
    crosses a channel in one step is one message for each of the pieces that the data of an NPU is cut into.
    """
    topology, collective = problem.topology, problem.collective
    if collective.is_personalised:
        spread = spread_out(False)
        chunk, channel, step = _straighten(topology, collective, *_route(problem, spread, False))
        message = _messages(topology, collective, chunk, channel, step, False)
        return SendGraph(chunk, channel, np.zeros(len(chunk), np.bool_), step, message)
    parts = []
    later, messages = 0, 0
    for adds, wanted in ((True, collective.reduces), (False, collective.gathers)):
        if not wanted:
            continue
        spread = spread_out(adds)
        steps = int(spread.step.max()) + 1
        chunk, channel, step = _route(problem, spread, adds)
        rank = (steps - 1 - step if adds else step) + np.int32(later)
        message = _messages(topology, collective, chunk, channel, step, adds) + messages
        parts.append((chunk, channel, np.full(len(chunk), adds), rank, message))
        later += steps
        messages = int(message.max(initial=-1)) + 1
    chunk, channel, reduces, rank, message = (np.concatenate(column) for column in zip(*parts, strict=True))
    return SendGraph(chunk, channel, reduces, rank, message)


def _messages(
    topology: Topology,
    collective: Collective,
    chunk: Ints32,
    channel: Ints32,
    step: Ints32,
    turned: bool,
) -> Ints:
    """int64[num_sends], numbers of messages: one for what crosses a channel in one step, equally far from where the step began.

    But the pieces that the data of an NPU is cut into go one by one.
    """
    near, far = (topology.channel_dst, topology.channel_src) if turned else (topology.channel_src, topology.channel_dst)
    here = chunk.astype(np.int64) * topology.num_npus
    arrival = here + far[channel]
    order = np.argsort(arrival)
    at = np.minimum(np.searchsorted(arrival[order], here + near[channel]), max(len(order) - 1, 0))
    before = order[at]
    goes_on = (arrival[before] == here + near[channel]) & (step[before] == step)
    hop = np.zeros(len(chunk), np.int64)
    while True:
        further = np.where(goes_on, hop[before] + 1, 0)
        if np.array_equal(further, hop):
            break
        hop = further
    return row_places(channel, step, hop, chunk % collective.chunks_per_npu)[1]


def _straighten(
    topology: Topology,
    collective: Collective,
    chunk: Ints32,
    channel: Ints32,
    step: Ints32,
) -> tuple[Ints32, Ints32, Ints32]:
    """The sends on a personalised chunk's path to its target; where paths cross themselves, the sends of the loop are dropped."""
    assert collective.chunk_target is not None
    num_npus = topology.num_npus
    arrival = chunk.astype(np.int64) * num_npus + topology.channel_dst[channel]
    order = np.argsort(arrival)
    arrival = arrival[order]
    kept = np.zeros(len(chunk), np.bool_)
    at, left = collective.chunk_target.astype(np.int64), np.arange(collective.num_chunks)
    while len(left):
        send = order[np.searchsorted(arrival, left * num_npus + at[left])]
        kept[send] = True
        at[left] = topology.channel_src[channel[send]]
        left = left[at[left] != collective.chunk_owner[left]]
    return chunk[kept], channel[kept], step[kept]


def _route(problem: Problem, spread: Spread, turned: bool) -> tuple[Ints32, Ints32, Ints32]:
    """Chunk, channel and step of every physical send."""
    topology, collective = problem.topology, problem.collective
    ends = (spread.dst, spread.src) if turned else (spread.src, spread.dst)
    channel = topology.channel_of(*ends).astype(np.int32)
    far_apart = np.flatnonzero(channel < 0)
    if not len(far_apart):
        return spread.chunk, channel, spread.step
    from astra_tacos.synthesizer.routing._routing_kernels import Sends, merge

    near = topology.channel_dst if turned else topology.channel_src
    row = np.zeros(len(channel), np.int32)
    row[far_apart], last = _find_paths(problem, spread, far_apart, turned)
    order = np.lexsort((spread.step, spread.chunk))
    columns = [column[order] for column in (spread.chunk, spread.src, spread.dst, spread.step, channel, row)]
    merged = tuple(np.empty(collective.num_chunks * (topology.num_npus - 1), np.int32) for _ in range(3))
    count = merge(Sends(*columns), near, last, *merged)
    return merged[0][:count], merged[1][:count], merged[2][:count]


def _find_paths(problem: Problem, spread: Spread, sends: Ints, turned: bool) -> tuple[Ints32, Ints32]:
    """The row of each send, and for each row a tree of paths: the last channel on the path to each NPU.

    Each source has as many trees as an NPU has chunks, so that its chunks can take different paths.
    """
    topology, collective, timing = problem
    from astra_tacos.synthesizer.routing._routing_kernels import Channels, Wants, shortest_paths

    num_npus = topology.num_npus
    trees = max(1, collective.num_chunks // num_npus)
    if collective.is_personalised:
        trees = min(trees, _MOST_TREES)
    key = spread.src[sends] * np.int64(trees) + spread.chunk[sends] % trees
    used = np.bincount(key, minlength=num_npus * trees) > 0
    row = (np.cumsum(used) - 1)[key]
    source = np.flatnonzero(used) // trees
    need_first, need = group_by(row, spread.dst[sends], len(source))
    a_chunk = np.empty(len(source), np.int32)
    a_chunk[row] = spread.chunk[sends]
    is_shared = bool(np.all(a_chunk[row] == spread.chunk[sends]))
    near, far = (topology.channel_dst, topology.channel_src) if turned else (topology.channel_src, topology.channel_dst)
    channels = np.arange(topology.num_channels)
    up_busy, down_busy, _ = link_occupancy(timing, topology.channel_link, topology.channel_down_link)
    last = np.full((len(source), num_npus), -1, np.int32)
    tables = Channels(
        near,
        far,
        timing.channel_delay_ns[:, -1],
        *group_by(near, channels, num_npus),
        *group_by(far, channels, num_npus),
        topology.channel_link,
        topology.channel_down_link,
        up_busy[:, -1],
        down_busy[:, -1],
    )
    rounds = 2 if len(source) * topology.num_channels < _MUCH else 1
    shortest_paths(Wants(source, need_first, need, is_shared), rounds, tables, topology.num_links, last)
    return row.astype(np.int32), last
