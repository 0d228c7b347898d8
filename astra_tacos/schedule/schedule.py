"""The `Schedule` class: which chunk crosses which channel and when, in columns, one row per send of a chunk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import MessageSizes, Sends, check_messages
from astra_tacos.schedule.partial_sums import Additions, PartialSums, addition_ends, addition_ns, check_endpoints, check_values
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.records import freeze
from astra_tacos.support.rows import data_frame
from astra_tacos.support.units import NS_PER_US

LinkOrder = Literal["serial", "tokens", "window", "none"]
LINK_ORDERS: tuple[LinkOrder, ...] = ("serial", "tokens", "none", "window")


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """Sends of a collective on a topology. Row order is the order in which every link takes its sends.

    Parameters
    ----------
    topology, collective, timing
        What the sends refer to.
    chunk
        int32[num_sends].
    channel
        int32[num_sends].
    reduces
        bool[num_sends], whether the destination adds the chunk to its own (else it stores a copy).
    start_ns, end_ns
        int64[num_sends], when the source's link takes the chunk and when it has arrived. A reducing send is of use
        `reduction_ns` later; reductions of one NPU run in parallel, as ASTRA-sim runs a collective's COMP nodes.
    synthesizer, seed
        Where it came from.
    message_first
        int64[num_messages + 1], the first row of each message, and the number of rows. The rows of a message leave together:
        they agree in channel, `reduces`, start and end. None if every row is a message of its own.
    sums, value
        The values that rows carry, and int32[num_sends], which one each row carries; then no row reduces, and NPUs add up
        the parts that they have (see `additions`). None if rows carry what their source has of the chunk.
    trip
        int32[num_sends], in a topology with forwarding devices: rows of the same number are the hops of one trip from an NPU
        over forwarding devices to an NPU, which visits a device at most once. A row out of a forwarding device carries what the
        row of its trip into the device brought, and only the last hop may reduce. Trips may also begin and end at reducing
        devices, and senders keep to their windows (see `windows`). None in other topologies.
    link_order, in_flight
        How traces keep the order of sends on a link, and how many messages may be in flight there (`export.chakra`); None for
        what the timing model asks for.

    Raises
    ------
    ConfigError
        If messages are not neighbouring rows that agree, values are not those of the chunks, or the topology has forwarding
        devices and rows have no trips, or a member of the collective is one of the devices.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> schedule.num_sends, schedule.start_ns.shape, bool(schedule.collective_time_ns == schedule.end_ns.max())
    (12, (12,), True)
    """

    topology: Topology
    collective: Collective
    timing: Timing
    chunk: Ints32
    channel: Ints32
    reduces: Bools
    start_ns: Ints
    end_ns: Ints
    synthesizer: str = ""
    seed: int = 0
    message_first: Ints | None = None
    sums: PartialSums | None = None
    value: Ints32 | None = None
    trip: Ints32 | None = None
    link_order: LinkOrder | None = None
    in_flight: int | None = None

    def __repr__(self) -> str:
        summary = f"{self.collective.name} of {self.collective.size_bytes:,} bytes on {self.topology.name}"
        return f"<Schedule: {summary}, {self.num_sends:,} sends in {self.collective_time_ns:,} ns by {self.synthesizer}>"

    def to_pandas(self) -> Any:
        """The sends as a data frame, a row each: chunk, src, dst, bytes, reduces, start_ns, end_ns.

        Raises
        ------
        ConfigError
            If pandas is not installed.
        """
        columns = ("chunk", "src", "dst", "bytes", "reduces", "start_ns", "end_ns")
        arrays = (self.chunk, self.src, self.dst, self.size_bytes, self.reduces, self.start_ns, self.end_ns)
        return data_frame(columns, zip(*(array.tolist() for array in arrays), strict=True))

    @property
    def problem(self) -> Problem:
        """What it solves."""
        return Problem(self.topology, self.collective, self.timing)

    def __post_init__(self) -> None:
        check_endpoints(self.topology, self.collective)
        if (self.trip is None) != (not self.topology.forwarding):
            raise ConfigError("trip: expected the trips of rows in a topology with forwarding devices, and none in others")
        if self.message_first is not None:
            if len(self.message_first) == len(self.chunk) + 1:
                object.__setattr__(self, "message_first", None)
            else:
                columns = (self.channel, self.reduces, self.start_ns, self.end_ns)
                check_messages(self.message_first, len(self.chunk), *columns)
        if (self.sums is None) != (self.value is None):
            raise ConfigError("value: found sums without values or values without sums, expected both or neither")
        if self.sums is not None and self.value is not None:
            check_values(self.sums, self.value, self.chunk, self.reduces)
        freeze(self, "chunk", "channel", "reduces", "start_ns", "end_ns", "message_first", "value", "trip")

    @property
    def sends(self) -> Sends:
        """The sends without their times."""
        return Sends(self.chunk, self.channel, self.reduces, self.message_first, self.sums, self.value, self.trip)

    @property
    def num_sends(self) -> int:
        """Number of sends: chunks times channels that they cross."""
        return len(self.chunk)

    @property
    def num_messages(self) -> int:
        """Number of messages."""
        return self.num_sends if self.message_first is None else len(self.message_first) - 1

    @property
    def message_row(self) -> Ints:
        """int64[num_messages], the first row of each message, which tells its channel, kind and times."""
        return np.arange(self.num_sends) if self.message_first is None else self.message_first[:-1]

    @property
    def message_of(self) -> Ints:
        """int64[num_sends], the message that each row belongs to."""
        if self.message_first is None:
            return np.arange(self.num_sends)
        return np.repeat(np.arange(self.num_messages), np.diff(self.message_first))

    @property
    def message_bytes(self) -> Ints:
        """int64[num_messages], the size of each message."""
        if self.message_first is None or not self.num_sends:
            return self.size_bytes
        return np.add.reduceat(self.size_bytes, self.message_first[:-1])

    @cached_property
    def sizes(self) -> MessageSizes:
        """The class of size of each message, and the delays of each class."""
        return self.sends.sizes(self.topology, self.collective, self.timing)

    @property
    def item(self) -> Ints32:
        """int32[num_sends], number of what a row carries: of the value if there are sums, else of the chunk."""
        return self.chunk if self.value is None else self.value

    @property
    def src(self) -> Ints32:
        """int32[num_sends], sending NPU."""
        return self.topology.channel_src[self.channel]

    @property
    def dst(self) -> Ints32:
        """int32[num_sends], receiving NPU."""
        return self.topology.channel_dst[self.channel]

    @property
    def size_bytes(self) -> Ints:
        """int64[num_sends], the size of each row's chunk."""
        return self.collective.chunk_size_bytes[self.chunk]

    @property
    def reduction_ns(self) -> Ints:
        """int64[num_sends], how long the destination takes to add a message to what it has; 0 where it stores a copy."""
        sizes = self.sizes
        return np.where(self.reduces, sizes.timing.reduction_at(self.dst, sizes.size_class[self.message_of]), 0)

    @property
    def reduction_us(self) -> Ints:
        """int64[num_sends], the `duration_micros` of a COMP node for each reduction: the nearest number of whole microseconds."""
        sizes = self.sizes
        duration_us = sizes.timing.reduction_us[sizes.size_class[self.message_of]]
        for device in self.topology.reducing:
            duration_us = np.where(self.dst == device.device, round(device.reduction_ns / NS_PER_US), duration_us)
        return np.where(self.reduces, duration_us, 0)

    @property
    def done_ns(self) -> Ints:
        """int64[num_sends], when the chunk can be used at its destination: on arrival, or once it is reduced."""
        return self.end_ns + self.reduction_ns

    @cached_property
    def additions(self) -> Additions:
        """The sums that NPUs make of the values that they have; none if there are no sums."""
        return self.sends.additions(self.topology, self.collective)

    @cached_property
    def addition_end_ns(self) -> Ints:
        """int64[num_additions], when each sum is made: as soon as its NPU has all parts, and the time that adding takes."""
        additions = self.additions
        if self.sums is None or not len(additions):
            return np.empty(0, np.int64)
        duration = addition_ns(additions.size_bytes, self.timing.reduce_bandwidth_gbps)
        return addition_ends(self.sums, additions, (self.item, self.dst, self.end_ns), duration)

    @property
    def collective_time_ns(self) -> int:
        """The time at which the last chunk is usable at its destination."""
        return max(int(self.done_ns.max(initial=0)), int(self.addition_end_ns.max(initial=0)))

    @property
    def npu_finish_ns(self) -> Ints:
        """int64[num_npus], when an NPU's last send has arrived and its last chunk is usable (ASTRA-sim's finish time)."""
        finish = np.zeros(self.topology.num_npus, np.int64)
        np.maximum.at(finish, self.src, self.end_ns)
        np.maximum.at(finish, self.dst, self.done_ns)
        np.maximum.at(finish, self.additions.npu, self.addition_end_ns)
        return finish

    @property
    def link_busy_ns(self) -> Ints:
        """int64[num_links], how long each link is held in all."""
        topology, sizes = self.topology, self.sizes
        channel = self.channel[self.message_row]
        busy = np.zeros(topology.num_links, np.int64)
        for links in (topology.channel_link[channel], topology.channel_down_link[channel]):
            used = np.flatnonzero(links >= 0)
            held = (
                sizes.timing.channel_delay_ns[channel[used], sizes.size_class[used]]
                if sizes.timing.is_blocking
                else sizes.timing.link_hold_ns[links[used], sizes.size_class[used]]
            )
            np.add.at(busy, links[used], held)
        return busy


def check_rows(schedule: Schedule) -> None:
    """Check that every send names a chunk and a channel that exist.

    Raises
    ------
    ConfigError
        If one does not; `verify` lists them all.
    """
    columns = (
        ("chunk", schedule.chunk, schedule.collective.num_chunks),
        ("channel", schedule.channel, schedule.topology.num_channels),
    )
    for name, column, count in columns:
        outside = np.flatnonzero((column < 0) | (column >= count))
        if len(outside):
            row = int(outside[0])
            raise ConfigError(f"send {row}: {name} {column[row]}, expected 0 to {count - 1} ('astra-tacos verify' lists all)")
