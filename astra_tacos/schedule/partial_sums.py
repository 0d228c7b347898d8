"""Partial sums: the values that NPUs exchange in a reduction whose sends carry copies instead of adding to what is there.

A send that reduces adds a chunk to the destination's own, so an NPU has one value of each chunk at a time. Algorithms that
exchange (one-shot All-Reduce, recursive doubling) need several: an NPU sends its own contribution on while it already has those
of others. There, every send copies a value that has a name, and an NPU that has all parts of a sum adds them up itself.

Most values never come to most NPUs, so the pairs of an NPU and a value that occur are numbered: places.

A trip is the hops of a chunk from one NPU over devices that forward to another NPU. A reducing device may be where a trip begins
or ends, as an NPU, or be passed on the way, as any device that forwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import distinct, group_by, members_of
from astra_tacos.support.records import freeze
from astra_tacos.support.units import reduction_ns, reduction_us

NO_NPU = -1
"""Of a sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Pairs of an NPU and a value, ascending.

    Parameters
    ----------
    key
        int64[num_places], ascending: the NPU's number times `num_values`, plus the value's number.
    """

    num_values: int
    key: Ints

    @classmethod
    def of(cls, num_values: int, *pairs: tuple[NDArray[np.integer], NDArray[np.integer]]) -> Places:
        """All pairs of some columns of NPUs and of values, each once."""
        keys = [npu.astype(np.int64) * num_values + value for npu, value in pairs]
        return cls(num_values, distinct(np.concatenate(keys)))

    def __len__(self) -> int:
        return len(self.key)

    @property
    def pairs(self) -> tuple[Ints, Ints]:
        """int64[num_places] each: the NPU and the value of every place."""
        return self.key // self.num_values, self.key % self.num_values

    def find(self, npu: NDArray[np.integer], value: NDArray[np.integer]) -> Ints:
        """int64[...], the numbers of the places of some pairs; `len(self)` for those that do not occur."""
        key = npu.astype(np.int64) * self.num_values + value
        at = np.searchsorted(self.key, key)
        at[np.append(self.key, -1)[at] != key] = len(self.key)
        return at


@dataclass(frozen=True, eq=False)
class PartialSums:
    """Values: the contribution of one NPU to a chunk, or the sum of other values of the chunk. Parts come before their sum.

    Parameters
    ----------
    chunk
        int32[num_values], the chunk that a value belongs to.
    npu
        int32[num_values], whose contribution it is; `NO_NPU` for a sum.
    part_first, part
        int64[num_values + 1] and int32[...]: the values that value i adds up are `part[part_first[i]:part_first[i + 1]]`.
    total
        int32[num_chunks], the value that is the whole sum of each chunk.
    """

    chunk: Ints32
    npu: Ints32
    part_first: Ints
    part: Ints32
    total: Ints32

    def __post_init__(self) -> None:
        freeze(self, "chunk", "npu", "part_first", "part", "total")

    @property
    def num_values(self) -> int:
        """Number of values."""
        return len(self.chunk)

    def renumbered(self, npu: NDArray[np.integer]) -> PartialSums:
        """The same values among other NPUs: `npu` is the new number of each."""
        return replace(self, npu=np.where(self.npu == NO_NPU, NO_NPU, npu[self.npu]).astype(np.int32))

    @cached_property
    def wholes(self) -> tuple[Ints, Ints]:
        """The sums that each value is a part of: int64[num_values + 1] and int64[...]."""
        whole = np.repeat(np.arange(self.num_values), np.diff(self.part_first))
        return group_by(self.part, whole, self.num_values)

    @cached_property
    def height(self) -> Ints:
        """int64[num_values]: 0 for contributions, one more than the highest part for sums."""
        sums = np.flatnonzero(np.diff(self.part_first))
        height = np.zeros(self.num_values, np.int64)
        while len(sums):
            higher = np.maximum.reduceat(height[self.part], self.part_first[sums]) + 1
            if np.array_equal(higher, height[sums]):
                break
            height[sums] = higher
        return height

    def awaited_parts(self, additions: Additions) -> tuple[Ints, Ints]:
        """Additions, and the values that each waits for: its parts without its NPU's own contribution. int64[...] each."""
        begin, at = members_of(self.part_first, additions.value)
        addition, part = np.repeat(np.arange(len(additions)), np.diff(begin)), self.part[at].astype(np.int64)
        awaited = self.npu[part] != additions.npu[addition]
        return addition[awaited], part[awaited]


