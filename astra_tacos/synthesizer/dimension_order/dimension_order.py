"""Chunks that spread through one dimension after another, in each dimension by the pattern of its building block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.config.network import Dimension
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.dispatch.send_graph import SendGraph
from astra_tacos.synthesizer.routing.routing import Spread, make_send_graph
from astra_tacos.topology.topology import Topology


def refuse_without_dimensions(topology: Topology, collective: Collective) -> str | None:
    """Refuse arbitrary graphs, which have no dimensions."""
    return None if topology.dimensions else "it is a graph of links, expected a network of dimensions"


def send_graph_over_dimensions(topology: Topology, collective: Collective, timing: Timing, orders: NDArray[np.int8]) -> SendGraph:
    """Sends that reduce every chunk along one dimension after another, in its own order, and gather it in the reverse order.

    While a chunk is reduced in a dimension, it does not use the later ones, so the chunks of a shard start one after another:
    then all dimensions are soon in use. Gatherings do not need this, because they begin with the least data. Personalised chunks
    travel along one dimension after another to their targets.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    orders
        int8[num_chunks, num_dimensions].
    """
    if collective.is_personalised:
        return make_send_graph(topology, collective, timing, lambda turned: _turn_by_turn(topology, collective, orders))
    spread = _spread(topology, collective, orders[:, ::-1])
    sends = make_send_graph(topology, collective, timing, lambda turned: spread)
    turns, steps = np.int32(collective.chunks_per_npu), sends.rank.max() + 1
    turn = np.where(sends.reduces, sends.chunk % turns, turns)
    return replace(sends, rank=sends.rank + turn * steps)


def _turn_by_turn(topology: Topology, collective: Collective, orders: NDArray[np.int8]) -> Spread:
    """In stage i, a chunk goes to the NPU that is at its target's place in dimension `orders[chunk, i]`."""
    assert collective.chunk_target is not None
    sizes = np.array([dimension.size for dimension in topology.dimensions])
    strides = np.cumprod([1, *sizes[:-1]])
    here, target = collective.chunk_owner.astype(np.int64), collective.chunk_target.astype(np.int64)
    columns: list[tuple[NDArray[np.int64], ...]] = []
    for stage in range(len(sizes)):
        size, stride = sizes[orders[:, stage]], strides[orders[:, stage]]
        there = here + (target // stride % size - here // stride % size) * stride
        moves = np.flatnonzero(there != here)
        columns.append((moves, here[moves], there[moves], np.full(len(moves), stage)))
        here = there
    return Spread(*(np.concatenate(column).astype(np.int32) for column in zip(*columns, strict=True)))


def _spread(topology: Topology, collective: Collective, orders: NDArray[np.int8]) -> Spread:
    """In stage i, all NPUs that have a chunk spread it along dimension `orders[chunk, i]`."""
    kinds, kind = np.unique(orders, axis=0, return_inverse=True)
    parts = [
        _spread_in_order(topology.dimensions, collective.chunk_owner, np.flatnonzero(kind.ravel() == i).astype(np.int32), order)
        for i, order in enumerate(kinds.tolist())
    ]
    return Spread(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _spread_in_order(
    dimensions: tuple[Dimension, ...], owner: NDArray[np.int32], chunk: NDArray[np.int32], order: list[int]
) -> tuple[NDArray[np.int32], ...]:
    """Chunk, source, destination and step of all sends of some chunks."""
    strides = np.cumprod([1] + [dimension.size for dimension in dimensions[:-1]]).astype(np.int32)
    way = np.arange(len(chunk)) % 2
    base = owner[chunk]
    others = np.zeros(1, np.int32)
    columns: list[list[NDArray[np.int32]]] = [[], [], [], []]
    first_step = 0
    for index in order:
        size, stride = dimensions[index].size, strides[index]
        place = base // stride % size
        base = base - place * stride
        tree = dimensions[index].building_block.spread(size)[way, place]
        shape = (len(chunk), len(others), size - 1)
        start = base[:, None, None] + others[None, :, None]
        ends = (start + (tree[:, end] * stride)[:, None] for end in (0, 1))
        rows = (chunk[:, None, None], *ends, (tree[:, 2] + first_step)[:, None])
        for column, row in zip(columns, rows, strict=True):
            column.append(np.broadcast_to(row, shape).ravel())
        others = (others[:, None] + np.arange(size, dtype=np.int32) * stride).ravel()
        first_step += int(tree[:, 2].max()) + 1
    return tuple(np.concatenate(column) for column in columns)
