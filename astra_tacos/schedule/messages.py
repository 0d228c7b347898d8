"""Messages: sends that leave together on one channel and pay its latency once.

`Sends` are sends without times: what crosses which channel, in an order that every link keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.partial_sums import NO_ADDITIONS, Additions, PartialSums, find_additions, needed_totals, stop_keys
from astra_tacos.schedule.timing import Timing, timing_of_sizes
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import distinct_places, members_of


@dataclass(frozen=True, slots=True, eq=False)
class MessageSizes:
    """Sizes of messages, and the delays of each size.

    Parameters
    ----------
    size_class
        [num_messages], the class of each message.
    """

    timing: Timing
    size_class: NDArray[np.integer]


def first_rows(message: NDArray[np.integer]) -> Ints:
    """`message_first` of rows whose messages are given by numbers, the same for neighbouring rows of one message."""
    if not len(message):
        return np.zeros(1, np.int64)
    return np.append(np.flatnonzero(np.concatenate(([True], message[1:] != message[:-1]))), len(message))


def check_messages(message_first: Ints, num_sends: int, *columns: NDArray[np.generic]) -> None:
    """Check that messages are made of neighbouring rows, all of them, and that a message's rows agree in some columns.

    Raises
    ------
    ConfigError
        If they are not or do not.
    """
    if not len(message_first) or message_first[0] != 0 or message_first[-1] != num_sends or np.any(np.diff(message_first) < 1):
        raise ConfigError(f"messages: expected neighbouring rows, one or more each, of all {num_sends} sends")
    begins = np.zeros(num_sends, np.bool_)
    begins[message_first[:-1]] = True
    for column in columns:
        differs = np.flatnonzero((column[1:] != column[:-1]) & ~begins[1:])
        if len(differs):
            raise ConfigError(f"send {int(differs[0]) + 1}: expected the channel, kind and times of the rest of its message")


@dataclass(frozen=True, slots=True, eq=False)
class Sends:
    """Sends in an order that every link keeps and in which a chunk reaches an NPU before it leaves it.

    Parameters
    ----------
    chunk, channel, reduces
        As in a `Schedule`.
    message_first, sums, value
        As in a `Schedule`: the rows of each message, the values that rows carry.
    trip
        As in a `Schedule`: the rows that carry a chunk from one NPU over forwarding devices to another.
    """

    chunk: Ints32
    channel: Ints32
    reduces: Bools
    message_first: Ints | None = None
    sums: PartialSums | None = None
    value: Ints32 | None = None
    trip: Ints32 | None = None

    @property
    def num_messages(self) -> int:
        """Number of messages."""
        return len(self.chunk) if self.message_first is None else len(self.message_first) - 1

    @property
    def first(self) -> Ints:
        """int64[num_messages + 1], the first row of each message, and the number of rows."""
        return np.arange(len(self.chunk) + 1) if self.message_first is None else self.message_first

    @property
    def item(self) -> Ints32:
        """int32[num_sends], the number of what a row carries: of the value if there are sums, else of the chunk."""
        return self.chunk if self.value is None else self.value

    def additions(self, topology: Topology, collective: Collective) -> Additions:
        """The sums that NPUs make of the values that they have; none if there are no sums."""
        if self.sums is None or self.value is None:
            return NO_ADDITIONS
        ends = ((holder < topology.num_npus, holder) for holder in self.holders(topology))
        sent, received = ((npu[is_npu], self.value[is_npu]) for is_npu, npu in ends)
        return find_additions(self.sums, sent, received, needed_totals(self.sums, collective), collective.chunk_size_bytes)

    def holders(self, topology: Topology) -> tuple[Ints, Ints]:
        """int64[num_sends] each: who has what a row carries, before and after it.

        A number below `num_npus` is that of an NPU, or of a reducing device where a trip begins or ends. Every stop of a trip at
        a device that forwards has a number of its own, as what one trip brings there leaves with that trip only.
        """
        src, dst = (ends[self.channel].astype(np.int64) for ends in (topology.channel_src, topology.channel_dst))
        if self.trip is None:
            return src, dst
        into, out_of = stop_keys(topology, self.channel, self.trip)
        return np.where(out_of >= 0, topology.num_npus + out_of, src), np.where(into >= 0, topology.num_npus + into, dst)

    def sizes(self, topology: Topology, collective: Collective, timing: Timing) -> MessageSizes:
        """Sizes and delays of messages, those of the chunks if every send is a message of its own."""
        if self.message_first is None or not len(self.chunk):
            return MessageSizes(timing, collective.chunk_class[self.chunk])
        sizes = np.add.reduceat(collective.chunk_size_bytes[self.chunk], self.message_first[:-1])
        distinct, size_class = distinct_places(sizes)
        delays = timing_of_sizes(topology, distinct, timing.link_model, timing.reduce_bandwidth_gbps)
        return MessageSizes(delays, size_class)

    def in_order(self, messages: NDArray[np.integer]) -> Sends:
        """The same messages in another order."""
        rows, first = messages, None
        if self.message_first is not None:
            first, rows = members_of(self.message_first, messages)
        value = None if self.value is None else self.value[rows]
        trip = None if self.trip is None else self.trip[rows]
        return Sends(self.chunk[rows], self.channel[rows], self.reduces[rows], first, self.sums, value, trip)
