"""Sends without times: what crosses which channel, in an order that every link keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import whole_messages
from astra_tacos.schedule.partial_sums import NO_ADDITIONS, Additions, PartialSums, find_additions, needed_totals
from astra_tacos.support.csr import members_of


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

    chunk: NDArray[np.int32]
    channel: NDArray[np.int32]
    reduces: NDArray[np.bool_]
    message_first: NDArray[np.int64] | None = None
    sums: PartialSums | None = None
    value: NDArray[np.int32] | None = None
    trip: NDArray[np.int32] | None = None

    @property
    def num_messages(self) -> int:
        """Number of messages."""
        return len(self.chunk) if self.message_first is None else len(self.message_first) - 1

    @property
    def first(self) -> NDArray[np.int64]:
        """int64[num_messages + 1], the first row of each message, and the number of rows."""
        return whole_messages(len(self.chunk)) if self.message_first is None else self.message_first

    @property
    def item(self) -> NDArray[np.int32]:
        """int32[num_sends], the number of what a row carries: of the value if there are sums, else of the chunk."""
        return self.chunk if self.value is None else self.value

    def additions(self, topology: Topology, collective: Collective) -> Additions:
        """The sums that NPUs make of the values that they have; none if there are no sums."""
        if self.sums is None or self.value is None:
            return NO_ADDITIONS
        sent = self.value, topology.channel_src[self.channel], topology.channel_dst[self.channel]
        return find_additions(self.sums, sent, needed_totals(self.sums, collective), collective.chunk_size_bytes)

    def in_order(self, messages: NDArray[np.integer]) -> Sends:
        """The same messages in another order."""
        rows, first = messages, None
        if self.message_first is not None:
            first, rows = members_of(self.message_first, messages)
        value = None if self.value is None else self.value[rows]
        trip = None if self.trip is None else self.trip[rows]
        return Sends(self.chunk[rows], self.channel[rows], self.reduces[rows], first, self.sums, value, trip)
