"""Whether two networks are one under other numbers: a renumbering of NPUs that takes all links of one to like links of the other.

Colours of devices are refined by the colours of their neighbours (Weisfeiler, Leman) until nothing changes. Where devices share a
colour, one of them is tried with each of the other network's (individualization). What is found is checked link by link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.rotations import mixed
from astra_tacos.network.topology import Topology

_MOST_DEVICES = 256
_MOST_LINKS = 1 << 14
_MOST_TRIED = 512
_Colours = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """Networks over the same NPUs as one graph: their other devices follow one another. `kind` tells links apart."""

    num_npus: int
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    kind: NDArray[np.uint64]
    colour: _Colours


def find_renumbering(
    first: Sequence[Topology], second: Sequence[Topology], marks: tuple[int | None, int | None] = (None, None)
) -> NDArray[np.int64] | None:
    """int64[num_npus], the NPU of the second network that each NPU of the first one is; None if none is found.

    Parameters
    ----------
    first, second
        Networks over the same NPUs each: one renumbering has to do for all of them, pair by pair.
    marks
        An NPU of each that has to be the same, if there is one.
    """
    npus = {topology.num_npus for topology in (*first, *second)}
    shapes = [[(each.num_devices, each.num_links) for each in views] for views in (first, second)]
    devices, links = (sum(column) for column in zip(*shapes[0], strict=True))
    if len(npus) > 1 or shapes[0] != shapes[1] or devices > _MOST_DEVICES or links > _MOST_LINKS:
        return None
    if any(topology.forwarding or topology.reducing for topology in (*first, *second)):
        return None
    one, other = (_graph(views, mark) for views, mark in zip((first, second), marks, strict=True))
    left = [_MOST_TRIED]
    found = _match(one, other, _refined(one, one.colour), _refined(other, other.colour), left)
    return None if found is None else found[: one.num_npus]


def _graph(views: Sequence[Topology], mark: int | None) -> _Graph:
    num_npus = views[0].num_npus
    count, srcs, dsts, kinds = num_npus, [], [], []
    colours = [np.zeros(num_npus, np.uint64)]
    for number, view in enumerate(views):
        shift = count - num_npus
        src, dst = (np.where(ends < num_npus, ends, ends + shift) for ends in (view.link_src, view.link_dst))
        srcs.append(src.astype(np.int64))
        dsts.append(dst.astype(np.int64))
        rate, delay = (np.ascontiguousarray(column, np.float64) for column in (view.link_bandwidth_gibps, view.link_latency_ns))
        kinds.append(mixed(mixed(rate.view(np.uint64)) + delay.view(np.uint64)) + np.uint64(number))
        others = view.num_devices - num_npus
        colours.append(np.full(others, number + 1, np.uint64))
        count += others
    colour = np.concatenate(colours)
    if mark is not None:
        colour[mark] = len(views) + 1
    return _Graph(num_npus, np.concatenate(srcs), np.concatenate(dsts), np.concatenate(kinds), colour)


def _refined(graph: _Graph, colour: _Colours) -> _Colours:
    """Colours that tell apart what neighbours of different colours tell apart."""
    known = len(np.unique(colour))
    while True:
        fresh = mixed(colour)
        np.add.at(fresh, graph.src, mixed(mixed(colour[graph.dst]) + graph.kind))
        np.add.at(fresh, graph.dst, mixed(mixed(colour[graph.src]) ^ mixed(graph.kind)))
        colour = mixed(fresh)
        count = len(np.unique(colour))
        if count == known:
            return colour
        known = count


def _match(one: _Graph, other: _Graph, here: _Colours, there: _Colours, left: list[int]) -> NDArray[np.int64] | None:
    """Where each device goes, given colours of both graphs; `left` counts down what may still be tried."""
    values, counts = np.unique(here, return_counts=True)
    if not np.array_equal(np.sort(here), np.sort(there)):
        return None
    if counts.max() == 1:
        moved = np.empty(len(here), np.int64)
        moved[np.argsort(here)] = np.argsort(there)
        return moved if _is_same(one, other, moved) else None
    several = np.flatnonzero(counts > 1)
    value = values[several[np.argmin(counts[several])]]
    device = int(np.argmax(here == value))
    marked = here.copy()
    marked[device] = mixed(value.reshape(1))[0]
    marked = _refined(one, marked)
    for candidate in np.flatnonzero(there == value).tolist():
        if left[0] <= 0:
            return None
        left[0] -= 1
        with_mark = there.copy()
        with_mark[candidate] = mixed(value.reshape(1))[0]
        found = _match(one, other, marked, _refined(other, with_mark), left)
        if found is not None:
            return found
    return None


def _is_same(one: _Graph, other: _Graph, moved: NDArray[np.int64]) -> bool:
    columns = [(moved[one.src], moved[one.dst], one.kind), (other.src, other.dst, other.kind)]
    ordered = [[column[np.lexsort(each)] for column in each] for each in columns]
    return all(np.array_equal(*pair) for pair in zip(*ordered, strict=True))
