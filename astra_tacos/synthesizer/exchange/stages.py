"""The stages of an All-Reduce: in each, the groups of a level exchange what they hold of some chunks.

Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005), section 4.5 (recursive
doubling; reduce-scatter, then all-gather); one-shot and two-shot All-Reduces as in NVIDIA's TensorRT-LLM and NCCL.

The stages fill a growing table of values: contributions first, then sums in the order in which they are made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks.routing import Spreads
from astra_tacos.schedule.partial_sums import NO_NPU, PartialSums
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.grouping import group_by, row_places
from astra_tacos.synthesizer.exchange.level import Level


class Values:
    """Values of chunks: NPU v's contribution to chunk c is value `c * num_npus + v`; sums are added."""

    def __init__(self, num_npus: int, num_chunks: int) -> None:
        self.num_values = num_npus * num_chunks
        self._chunk = [np.repeat(np.arange(num_chunks, dtype=np.int32), num_npus)]
        self._npu = [np.tile(np.arange(num_npus, dtype=np.int32), num_chunks)]
        self._count = [np.zeros(self.num_values, np.int64)]
        self._part: list[Ints32] = []

    def add(self, chunk: NDArray[np.integer], parts: NDArray[np.integer]) -> Ints:
        """int64[num_sums], the numbers of sums; sums of the same parts are one value.

        Parameters
        ----------
        chunk
            [num_sums], the chunk of each.
        parts
            [num_sums, num_parts], the values that each adds up.
        """
        if not len(chunk):
            return np.empty(0, np.int64)
        parts = np.sort(parts, axis=1)
        # Sums share all parts or none, so the first part tells which sum it is.
        _, first, which = np.unique(parts[:, 0], return_index=True, return_inverse=True)
        self._chunk.append(np.asarray(chunk)[first].astype(np.int32))
        self._npu.append(np.full(len(first), NO_NPU, np.int32))
        self._count.append(np.full(len(first), parts.shape[1], np.int64))
        self._part.append(parts[first].astype(np.int32).ravel())
        numbers: Ints = self.num_values + which.astype(np.int64)
        self.num_values += len(first)
        return numbers

    def table(self, total: NDArray[np.integer]) -> PartialSums:
        """The table, with the whole sum of each chunk."""
        parts = np.concatenate(self._part) if self._part else np.empty(0, np.int32)
        return PartialSums(
            np.concatenate(self._chunk),
            np.concatenate(self._npu),
            np.concatenate(([0], np.cumsum(np.concatenate(self._count)))),
            parts,
            total.astype(np.int32),
        )


NOTHING = -1


@dataclass(slots=True)
class Progress:
    """How far an All-Reduce has come.

    Parameters
    ----------
    held
        int64[num_npus, num_chunks], the value that each NPU holds of each chunk and goes on with; `NOTHING` where another does.
    sends
        int64[..., 4] each: values, their sources and destinations, and steps.
    """

    held: Ints
    values: Values
    sends: list[Ints] = field(default_factory=list)
    step: int = 0

    def send(
        self, value: NDArray[np.integer], src: NDArray[np.integer], dst: NDArray[np.integer], step: NDArray[np.integer] | int
    ) -> None:
        """Send values from NPUs to others; arrays broadcast."""
        columns = np.broadcast_arrays(value, src, dst, self.step + np.asarray(step))
        self.sends.append(np.stack([column.ravel() for column in columns], axis=1).astype(np.int64))


def one_shot(progress: Progress, level: Level, trees: Spreads, chunks: Ints) -> None:
    """Everybody in a group gets what the others hold, and adds it all up: one addition.

    Parameters
    ----------
    trees
        The way in which values spread (see `Level`).
    """
    members, chunk = _pairs(progress, level, chunks)
    parts = progress.held[members, chunk[:, None]]
    owner = np.arange(level.size)
    tree = trees[(chunk[:, None] + owner) % len(trees), owner]
    pair = np.arange(len(chunk))[:, None, None]
    progress.send(parts[:, :, None], members[pair, tree[:, :, 0]], members[pair, tree[:, :, 1]], tree[:, :, 2])
    progress.held[members, chunk[:, None]] = progress.values.add(chunk, parts)[:, None]
    progress.step += int(trees[:, :, 2].max()) + 1


