"""Ring: every NPU has a link to each neighbour; with two NPUs that is one link each way."""

from __future__ import annotations

import numpy as np

from astra_tacos.topology.building_block import BlockLinks


def ring(size: int) -> BlockLinks:
    """Links of a bidirectional ring (`astra-network-analytical`, `Ring.cpp`)."""
    npus = np.arange(size)
    following = (npus + 1) % size
    if size == 2:
        return BlockLinks(npus, following)
    return BlockLinks(np.concatenate((npus, following)), np.concatenate((following, npus)))
