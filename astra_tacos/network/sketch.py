"""Communication sketches: which links of a network a synthesizer may use, and how finely it cuts.

The idea is that of TACCL (Shah et al., "TACCL: Guiding collective algorithm synthesis using communication sketches", NSDI 2023):
a person who knows the machine rules out what is of no use. The format is our own, in YAML.

A topology under a sketch: without the links that may not be used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from astra_tacos.network.composition import restricted
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.documents import read_yaml
from astra_tacos.support.errors import ConfigError

_MOST_CHUNKS = 4096
"""Of an NPU."""
_Number = Annotated[int, Meta(ge=0, description="a number from 0 on")]
_Places = Annotated[frozenset[_Number], Meta(min_length=1, description="a list of places in a node, from 0 on")]
_Link = Annotated[tuple[_Number, _Number], Meta(description="[src, dst]")]
_Links = Annotated[frozenset[_Link], Meta(description="a list of [src, dst]")]


@dataclass(frozen=True, slots=True)
class Relay:
    """NPUs that alone send, or receive, over a dimension.

    Parameters
    ----------
    dimension
        Number of the dimension, from 0 on.
    senders, receivers
        Places of NPUs among those that differ from them in lower dimensions only; None for all.
    """

    dimension: int
    senders: frozenset[int] | None
    receivers: frozenset[int] | None


class _RelayEntry(Struct, frozen=True, forbid_unknown_fields=True):
    dimension: _Number
    senders: _Places | UnsetType = UNSET
    receivers: _Places | UnsetType = UNSET


_RELAY = Meta(description="dimension, and senders or receivers or both")


class _SketchFile(Struct, frozen=True, forbid_unknown_fields=True):
    chunks: Annotated[int, Meta(ge=1, le=_MOST_CHUNKS, description=f"1 to {_MOST_CHUNKS}")] | None = None
    allow: _Links | UnsetType = UNSET
    forbid: _Links = frozenset()
    relays: Annotated[tuple[Annotated[_RelayEntry, _RELAY], ...], Meta(description="a list")] = ()


@dataclass(frozen=True, slots=True)
class Sketch:
    """A sketch.

    Parameters
    ----------
    chunks
        Chunks per NPU; None for what the search chooses.
    allow
        Links, as the devices at their ends, that alone may be used; None for all.
    forbid
        Links that may not be used.
    """

    path: Path
    chunks: int | None = None
    allow: frozenset[tuple[int, int]] | None = None
    forbid: frozenset[tuple[int, int]] = frozenset()
    relays: tuple[Relay, ...] = ()


def read_sketch(path: Path) -> Sketch:
    """Read a sketch.

    Raises
    ------
    ConfigError
        If the file cannot be read, or has other keys or values.
    """
    document = read_yaml(path)
    given = document.decoded(_SketchFile)
    if not document.content:
        raise ConfigError(f"{path}: found no keys, expected one or more of {', '.join(_SketchFile.__struct_fields__)}")
    relays = tuple(Relay(relay.dimension, relay.senders or None, relay.receivers or None) for relay in given.relays)
    for index, relay in enumerate(relays):
        if relay.senders is None and relay.receivers is None:
            raise (document / "relays" / index).unlike(str(_RELAY.description))
    return Sketch(path, given.chunks, None if given.allow is UNSET else given.allow, given.forbid, relays)


def under_sketch(topology: Topology, sketch: Sketch) -> tuple[Topology, Ints]:
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


def _closed(topology: Topology, sketch: Sketch, relay: Relay) -> Bools:
    """bool[num_links], the links of a relay's dimension that others than its senders and receivers have."""
    if relay.dimension >= len(topology.dimensions):
        count_text = f"{len(topology.dimensions)} dimensions" if topology.dimensions else "no dimensions"
        raise ConfigError(f"{sketch.path}: relays name dimension {relay.dimension}, {topology.name} has {count_text}")
    size = math.prod(dimension.size for dimension in topology.dimensions[: relay.dimension])
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