def recursive_doubling(progress: Progress, level: Level, chunks: Ints) -> None:
    """Partners exchange what they hold and add it up, bit by bit; those past a power of two hand over to others first.

    Parameters
    ----------
    progress, level, chunks
        As for `one_shot`.
    """
    members, chunk = _pairs(progress, level, chunks)
    size = 1 << (level.size.bit_length() - 1)
    past = level.size - size
    held = progress.held[members, chunk[:, None]]
    if past:
        progress.send(held[:, size:], members[:, size:], members[:, :past], 0)
        for taker in range(past):
            held[:, taker] = progress.values.add(chunk, held[:, [taker, taker + size]])
        progress.step += 1
    place = np.arange(size)
    for bit in range(size.bit_length() - 1):
        partner = place ^ (1 << bit)
        own_chunks, other = held[:, :size], held[:, partner]
        progress.send(own_chunks, members[:, :size], members[:, partner], 0)
        parts = np.stack((own_chunks, other), axis=2).reshape(-1, 2)
        held[:, :size] = progress.values.add(np.repeat(chunk, size), parts).reshape(own_chunks.shape)
        progress.step += 1
    if past:
        progress.send(held[:, :past], members[:, :past], members[:, size:], 0)
        held[:, size:] = held[:, :1]
        progress.step += 1
    progress.held[members, chunk[:, None]] = held


def scatter(progress: Progress, level: Level, trees: Spreads, chunks: Ints, owner: Ints) -> None:
    """Chunks are summed up at the positions that take them over, along the trees from there backwards.

    Parameters
    ----------
    progress, level, trees, chunks
        As for `one_shot`.
    owner
        int64[num_chunks], the position that takes over each chunk.
    """
    last = int(trees[:, :, 2].max())
    members, chunk = _pairs(progress, level, chunks)
    variant = chunk % len(trees)
    kind = owner[chunk] * len(trees) + variant
    # A node is a position in the tree of a pair; its children send to it. All arrays of sends have their latest steps first.
    parent, child, step = (part.astype(np.int64) for part in np.moveaxis(trees[variant, owner[chunk]], 1, 0))
    pair = np.arange(len(chunk))[:, None]
    latest = np.argsort(-step, axis=1, kind="stable")
    order = np.argsort((kind[:, None] * level.size + np.arange(level.size - 1)).ravel(), kind="stable")
    near, far, step = (
        part[pair, latest].ravel()[order] for part in (pair * level.size + parent, pair * level.size + child, step)
    )
    first, sends = group_by(near, np.arange(len(near)), len(chunk) * level.size)
    children, num_children = far[sends], np.diff(first)
    adds = np.flatnonzero(num_children[far])
    root = pair[:, 0] * level.size + owner[chunk]
    nodes, when = np.append(far[adds], root), np.append(step[adds], np.full(len(root), -1))
    batch = row_places(last - when, num_children[nodes])[1]
    held = progress.held[members, chunk[:, None]].ravel()
    first_of_batch, ready_nodes = group_by(batch, nodes, int(batch.max(initial=-1)) + 1)
    for ready in np.split(ready_nodes, first_of_batch[1:-1]):
        below = children[first[ready][:, None] + np.arange(num_children[ready[0]])]
        held[ready] = progress.values.add(chunk[ready // level.size], held[np.column_stack((ready, below))])
    npu = members.ravel()
    progress.send(held[far], npu[far], npu[near], last - step)
    progress.held[members, chunk[:, None]] = NOTHING
    progress.held[npu[root], chunk] = held[root]
    progress.step += last + 1


def gather(progress: Progress, level: Level, trees: Spreads, chunks: Ints, owner: Ints) -> None:
    """Positions that took over chunks spread what they hold.

    Parameters
    ----------
    progress, level, trees, chunks, owner
        As for `scatter`.
    """
    anybody = progress.held[level.groups[:, :, None], chunks].max(axis=1) != NOTHING
    group, at = np.nonzero(anybody)
    members, chunk = level.groups[group], chunks[at]
    place = owner[chunk]
    value = progress.held[members[np.arange(len(chunk)), place], chunk]
    tree = trees[chunk % len(trees), place]
    pair = np.arange(len(chunk))[:, None]
    progress.send(value[:, None], members[pair, tree[:, 0]], members[pair, tree[:, 1]], tree[:, 2])
    progress.held[members, chunk[:, None]] = value[:, None]
    progress.step += int(trees[:, :, 2].max()) + 1


def _pairs(progress: Progress, level: Level, chunks: Ints) -> tuple[Ints, Ints]:
    """Groups whose members hold a chunk: int64[num_pairs, size], their members, and int64[num_pairs], the chunk."""
    group, at = np.nonzero(progress.held[level.groups[:, 0]][:, chunks] != NOTHING)
    return level.groups[group], chunks[at]
