"""Trees that chunks travel along: the loads that they put on links, and the lengths of their branches, in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import group_by

if TYPE_CHECKING:
    from astra_tacos.synthesizer.parts._branching_kernels import Channels, Space


@dataclass(frozen=True, slots=True)
class Branches:
    """Times of a chunk along trees without congestion; in trees that lead into their roots, against the links' direction.

    Parameters
    ----------
    away_ns
        int64[num_trees, num_npus], from the root to the NPU.
    ahead_ns
        int64[num_trees, num_npus], from the NPU to the last one behind it.
    entry_ns
        int64[num_trees, num_npus], over the channel that joins the NPU to the tree; 0 for the root.
    """

    away_ns: NDArray[np.int64]
    ahead_ns: NDArray[np.int64]
    entry_ns: NDArray[np.int64]


def measure(topology: Topology, timing: Timing, channel: NDArray[np.int32], inward: bool) -> Branches:
    """Measure trees.

    Parameters
    ----------
    topology
        The network.
    timing
        Delays of chunks on the links of the network.
    channel
        int32[num_trees, num_npus], the channel that joins each NPU to the tree, -1 for the root.
    inward
        Whether trees lead into their roots.
    """
    from astra_tacos.synthesizer.parts._branching_kernels import Branches as Results
    from astra_tacos.synthesizer.parts._branching_kernels import walk

    channel_ns = timing.channel_delay_ns[:, -1] + (timing.reduction_ns[-1] if inward else 0)
    away_ns, ahead_ns = np.empty((2, *channel.shape), np.int64)
    walk(channel, inward, topology.channel_src, topology.channel_dst, channel_ns, Results(away_ns, ahead_ns))
    return Branches(away_ns, ahead_ns, np.where(channel >= 0, channel_ns[channel], 0))


@dataclass(frozen=True, slots=True)
class Packing:
    """Trees, and the loads that they put on links.

    Parameters
    ----------
    inward
        bool[num_kinds]: of each kind of tree, whether it leads into its root (to sum up) rather than out of it.
    root
        int64[num_trees], of the trees of every kind.
    channel
        int32[num_kinds, num_trees, num_npus], the channel that joins each NPU to the tree, from its root's side; -1 for the root.
    branches
        How long the trees of each kind are.
    link_ns
        float64[num_links], how long each link is busy with all chunks.
    """

    inward: NDArray[np.bool_]
    root: NDArray[np.int64]
    channel: NDArray[np.int32]
    branches: tuple[Branches, ...]
    link_ns: NDArray[np.float64]


