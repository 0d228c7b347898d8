"""Chunks that spread through one dimension after another, in each dimension by the pattern of its building block."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.blocks.routing import Spreads, spread_directly
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.send_graph import SendGraph
from astra_tacos.synthesizer.routing.routing import Spread, make_send_graph


def refuse_without_dimensions(topology: Topology, collective: Collective) -> str | None:
    """Refuse arbitrary graphs, which have no dimensions."""
    return None if topology.dimensions else "it is a graph of links, expected a network of dimensions"


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """How chunks move within each dimension.

    Parameters
    ----------
    spreads
        How a chunk spreads from each member of a group to all others (see `BuildingBlock.spread`).
    bit_by_bit
        Whether a personalised chunk goes by powers of two, as in Bruck's algorithm, or straight to its target's place.
    """

    spreads: tuple[Spreads, ...]
    bit_by_bit: tuple[bool, ...]


def along_dimensions(
    problem: Problem,
    orders: NDArray[np.int8],
    synthesizer: str,
    seed: int,
    one_by_one: bool = False,
) -> Schedule:
    """The schedule in which chunks spread by the patterns of the blocks, or straight; personalised ones go straight.

    Steps of powers of two save a link that is held for the latency of every send; one that is not held saves latency by sending
    to all at once. With `one_by_one`, chunks that would leave together go one by one.
    """
    topology, collective, timing = problem
    straight = not timing.is_blocking and not collective.is_personalised
    spreads = tuple(
        spread_directly(dimension.size)
        if straight and not dimension.building_block.hops_through_members
        else dimension.building_block.spread(dimension.size)
        for dimension in topology.dimensions
    )
    sends = send_graph_over_dimensions(problem, orders, Ways(spreads, (False,) * len(spreads)))
    sends = replace(sends, message=None) if one_by_one else sends
    return dispatch(problem, sends, synthesizer, seed)


def send_graph_over_dimensions(problem: Problem, orders: NDArray[np.int8], ways: Ways) -> SendGraph:
    """Sends that reduce every chunk along one dimension after another, in its own order, and gather it in the reverse order.

    While a chunk is reduced in a dimension, it does not use the later ones, so the chunks of a shard start one after another:
    then all dimensions are soon in use. Gatherings do not need this, because they begin with the least data. Personalised chunks
    travel along one dimension after another to their targets.

    Parameters
    ----------
    orders
        int8[num_chunks, num_dimensions].
    """
    topology, collective = problem.topology, problem.collective
    if collective.is_personalised:
        spread = _turn_by_turn(topology, collective, orders, np.array(ways.bit_by_bit))
    else:
        spread = _spread(ways.spreads, collective, orders[:, ::-1])
    sends = make_send_graph(problem, lambda turned: spread)
    if collective.is_personalised:
        return sends
    turns, steps = np.int32(collective.chunks_per_npu), sends.rank.max() + 1
    turn = np.where(sends.reduces, sends.chunk % turns, turns)
    return replace(sends, rank=sends.rank + turn * steps)


def _turn_by_turn(topology: Topology, collective: Collective, orders: NDArray[np.int8], bit_by_bit: Bools) -> Spread:
    """In stage i, a chunk goes to the NPU that is at its target's place in dimension `orders[chunk, i]`."""
    assert collective.chunk_target is not None
    sizes = np.array([dimension.size for dimension in topology.dimensions])
    strides = np.cumprod([1, *sizes[:-1]])
    here, target = collective.chunk_owner.astype(np.int64), collective.chunk_target.astype(np.int64)
    columns: list[tuple[Ints, ...]] = []
    step = 0
    for stage in range(len(sizes)):
        dimension = orders[:, stage]
        size, stride, by_bits = sizes[dimension], strides[dimension], bit_by_bit[dimension]
        for bit in range(int(size.max() - 1).bit_length() if by_bits.any() else 1):
            place = here // stride % size
            distance = (target // stride - place) % size
            distance = np.where(by_bits, distance & (1 << bit), distance)
            there = here + ((place + distance) % size - place) * stride
            moves = np.flatnonzero(there != here)
            columns.append((moves, here[moves], there[moves], np.full(len(moves), step)))
            here = there
            step += 1
    return Spread(*(np.concatenate(column).astype(np.int32) for column in zip(*columns, strict=True)))


def _spread(spreads: tuple[Spreads, ...], collective: Collective, orders: NDArray[np.int8]) -> Spread:
    """In stage i, all NPUs that have a chunk spread it along dimension `orders[chunk, i]`."""
    kinds, kind = np.unique(orders, axis=0, return_inverse=True)
    parts = [
        _spread_in_order(spreads, collective.chunk_owner, np.flatnonzero(kind.ravel() == i).astype(np.int32), order)
        for i, order in enumerate(kinds.tolist())
    ]
    return Spread(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _spread_in_order(spreads: tuple[Spreads, ...], owner: Ints32, chunk: Ints32, order: list[int]) -> tuple[Ints32, ...]:
    """Chunk, source, destination and step of all sends of some chunks."""
    strides = np.cumprod([1] + [spread.shape[1] for spread in spreads[:-1]]).astype(np.int32)
    base = owner[chunk]
    others = np.zeros(1, np.int32)
    columns: list[list[Ints32]] = [[], [], [], []]
    first_step = 0
    for index in order:
        size, stride = spreads[index].shape[1], strides[index]
        place = base // stride % size
        base = base - place * stride
        tree = spreads[index][np.arange(len(chunk)) % len(spreads[index]), place]
        shape = (len(chunk), len(others), size - 1)
        start = base[:, None, None] + others[None, :, None]
        ends = (start + (tree[:, end] * stride)[:, None] for end in (0, 1))
        rows = (chunk[:, None, None], *ends, (tree[:, 2] + first_step)[:, None])
        for column, row in zip(columns, rows, strict=True):
            column.append(np.broadcast_to(row, shape).ravel())
        others = (others[:, None] + np.arange(size, dtype=np.int32) * stride).ravel()
        first_step += int(tree[:, 2].max()) + 1
    return tuple(np.concatenate(column) for column in columns)
