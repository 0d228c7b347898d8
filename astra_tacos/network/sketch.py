"""Communication sketches: which links of a network a synthesizer may use, and how finely it cuts.

The idea is that of TACCL (Shah et al., "TACCL: Guiding collective algorithm synthesis using communication sketches", NSDI 2023):
a person who knows the machine rules out what is of no use. The format is our own, in YAML.

A topology under a sketch: without the links that may not be used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.network.composition import restricted
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import check_keys, describe, is_whole, list_value, read_yaml_mapping

_KEYS = ("chunks", "allow", "forbid", "relays")
_RELAY_KEYS = ("dimension", "senders", "receivers")
_MOST_CHUNKS = 4096


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


@dataclass(frozen=True, slots=True)
class Sketch:
    """A sketch.

    Parameters
    ----------
    path
        Its file.
    chunks
        Chunks per NPU; None for what the search chooses.
    allow
        Links, as the devices at their ends, that alone may be used; None for all.
    forbid
        Links that may not be used.
    relays
        By dimension.
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
    given = read_yaml_mapping(path)
    check_keys(given, f"{path}:", _KEYS)
    if not given:
        raise ConfigError(f"{path}: says nothing, expected one of {', '.join(_KEYS)}")
    chunks = given.get("chunks")
    if chunks is not None and not is_whole(chunks, 1, _MOST_CHUNKS):
        raise ConfigError(f"{path}: chunks is {describe(chunks)}, expected 1 to {_MOST_CHUNKS}")
    allow = _links(path, "allow", given["allow"]) if "allow" in given else None
    relays = list_value(given.get("relays", []), f"{path}: relays", "a list")
    return Sketch(
        path,
        chunks,
        allow,
        _links(path, "forbid", given.get("forbid", [])),
        tuple(_relay(path, number, entry) for number, entry in enumerate(relays)),
    )


def _links(path: Path, key: str, value: Any) -> frozenset[tuple[int, int]]:
    pairs = list_value(value, f"{path}: {key}", "a list of [src, dst]")
    for number, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2 or not all(is_whole(end, 0, math.inf) for end in pair):
            raise ConfigError(f"{path}: {key}[{number}] is {describe(pair)}, expected [src, dst]")
    return frozenset((src, dst) for src, dst in pairs)


def _relay(path: Path, number: int, entry: Any) -> Relay:
    where = f"{path}: relays[{number}]"
    if not isinstance(entry, dict) or not set(entry) <= set(_RELAY_KEYS) or "dimension" not in entry or len(entry) < 2:
        raise ConfigError(f"{where} is {describe(entry)}, expected dimension, and senders or receivers or both")
    dimension = entry["dimension"]
    if not is_whole(dimension, 0, math.inf):
        raise ConfigError(f"{where}: dimension is {describe(dimension)}, expected a number from 0 on")
    places: list[frozenset[int] | None] = []
    for key in _RELAY_KEYS[1:]:
        value = entry.get(key)
        if key in entry and not (isinstance(value, list) and value and all(is_whole(at, 0, math.inf) for at in value)):
            raise ConfigError(f"{where}: {key} is {describe(value)}, expected a list of places in a node, from 0 on")
        places.append(None if value is None else frozenset(value))
    return Relay(dimension, *places)


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
