"""Building blocks of a user's own, checked when they are registered."""

from __future__ import annotations

import inspect
import re

import numpy as np

from astra_tacos.network.blocks import BUILDING_BLOCKS
from astra_tacos.network.blocks.building_block import BlockLinks, BuildingBlock
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.plugins import Added, add, check_name

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,39}")
_TRIED_SIZES = range(2, 1025)
"""The smallest of these sizes that the block can have is checked."""


def register_building_block(block: type[BuildingBlock]) -> type[BuildingBlock]:
    """Make a class a building block, which network files call by its `name`.

    Parameters
    ----------
    block
        A subclass of `BuildingBlock` with a `name`, `links` and `estimated_channels`. The links of its smallest size are checked.

    Returns
    -------
    block
        The class, unchanged.

    Raises
    ------
    ConfigError
        If the name is taken, a method is missing, or the links are wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from astra_tacos import BUILDING_BLOCKS, BlockLinks, BuildingBlock, register_building_block
    >>> @register_building_block
    ... class OneWayRing(BuildingBlock):
    ...     name = "OneWayRing"
    ...
    ...     def links(self, size):
    ...         return BlockLinks(np.arange(size), (np.arange(size) + 1) % size)
    ...
    ...     def estimated_channels(self, size):
    ...         return size
    >>> BUILDING_BLOCKS["OneWayRing"].links_per_npu(4)
    1
    >>> del BUILDING_BLOCKS["OneWayRing"]
    """
    if not issubclass(block, BuildingBlock):
        raise ConfigError(f"register_building_block: found {block.__name__}, expected a subclass of BuildingBlock")
    if not isinstance(getattr(block, "name", None), str):
        raise ConfigError(f"register_building_block: {block.__name__} lacks name, expected the name in network files")
    check_name("register_building_block: name", block.name, _NAME, "letters and digits like MyRing", BUILDING_BLOCKS)
    where = f"building block {block.name}"
    if inspect.isabstract(block):
        raise ConfigError(f"{where}: lacks {' and '.join(sorted(block.__abstractmethods__))}, expected methods of these names")
    if block.is_in_astra_sim:
        raise ConfigError(f"{where}: is_in_astra_sim is True, expected False: ASTRA-sim has no block of this name")
    instance = block()
    size = next((size for size in _TRIED_SIZES if instance.expected_size(size) is None), None)
    if size is not None and (wrong := _why_wrong(instance, size)):
        raise ConfigError(f"{where}: size {size}: {wrong}")
    BUILDING_BLOCKS[block.name] = instance
    summary = (inspect.getdoc(block) or "").partition("\n")[0] if block.__doc__ else ""
    add(Added("building block", block.name, summary, BUILDING_BLOCKS))
    return block


def _why_wrong(block: BuildingBlock, size: int) -> str:
    """The first fault of the links of a block; "" if there is none."""
    links = block.links(size)
    if not isinstance(links, BlockLinks):
        return f"links returned {type(links).__name__}, expected BlockLinks"
    num_switches = block.num_switches(size)
    if links.num_switches != num_switches:
        return f"links has {links.num_switches} switches, expected {num_switches}, as num_switches says"
    src, dst = np.asarray(links.src), np.asarray(links.dst)
    num_devices = size + num_switches
    for name, ends in (("src", src), ("dst", dst)):
        if ends.dtype.kind not in "iu" or ends.shape != src.shape or ends.ndim != 1 or not len(ends):
            return f"{name} of the links is an array of {ends.dtype}, shape {ends.shape}, expected a whole number for each link"
        if ends.min() < 0 or ends.max() >= num_devices:
            return f"{name} of the links is {ends.min()} to {ends.max()}, expected 0 to {num_devices - 1}"
    if (src == dst).any():
        return f"a link leads from {src[src == dst][0]} to itself, expected another device"
    estimated, between = block.estimated_channels(size), int(((src < size) & (dst < size)).sum())
    if estimated < between:
        return f"estimated_channels is {estimated}, expected at least {between}, the links between members"
    return ""
