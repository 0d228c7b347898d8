"""Mesh: an open line of NPUs, a link each way between neighbours."""

from __future__ import annotations

import numpy as np

from astra_tacos.topology.building_block import BlockLinks


def mesh(size: int) -> BlockLinks:
    """Links of a line; ASTRA-sim has no such block, a dimension of it is one axis of a k-D mesh."""
    left = np.arange(size - 1)
    return BlockLinks(np.concatenate((left, left + 1)), np.concatenate((left + 1, left)))