@dataclass(frozen=True, slots=True, eq=False)
class Additions:
    """Sums that NPUs make themselves, each once, in an order in which parts are made before their sum.

    An NPU makes a sum that it sends on, needs in the end, or adds to another, unless it receives it.

    Parameters
    ----------
    npu, value
        int32[num_additions], who makes which value.
    size_bytes
        int64[num_additions], bytes that it adds: one part less than there are, times the chunk's size.
    """

    npu: Ints32
    value: Ints32
    size_bytes: Ints

    def __len__(self) -> int:
        return len(self.npu)


NO_ADDITIONS = Additions(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))


def addition_ns(size_bytes: Ints, reduce_bandwidth_gbps: float) -> Ints:
    """How long ASTRA-sim takes for COMP nodes that add some numbers of bytes at a decimal GB/s; 0 GB/s is infinitely fast."""
    return reduction_ns(reduction_us(size_bytes, reduce_bandwidth_gbps))


def needed_totals(sums: PartialSums, collective: Collective) -> tuple[Ints, Ints]:
    """NPUs, and the whole sums that they need in the end: all of them, or those of the chunks that they own. int64[...] each."""
    if collective.gathers:
        npus = collective.member_npus
        return np.repeat(npus, collective.num_chunks), np.tile(sums.total.astype(np.int64), len(npus))
    return collective.chunk_owner.astype(np.int64), sums.total.astype(np.int64)


def find_additions(
    sums: PartialSums,
    sent: tuple[NDArray[np.integer], NDArray[np.integer]],
    received: tuple[NDArray[np.integer], NDArray[np.integer]],
    needed: tuple[Ints, Ints],
    chunk_size_bytes: Ints,
) -> Additions:
    """The sums that NPUs have to make.

    Parameters
    ----------
    sent, received
        NPUs, and the values that leave them; NPUs, and the values that come to them.
    needed
        NPUs, and the values that they need in the end (see `needed_totals`).
    chunk_size_bytes
        int64[num_chunks].
    """
    arrivals = Places.of(sums.num_values, received)
    npu, wanted = Places.of(sums.num_values, sent, needed).pairs
    makers, wholes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    # Parts are lower than their sum, so one pass from the highest to the lowest finds all that is wanted.
    for height in range(int(sums.height.max(initial=0)), 0, -1):
        here = sums.height[wanted] == height
        maker, whole = Places.of(sums.num_values, (npu[here], wanted[here])).pairs
        makes = arrivals.find(maker, whole) == len(arrivals)
        makers.append(maker[makes])
        wholes.append(whole[makes])
        begin, at = members_of(sums.part_first, wholes[-1])
        part, maker = sums.part[at], np.repeat(makers[-1], np.diff(begin))
        is_sum = sums.height[part] > 0
        npu, wanted = np.concatenate((npu[~here], maker[is_sum])), np.concatenate((wanted[~here], part[is_sum]))
    npu, value = np.concatenate(makers), np.concatenate(wholes)
    order = np.lexsort((npu, value))
    npu, value = npu[order], value[order]
    size = (np.diff(sums.part_first)[value] - 1) * chunk_size_bytes[sums.chunk[value]]
    return Additions(npu.astype(np.int32), value.astype(np.int32), size.astype(np.int64))


