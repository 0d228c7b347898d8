"""Building blocks: the kinds of network that one dimension can be. `BUILDING_BLOCKS` lists them."""

from __future__ import annotations

from astra_tacos.network.blocks.building_block import BuildingBlock
from astra_tacos.network.blocks.fully_connected import FULLY_CONNECTED
from astra_tacos.network.blocks.hypercube import HYPERCUBE
from astra_tacos.network.blocks.mesh import MESH
from astra_tacos.network.blocks.ring import RING
from astra_tacos.network.blocks.switch import SWITCH
from astra_tacos.network.blocks.twisted_torus import TWISTED_TORUS
from astra_tacos.support.errors import ConfigError

BUILDING_BLOCKS: dict[str, BuildingBlock] = {
    block.name: block
    for block in (
        RING,
        FULLY_CONNECTED,
        SWITCH,
        MESH,
        HYPERCUBE,
        TWISTED_TORUS,
    )
}
"""Building blocks by the name that network files use.

Examples
--------
>>> from astra_tacos import BUILDING_BLOCKS
>>> "Ring" in BUILDING_BLOCKS
True
"""

ASTRA_SIM_BLOCKS = tuple(name for name, block in BUILDING_BLOCKS.items() if block.is_in_astra_sim)
"""Names of the blocks that ASTRA-sim has, too."""


def building_block(name: str) -> BuildingBlock:
    """The building block of a name.

    Raises
    ------
    ConfigError
        If no block has this name.
    """
    if name not in BUILDING_BLOCKS:
        raise ConfigError(f"building block: found {name!r}, expected {' or '.join(BUILDING_BLOCKS)}")
    return BUILDING_BLOCKS[name]
