"""Stages: permutations of nodes, in each of which every node sends to one other and receives from one other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from astra_tacos.synthesizer.two_level._plan_kernels import Turns

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

    permutation: NDArray[np.int32]
    units: NDArray[np.int64]

    def turns(self) -> Turns:
        """Which units every two nodes exchange in which stage."""
        from astra_tacos.synthesizer.two_level._plan_kernels import Turns

        count = self.permutation.shape[1]
        pair = (np.arange(count) * count + self.permutation).ravel()
        order = np.argsort(pair, kind="stable")
        first = np.concatenate(([0], np.cumsum(np.bincount(pair, minlength=count * count))))
        stage = order // count
        return Turns(first, self.units[stage], stage, len(self.units))


def stages_of(traffic: NDArray[np.int64]) -> Stages:
    """Stages that together take no longer than the busiest node must send or receive.

    Traffic is made up to equal sums of rows and columns, and taken apart into permutations, large ones first (Birkhoff, "Tres
    observaciones sobre el algebra lineal", 1946; for switches: FAST, arXiv 2505.09764).

    Parameters
    ----------
    traffic
        int64[num_nodes, num_nodes], units from each node to each other.
    """
    from astra_tacos.synthesizer.two_level._plan_kernels import decompose

    count = len(traffic)
    most = int(max(traffic.sum(axis=0).max(), traffic.sum(axis=1).max()))
    padded = traffic + _slack(most - traffic.sum(axis=1), most - traffic.sum(axis=0))
    room = max(min(count * count, _MOST_ENTRIES // count), 1)
    permutation, units = np.empty((room, count), np.int32), np.empty(room, np.int64)
    found = decompose(np.ascontiguousarray(padded), int(_LEFT * most), permutation, units)
    return Stages(permutation[:found], units[:found])


def _slack(rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """A matrix of these sums, with few entries: its rows and columns are used up one after another."""
    ends = [np.cumsum(side) for side in (rows, columns)]
    end = np.sort(np.concatenate(ends))
    begin = np.concatenate(([0], end[:-1]))
    taken = end > begin
    begin, end = begin[taken], end[taken]
    slack = np.zeros((len(rows), len(columns)), np.int64)
    row, column = (np.searchsorted(side, begin, side="right") for side in ends)
    slack[row, column] = end - begin
    return slack
