"""Switch: one switch device, an up-link and a down-link per NPU. Ports are shared by all that an NPU sends or receives."""

from __future__ import annotations

import numpy as np

from astra_tacos.topology.building_block import BlockLinks


def switch(size: int) -> BlockLinks:
    """Links of a switch, the device of index `size` (`astra-network-analytical`, `Switch.cpp`)."""
    npus = np.arange(size)
    device = np.full(size, size)
    return BlockLinks(np.concatenate((npus, device)), np.concatenate((device, npus)), num_switches=1)
