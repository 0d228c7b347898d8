"""FullyConnected: one link for every ordered pair of NPUs."""

from __future__ import annotations

import numpy as np

from astra_tacos.topology.building_block import BlockLinks


def fully_connected(size: int) -> BlockLinks:
    """Links of a complete graph (`astra-network-analytical`, `FullyConnected.cpp`)."""
    src, dst = np.nonzero(~np.eye(size, dtype=bool))
    return BlockLinks(src, dst)