def addition_ends(
    sums: PartialSums,
    additions: Additions,
    arrivals: tuple[Ints32, Ints32, Ints],
    duration: Ints,
) -> Ints:
    """int64[num_additions], when each sum is made.

    Parameters
    ----------
    duration
        int64[num_additions], how long each takes.
    """
    value, dst, end_ns = arrivals
    places = Places.of(sums.num_values, (dst, value), (additions.npu, additions.value))
    ready = np.zeros(len(places) + 1, np.int64)  # the last one is of what is an NPU's own
    np.maximum.at(ready, places.find(dst, value), end_ns)
    ends = np.empty(len(additions), np.int64)
    height = sums.height[additions.value]
    for level in np.unique(height):
        additions_of_level = np.flatnonzero(height == level)
        npu, whole = additions.npu[additions_of_level], additions.value[additions_of_level]
        begin, at = members_of(sums.part_first, whole)
        there = ready[places.find(np.repeat(npu, np.diff(begin)), sums.part[at])]
        ends[additions_of_level] = np.maximum.reduceat(there, begin[:-1]) + duration[additions_of_level]
        ready[places.find(npu, whole)] = ends[additions_of_level]
    return ends


def check_values(sums: PartialSums, value: Ints32, chunk: Ints32, reduces: Bools) -> None:
    """Check that rows carry existing values of their chunks, and that none reduces.

    Raises
    ------
    ConfigError
        If not.
    """
    for wrong, problem in (
        ((value < 0) | (value >= sums.num_values), f"expected values 0 to {sums.num_values - 1}"),
        (reduces, "found a reducing send of a value, expected copies"),
    ):
        if np.any(wrong):
            raise ConfigError(f"send {int(np.argmax(wrong))}: {problem}")
    wrong = sums.chunk[value] != chunk
    if np.any(wrong):
        raise ConfigError(f"send {int(np.argmax(wrong))}: its value is not one of its chunk")


def check_endpoints(topology: Topology, collective: Collective) -> None:
    """Check that no member of a collective is a device that only forwards.

    Raises
    ------
    ConfigError
        If one is.
    """
    if topology.forwarding and int(collective.member_npus.max()) >= topology.num_endpoints:
        raise ConfigError(
            f"{topology.name}: devices {topology.num_endpoints} to {topology.num_npus - 1} only forward, expected a "
            f"{collective.name} of NPUs, 0 to {topology.num_endpoints - 1}"
        )


def stop_keys(topology: Topology, channel: Ints32, trip: Ints32) -> tuple[Ints, Ints]:
    """Where rows come from and go to, as numbers that are equal where one row of a trip goes on from another.

    Returns
    -------
    into, out_of
        int64[num_sends] each: the stop that a row goes to, and the one that it leaves; -1 where a trip begins or ends: at an NPU,
        or at a reducing device that no row of the trip leaves, or comes to.
    """
    src, dst = topology.channel_src[channel].astype(np.int64), topology.channel_dst[channel].astype(np.int64)
    first = trip.astype(np.int64) * topology.num_npus
    into = np.where(dst >= topology.num_endpoints, first + dst, -1)
    out_of = np.where(src >= topology.num_endpoints, first + src, -1)
    if topology.reducing:
        ends = topology.holds[dst] & ~np.isin(into, out_of)
        begins = topology.holds[src] & ~np.isin(out_of, into)
        into[ends], out_of[begins] = -1, -1
    return into, out_of


def row_before(into: Ints, out_of: Ints) -> Ints:
    """int64[num_sends], the row of its trip into the device that each row leaves; -1 if it leaves an NPU, or none leads there.

    Where several rows of a trip lead into one device, which no legal schedule has, it is any of them.

    Parameters
    ----------
    into, out_of
        The `stop_keys` of rows.
    """
    arrivals = np.flatnonzero(into >= 0)
    order = arrivals[np.argsort(into[arrivals], kind="stable")]
    before = np.full(len(into), -1, np.int64)
    if len(order):
        at = np.minimum(np.searchsorted(into[order], out_of), len(order) - 1)
        has_row = (out_of >= 0) & (into[order[at]] == out_of)
        before[has_row] = order[at[has_row]]
    return before
