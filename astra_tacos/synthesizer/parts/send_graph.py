"""Send graphs: the sends of a collective, with dependencies and priorities but without times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.schedule.dependencies import awaited_results
from astra_tacos.schedule.messages import Sends, first_rows
from astra_tacos.schedule.partial_sums import Additions, PartialSums, addition_ns, stop_keys
from astra_tacos.schedule.problem import Problem
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.grouping import distinct, distinct_places, group_by

if TYPE_CHECKING:
    from astra_tacos.synthesizer.parts._dispatch_kernels import Slots

NO_SLOT = -1


@dataclass(frozen=True, slots=True, eq=False)
class SendGraph:
    """Sends in no particular order: one out-tree per chunk that is spread, one in-tree per chunk that is summed up, or both.

    What a send waits for follows from the others: a reducing send of a chunk from an NPU, for all reducing sends of that chunk
    into the NPU; a copy, for the copy that brings it there or, where there is none, for all reducing sends into the NPU. A send
    of a value waits for the copy that brings it or, where there is none, for the parts that it is the sum of.

    Parameters
    ----------
    chunk, channel
        int32[num_sends].
    reduces
        bool[num_sends].
    rank
        int32[num_sends], 0 or more. Of the messages that a link could take, the one of the smallest rank goes first, then the
        one of the smallest chunk.
    message
        int64[num_sends], the same number for sends that leave together, which are on one channel; a message has the smallest
        rank of its sends. None if every send is a message of its own.
    sums, value
        The values that sends carry, and int32[num_sends], which one each carries; None if they carry what there is of a chunk.
    trip
        int32[num_sends], as in a `Schedule`: a send out of a forwarding device waits for the one of its trip into it, and one
        into a window for what frees its place there. None if there are no such devices.

    Examples
    --------
    >>> import numpy as np
    >>> from astra_tacos import SendGraph
    >>> chunk, channel, rank = np.int32([0, 0]), np.int32([3, 5]), np.int32([0, 1])
    >>> len(SendGraph(chunk, channel, np.zeros(2, np.bool_), rank).chunk)
    2
    """

    chunk: Ints32
    channel: Ints32
    reduces: Bools
    rank: Ints32
    message: Ints | None = None
    sums: PartialSums | None = None
    value: Ints32 | None = None
    trip: Ints32 | None = None

    def by_urgency(self) -> tuple[Sends, Ints]:
        """Messages by channel, then by rank and chunk; and int64[num_messages], the urgency of each: the smallest goes first."""
        item = self.chunk if self.value is None else self.value
        num_items = int(item.max(initial=0)) + 1
        urgency = self.rank.astype(np.int64) * num_items + item
        if self.message is None:
            order = np.lexsort((urgency, self.channel))
            first, message_urgency = None, urgency[order]
        else:
            number, which = np.unique(self.message, return_inverse=True)
            most_urgent = np.full(len(number), np.iinfo(np.int64).max)
            np.minimum.at(most_urgent, which, urgency)
            order = np.lexsort((item, which, most_urgent[which], self.channel))
            first = first_rows(which[order])
            message_urgency = most_urgent[which[order[first[:-1]]]]
        value = None if self.value is None else self.value[order]
        trip = None if self.trip is None else self.trip[order]
        sends = Sends(self.chunk[order], self.channel[order], self.reduces[order], first, self.sums, value, trip)
        return sends, message_urgency


def find_slots(problem: Problem, sends: Sends) -> tuple[Ints, Ints, Slots]:
    """The slots that each message helps to fill (CSR), and the slots.

    A slot is a joint prerequisite of messages: an item that arrives at an NPU, copied or reduced, or a sum made there.
    """
    topology, collective, timing = problem
    from astra_tacos.synthesizer.parts._dispatch_kernels import Slots

    num_npus = topology.num_npus
    src, dst = topology.channel_src[sends.channel], topology.channel_dst[sends.channel]
    item = sends.item.astype(np.int64) * num_npus
    fed, reduces = (item + dst) * 2 + sends.reduces, sends.reduces
    if sends.trip is not None:
        into, out_of = stop_keys(topology, sends.channel, sends.trip)
        of_trips = 2 * (int(item.max(initial=0)) + num_npus)
        fed = np.where(into >= 0, of_trips + into, fed)
        adds = np.zeros(int(sends.trip.max(initial=0)) + 1, np.bool_)
        adds[sends.trip[reduces]] = True
        reduces = adds[sends.trip]  # what a trip carries to be added waits for sums, from its first hop on
    slot, feeds = distinct_places(fed)
    size = np.bincount(feeds, minlength=len(slot))
    copied, summed = _position(slot, (item + src) * 2), _position(slot, (item + src) * 2 + 1)
    awaits = np.where(reduces | (copied == NO_SLOT), summed, copied)
    if sends.trip is not None:
        awaits = np.where(out_of >= 0, _position(slot, of_trips + out_of), awaits)
    wholes, duration = (np.empty(0, np.int64), np.empty(0, np.int64)), np.zeros(len(slot), np.int64)
    if sends.sums is not None:
        additions = sends.additions(topology, collective)
        number, wholes, parts = _made_slots(sends.sums, additions, slot, num_npus)
        awaits = np.where(awaits == NO_SLOT, _position_of(number, item + src, len(slot)), awaits)
        size = np.concatenate((size, parts))
        duration = np.concatenate((duration, addition_ns(additions.size_bytes, timing.reduce_bandwidth_gbps)))
    message = np.repeat(np.arange(sends.num_messages), np.diff(sends.first))
    waits = np.flatnonzero(awaits != NO_SLOT)
    waiting, awaited = message[waits], awaits[waits]
    results = awaited_results(topology, collective, sends)
    if results is not None:
        windowed = np.flatnonzero(results >= 0)
        place = (results[windowed] * num_npus + src[windowed]) * 2
        for kind in (0, 1):  # copies and what is added
            number = _position(slot, place + kind)
            waiting = np.concatenate((waiting, message[windowed[number != NO_SLOT]]))
            awaited = np.concatenate((awaited, number[number != NO_SLOT]))
    pairs = distinct(waiting * len(size) + awaited)
    waiting_message, waited = pairs // max(len(size), 1), pairs % max(len(size), 1)
    slots = Slots(
        np.bincount(waiting_message, minlength=sends.num_messages),
        size.astype(np.int64),
        *group_by(waited, waiting_message, len(size)),
        *group_by(*wholes, len(size)),
        duration,
    )
    return *group_by(message, feeds, sends.num_messages), slots


def _made_slots(sums: PartialSums, additions: Additions, slot: Ints, num_npus: int) -> tuple[Ints, tuple[Ints, Ints], Ints]:
    """Slots of sums that NPUs make, numbered after those of arrivals.

    Returns
    -------
    number
        int64[num_additions], value and NPU of each as one number.
    part, whole
        Pairs of slots: the second is a sum that the first is a part of.
    parts
        int64[num_additions], how many parts each lacks at first.
    """
    number = additions.value.astype(np.int64) * num_npus + additions.npu
    whole, part = sums.awaited_parts(additions)
    place = part * num_npus + additions.npu[whole]
    arrived, own_slot = _position(slot, place * 2), _position_of(number, place, len(slot))
    return (
        number,
        (np.where(arrived == NO_SLOT, own_slot, arrived), whole + len(slot)),
        np.bincount(whole, minlength=len(additions)),
    )


def _position_of(numbers: Ints, wanted: Ints, first: int) -> Ints:
    """Where each wanted number is among others in any order, counted from `first`; `NO_SLOT` if it is not there."""
    order = np.argsort(numbers, kind="stable")
    at = _position(numbers[order], wanted)
    return np.where(at == NO_SLOT, NO_SLOT, first + order[at]) if len(order) else at


def _position(keys: Ints, wanted: Ints) -> Ints:
    if not len(keys):
        return np.full(len(wanted), NO_SLOT)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, NO_SLOT)
