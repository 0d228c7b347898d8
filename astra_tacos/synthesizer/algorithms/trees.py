"""Trees: every chunk travels along its own tree; trees are packed so that link loads are even, then the sends are list-scheduled.

An All-Gather or Broadcast is one tree out of each chunk's owner. A Reduce-Scatter or Reduce is the same on the mirror image of
the network, reversed in time. An All-Reduce sums every chunk up one tree and spreads it down another from the same root, which
may be any NPU; different chunks do both at once. Where links come in pairs of equal speed, this reaches the packing rate of
spanning trees, which on meshes is up to twice the rate of a Reduce-Scatter followed by an All-Gather. See `packing.pack` for the
packing and its sources.

Sends are ranked by their latest start times (`packing.tree_sends`) and list-scheduled. `parts.mirror.justify` then improves the
schedule by forward-backward passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.synthesizer.packing.pack import pack
from astra_tacos.synthesizer.packing.tree_sends import middle_npus, send_graph_along_trees, share_trees
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import justify, mirror, mirrored

_MOST_TREES = 2048
_MOST_PRICES = 1 << 22
"""Trees times channels: what a round of packing looks at."""
_MOST_SENDS = 1 << 24
_MOST_PRICES_OF_ALL = 1 << 28
_BUSY_SHARE = 0.8


def refuse_too_large(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network or a collective is too large for packing; None if it is not."""
    if collective.least_sends > _MOST_SENDS:
        return f"packs at most {_MOST_SENDS:,} sends, these are {collective.least_sends:,}"
    prices = topology.num_npus * topology.num_channels
    if collective.root is None and prices > _MOST_PRICES_OF_ALL:
        return f"packs at most {_MOST_PRICES_OF_ALL:,} NPUs times channels, these are {prices:,}"
    return None


def trees(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    """Pack a tree for every chunk and schedule their sends.

    Parameters
    ----------
    topology
        The network.
    collective
        The collective to synthesize.
    timing
        Delays of chunks on the links of the network.
    seed
        In which order trees are packed; the same arguments give the same schedule.

    Raises
    ------
    SynthesisError
        If some NPU cannot be reached.
    """
    if collective.gathers:
        return _spread(topology, collective, timing, seed)
    image = mirror(topology, timing)
    return mirrored(_spread(image.topology, collective, image.timing, seed), image, topology, timing)


def _spread(topology: Topology, collective: Collective, timing: Timing, seed: int) -> Schedule:
    tree_of, root = _assign(topology, collective, timing, seed)
    copies = np.bincount(tree_of).astype(np.float64)
    inward = np.array([True, False] if collective.num_phases == 2 else [False])
    packing = pack(topology, timing, inward, root, copies, seed)
    sends = send_graph_along_trees(collective, packing, tree_of)
    return justify(dispatch(topology, collective, timing, sends, "trees", seed, _BUSY_SHARE), _BUSY_SHARE)


def _assign(topology: Topology, collective: Collective, timing: Timing, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tree of each chunk, and the roots of trees: the owners of chunks, or central NPUs."""
    most = int(np.clip(_MOST_PRICES // topology.num_channels, 1, _MOST_TREES))
    if collective.num_phases == 2:
        middle = np.roll(middle_npus(topology, timing, collective.member_npus), seed % topology.num_npus)
        num_trees = min(max(most, len(middle)), collective.num_chunks)
        return np.arange(collective.num_chunks) % num_trees, middle[np.arange(num_trees) % len(middle)]
    return share_trees(collective.chunk_owner, topology.num_npus, most)
