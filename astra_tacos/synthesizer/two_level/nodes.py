"""Networks of two levels: nodes whose NPUs all have channels to one another, and rails that join the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The nodes of a network. NPU `node * size + place` is in `node`, on the rail `place`.

    Parameters
    ----------
    count, size
        Number of nodes, and of NPUs in each.
    within
        int64[count * size, size], the channel from each NPU to each place of its node, -1 to itself.
    across
        int64[size, count, count], the channel of each rail from each node to each other, -1 to itself.
    """

    count: int
    size: int
    within: NDArray[np.int64]
    across: NDArray[np.int64]


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
    across = topology.channel_of(*(each.ravel() for each in ends))
    within, across = within.reshape(-1, size), across.reshape(size, count, count)
    if np.count_nonzero(within < 0) > topology.num_npus or np.count_nonzero(across < 0) > topology.num_npus:
        return None
    return Nodes(count, size, within, across)
