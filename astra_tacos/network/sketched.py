"""A topology under a sketch: without the links that may not be used."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.composition import restricted
from astra_tacos.network.sketch import Relay, Sketch
from astra_tacos.network.topology import Topology
from astra_tacos.support.errors import ConfigError


def under_sketch(topology: Topology, sketch: Sketch) -> tuple[Topology, NDArray[np.int64]]:
    """The topology with the links that a sketch leaves, and int64[their number], their numbers in the whole one.

    Raises
    ------
    ConfigError
        If the sketch names links, dimensions or places that do not exist, or NPUs cannot reach one another under it.
    """
    kept = np.ones(topology.num_links, np.bool_)
    ends = list(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))
    known = set(ends)
    for key, named in (("allow", sketch.allow or frozenset()), ("forbid", sketch.forbid)):
        absent = sorted(named - known)
        if absent:
            raise ConfigError(
                f"{sketch.path}: {key} names {absent[0][0]} -> {absent[0][1]}, expected a link of {topology.name}; ports of "
                f"switches are links from and to devices {topology.num_npus} and up"
            )
    if sketch.allow is not None:
        kept &= [pair in sketch.allow for pair in ends]
    kept &= [pair not in sketch.forbid for pair in ends]
    for relay in sketch.relays:
        kept &= ~_closed(topology, sketch, relay)
    number = np.flatnonzero(kept)
    if not len(number):
        raise ConfigError(f"{sketch.path}: leaves no link of {topology.name}, expected some")
    return restricted(topology, number, f"{topology.name} under {sketch.path}"), number


def _closed(topology: Topology, sketch: Sketch, relay: Relay) -> NDArray[np.bool_]:
    """bool[num_links], the links of a relay's dimension that others than its senders and receivers have."""
    if relay.dimension >= len(topology.dimensions):
        found = f"{len(topology.dimensions)} dimensions" if topology.dimensions else "no dimensions"
        raise ConfigError(f"{sketch.path}: relays name dimension {relay.dimension}, {topology.name} has {found}")
    size = math.prod(each.size for each in topology.dimensions[: relay.dimension])
    closed = np.zeros(topology.num_links, np.bool_)
    of_dimension = topology.link_dimension == relay.dimension
    for places, ends in ((relay.senders, topology.link_src), (relay.receivers, topology.link_dst)):
        if places is None:
            continue
        if max(places) >= size:
            raise ConfigError(
                f"{sketch.path}: relays of dimension {relay.dimension} name place {max(places)}, expected 0 to {size - 1}"
            )
        closed |= of_dimension & (ends < topology.num_npus) & ~np.isin(ends % size, list(places))
    return closed
