"""What the nodes of Chakra traces say that they move: chunks, or places of a rank's memory.

Without partial sums, a rank has one value of each chunk, in one buffer. A message of neighbouring chunks names the first and
their number (`msg_chunk_idx`, `msg_chunk_cnt`), as converters do; another one lists them (`msg_chunk_list`).

With partial sums, a rank needs several values of a chunk at a time, and its memory has three parts: of n = `total_chunk_cnt`
chunks, places 0 to n - 1 are the rank's own contributions, places n to 2 n - 1 are where whole sums have to be in the end, and
what else it has is in places of its own from 2 n on. A message lists places (`place_list`), those it is read from at its source
and those it goes to at its destination; an addition lists the place of the sum, then those of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.partial_sums import Additions, PartialSums, needed_totals
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.csr import members_of


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What messages and additions move.

    Parameters
    ----------
    range_first, range_count
        int64[num_messages], the first of neighbouring chunks and how many they are; 0 of them where a list says it.
    sent, received
        int64[num_messages], the list of what is read at the source and written at the destination; -1 for none.
    added
        int64[num_additions], the list of the sum and its parts.
    first, entry
        int64[num_lists + 1] and int32[...]: list i is `entry[first[i]:first[i + 1]]`.
    are_places
        Whether lists are of places, not of chunks.
    """

    range_first: NDArray[np.int64]
    range_count: NDArray[np.int64]
    sent: NDArray[np.int64]
    received: NDArray[np.int64]
    added: NDArray[np.int64]
    first: NDArray[np.int64]
    entry: NDArray[np.int32]
    are_places: bool

    def of_nodes(
        self, adds: NDArray[np.bool_], sends: NDArray[np.bool_], number: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The first chunk, the number of neighbouring chunks and the list of each node.

        Parameters
        ----------
        adds, sends
            bool[num_nodes], whether a node is an addition, or a send; others receive.
        number
            int64[num_nodes], the addition or message that it is of; -1 for none.
        """
        columns = np.zeros((3, len(number)), np.int64)
        messages, additions = np.flatnonzero(~adds & (number >= 0)), np.flatnonzero(adds)
        of = number[messages]
        columns[0, messages], columns[1, messages] = self.range_first[of], self.range_count[of]
        columns[2, messages] = np.where(sends[messages], self.sent[of], self.received[of])
        columns[2, additions] = self.added[number[additions]]
        return columns[0], columns[1], columns[2]


def contents_of(schedule: Schedule, additions: Additions) -> Contents:
    """What the messages of a schedule and its additions move."""
    if schedule.sums is None:
        return _of_chunks(schedule)
    return _of_places(schedule, schedule.sums, additions)


def _of_chunks(schedule: Schedule) -> Contents:
    none = np.empty(0, np.int64)
    if schedule.message_first is None:
        num_messages = schedule.num_messages
        absent = np.full(num_messages, -1, np.int64)
        ones, chunk = np.ones(num_messages, np.int64), schedule.chunk.astype(np.int64)
        return Contents(chunk, ones, absent, absent, none, np.zeros(1, np.int64), np.empty(0, np.int32), False)
    message, first = schedule.message_of, schedule.message_first
    ascending = schedule.chunk[np.lexsort((schedule.chunk, message))]
    count = np.diff(first)
    breaks = np.zeros(schedule.num_messages, np.bool_)
    breaks[message[1:][(message[1:] == message[:-1]) & (np.diff(ascending) != 1)]] = True
    listed = np.flatnonzero(breaks)
    number = np.full(schedule.num_messages, -1, np.int64)
    number[listed] = np.arange(len(listed))
    list_first, at = members_of(first, listed)
    begin = ascending[first[:-1]].astype(np.int64)
    return Contents(begin, np.where(breaks, 0, count), number, number, none, list_first, ascending[at], False)


def _of_places(schedule: Schedule, sums: PartialSums, additions: Additions) -> Contents:
    num_messages, first = schedule.num_messages, np.append(schedule.message_row, schedule.num_sends)
    begin, at = members_of(sums.part_first, additions.value)
    # The sum itself, then its parts.
    at = np.insert(sums.part[at], begin[:-1], additions.value)
    adder = np.insert(np.repeat(additions.npu, np.diff(begin)), begin[:-1], additions.npu)
    begin = begin + np.arange(len(begin))
    npu = np.concatenate((schedule.src, schedule.dst, adder)).astype(np.int64)
    place = _places(schedule, sums, npu, np.concatenate((schedule.item, schedule.item, at)))
    number = np.arange(num_messages)
    zeros = np.zeros(num_messages, np.int64)
    list_first = np.concatenate((first[:-1], first[:-1] + schedule.num_sends, begin + 2 * schedule.num_sends))
    added = 2 * num_messages + np.arange(len(additions))
    return Contents(zeros, zeros, number, num_messages + number, added, list_first, place, True)


def _places(schedule: Schedule, sums: PartialSums, npu: NDArray[np.int64], value: NDArray[np.integer]) -> NDArray[np.int32]:
    """The place of each value at an NPU."""
    total = schedule.collective.num_chunks
    at = npu * sums.num_values + value
    known, which = np.unique(at, return_inverse=True)
    npus, values = known // sums.num_values, known % sums.num_values
    chunk = sums.chunk[values]
    own = sums.npu[values] == npus
    whole_at, whole = needed_totals(sums, schedule.collective)
    is_result = np.isin(known, whole_at * sums.num_values + whole) & ~own
    rest = ~own & ~is_result
    before = np.cumsum(rest) - rest
    begins = np.searchsorted(npus, np.arange(schedule.topology.num_npus))
    place = 2 * total + before - np.append(before, 0)[begins][npus]
    place = np.where(own, chunk, np.where(is_result, total + chunk, place))
    places: NDArray[np.int32] = place[which].astype(np.int32)
    return places
