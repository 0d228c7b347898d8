"""Dependencies: what brought what a message carries, and the messages before it on its link.

The window of a reducing device is how much each sender may have under way in it at a time. A sender is an NPU, or another
reducing device, from which trips lead to a device to be added there. With a window of W bytes it has n = W / chunk size chunks
under way at most, whatever order they go in: of its chunks for that device, by number, each waits at the sender until all of the
chunk n places before it has come back to the sender. So the sender itself keeps the window, by what arrives there, as SwitchML's
workers do (Sapio et al., NSDI 2021), and so can a trace.

The queues of ASTRA-sim's congestion-aware backend stop at messages that hold a link for less than 1 ns. `pipelined` schedules
have none: their messages are sent as what takes 1 ns (`least_bytes`). Those of `blocking` schedules keep their sizes, because
each holds its links for their latencies, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.messages import Sends
from astra_tacos.schedule.partial_sums import Additions, Places, row_before, stop_keys
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.grouping import distinct, group_by, in_ranges


def awaited_results(topology: Topology, collective: Collective, sends: Sends) -> Ints | None:
    """int64[num_sends], the chunk of which everything has to have come to a row's source before the row starts; -1 for none.

    None if no device has a window.
    """
    limits = {device.device: device.window_bytes for device in topology.reducing if device.window_bytes is not None}
    if not limits or sends.trip is None:
        return None
    awaited = np.full(len(sends.chunk), -1, np.int64)
    dst = topology.channel_dst[sends.channel]
    into, out_of = stop_keys(topology, sends.channel, sends.trip)
    last = np.flatnonzero(sends.reduces & (into < 0) & np.isin(dst, list(limits)))
    first_of = np.full(int(sends.trip.max(initial=0)) + 1, -1, np.int64)
    begins = np.flatnonzero(out_of < 0)
    first_of[sends.trip[begins]] = begins
    first = first_of[sends.trip[last]]
    first, last = first[first >= 0], last[first >= 0]
    src = topology.channel_src[sends.channel[first]].astype(np.int64)
    flow, chunk = src * topology.num_npus + dst[last], sends.chunk[first].astype(np.int64)
    order = np.lexsort((chunk, flow))
    first, flow, chunk = first[order], flow[order], chunk[order]
    for device, window in limits.items():
        at = np.flatnonzero(flow % topology.num_npus == device)
        room = max(window // int(collective.class_size_bytes[-1]), 1)
        if len(at) > room:
            same = flow[at[room:]] == flow[at[:-room]]
            awaited[first[at[room:][same]]] = chunk[at[:-room][same]]
    return awaited


@dataclass(frozen=True, slots=True, eq=False)
class Operations:
    """What a schedule does, messages first and then additions, and what each operation waits for.

    Parameters
    ----------
    num_messages, additions
        Operations 0 to `num_messages` - 1 are messages, operation `num_messages` + i is addition i.
    first, awaited
        int64[num_operations + 1] and int64[...]: operation i waits for `awaited[first[i]:first[i + 1]]`, each once. To wait for a
        message that reduces is to wait for its reduction.
    """

    num_messages: int
    additions: Additions
    first: Ints
    awaited: Ints


def operations(schedule: Schedule) -> Operations:
    """The messages and additions of a schedule, and what they wait for."""
    if schedule.sums is not None:
        return _of_values(schedule)
    first, row = data_dependencies(schedule)
    if schedule.message_first is None:
        return Operations(schedule.num_messages, schedule.additions, first, row)
    message = schedule.message_of
    waiting, awaited = np.repeat(message, np.diff(first)), message[row]
    return Operations(schedule.num_messages, schedule.additions, *_distinct(waiting, awaited, schedule.num_messages))


def _of_values(schedule: Schedule) -> Operations:
    """A message waits for what brought its values to its source, or made them there; an addition, for its parts.

    A message out of a forwarding device waits for the one of its trip into the device.
    """
    sums, value, additions = schedule.sums, schedule.value, schedule.additions
    assert sums is not None and value is not None
    num_messages, message, addition = schedule.num_messages, schedule.message_of, np.arange(len(additions))
    src, dst = schedule.sends.holders(schedule.topology)
    places = Places.of(sums.num_values, (additions.npu, additions.value), (dst, value))
    provider = np.full(len(places) + 1, -1, np.int64)  # the last one is of what is an NPU's own
    provider[places.find(additions.npu, additions.value)] = num_messages + addition
    latest_first = np.argsort(-schedule.end_ns, kind="stable")  # of several copies, the first to arrive
    provider[places.find(dst, value)[latest_first]] = message[latest_first]
    whole, part = sums.awaited_parts(additions)
    waiting = np.concatenate((message, num_messages + whole))
    awaited = provider[np.concatenate((places.find(src, value), places.find(additions.npu[whole], part)))]
    exists = awaited >= 0
    first, awaited = _distinct(waiting[exists], awaited[exists], num_messages + len(additions))
    return Operations(num_messages, additions, first, awaited)


def _distinct(waiting: Ints, awaited: Ints, num_operations: int) -> tuple[Ints, Ints]:
    pairs = distinct(waiting * max(num_operations, 1) + awaited)
    return group_by(pairs // max(num_operations, 1), pairs % max(num_operations, 1), num_operations)


def data_dependencies(schedule: Schedule) -> tuple[Ints, Ints]:
    """Rows that brought a send's chunk: the last copy that its source had received, otherwise all sends reduced there.

    Of a schedule with sums, the rows that brought the value itself; nothing for sums that the source makes (see `operations`).
    Of a schedule with trips, the row before on the trip for a row that leaves a forwarding device, and what a row into a window
    waits for (see `windows`).

    Returns
    -------
    first, row
        int64[num_sends + 1] and int64[...]: send i waits for `row[first[i]:first[i + 1]]`, in order of arrival.
    """
    num_sends = schedule.num_sends
    rows = np.arange(num_sends)
    chunk = schedule.item.astype(np.int64)
    num_chunks = schedule.collective.num_chunks if schedule.sums is None else schedule.sums.num_values
    at_dst, at_src = schedule.dst * np.int64(num_chunks) + chunk, schedule.src * np.int64(num_chunks) + chunk
    stops = None if schedule.trip is None else stop_keys(schedule.topology, schedule.channel, schedule.trip)
    if schedule.topology.reducing and stops is not None:  # what passes a device is not what the device has
        into, out_of = stops
        passing = schedule.topology.num_npus * np.int64(num_chunks)
        at_dst, at_src = np.where(into >= 0, passing + into, at_dst), np.where(out_of >= 0, passing + out_of, at_src)
    deliveries, first_of, last_of = brought(at_dst, at_src, schedule.done_ns, schedule.start_ns, schedule.reduces)
    if stops is not None:
        # Behind all deliveries, a list of the rows before: one for each row that leaves a forwarding device.
        before, forwards = row_before(*stops), stops[1] >= 0
        deliveries = np.concatenate((deliveries, before))
        first_of = np.where(forwards, num_sends + rows, first_of)
        last_of = np.where(forwards, first_of + (before >= 0), last_of)
    first, at = in_ranges(first_of, last_of)
    row = deliveries[at]
    awaited = awaited_results(schedule.topology, schedule.collective, schedule.sends)
    if awaited is None:
        return first, row
    # All that comes of the awaited chunk to the row's source.
    waiting = np.flatnonzero(awaited >= 0)
    wanted = schedule.src[waiting] * np.int64(num_chunks) + awaited[waiting]
    order = np.argsort(at_dst, kind="stable")
    come, arrival = in_ranges(*(np.searchsorted(at_dst[order], wanted, side=side) for side in ("left", "right")))
    more = np.repeat(waiting, np.diff(come))
    return group_by(np.concatenate((np.repeat(rows, np.diff(first)), more)), np.concatenate((row, order[arrival])), num_sends)


def brought(
    at_dst: Ints,
    at_src: Ints,
    done_ns: Ints,
    start_ns: Ints,
    reduces: Bools,
) -> tuple[Ints, Ints, Ints]:
    """What has come to a place when something leaves it: the last copy and all that is added to it.

    Parameters
    ----------
    at_dst, at_src
        int64[num_sends], where each send leads and begins: a number for each pair of an NPU and a chunk.
    done_ns, start_ns
        int64[num_sends], when each has arrived and is added up, and when it starts. What arrives at an instant can leave at it.
    reduces
        bool[num_sends], whether it is added up.

    Returns
    -------
    deliveries, first, end
        int64[num_sends] each: send i carries what the sends `deliveries[first[i]:end[i]]` brought, in order of arrival.
    """
    num_sends = len(at_dst)
    place = np.concatenate((at_dst, at_src))
    departs = np.repeat((False, True), num_sends)
    order = np.lexsort((departs, np.concatenate((done_ns, start_ns)), place))
    place, departs, row = place[order], departs[order], order % max(num_sends, 1)
    copies = ~departs & ~reduces[row]
    position = np.arange(len(order))
    begins = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1]))) if num_sends else position
    group_begin = np.repeat(begins, np.diff(np.append(begins, len(order))))
    last_copy = np.maximum.accumulate(np.where(copies, position, -1)) if num_sends else position
    since = np.maximum(group_begin, last_copy)
    arrived = np.concatenate(([0], np.cumsum(~departs)))
    leaving = np.flatnonzero(departs)
    first, end = np.empty(num_sends, np.int64), np.empty(num_sends, np.int64)
    first[row[leaving]] = arrived[since[leaving]]
    end[row[leaving]] = arrived[leaving]
    return row[~departs], first, end


def previous_on_link(schedule: Schedule, distance: int = 1) -> Ints:
    """int64[num_messages], the message before each on the link out of its source, or so many before; -1 where there is none."""
    return previous_of(_link_of(schedule), distance)


def arrived_on_link(schedule: Schedule) -> Ints:
    """int64[num_messages], the last message on the link out of a message's source that has arrived when the message starts.

    It and all before it have arrived; -1 where none has. To wait for it takes no time where links queue, and leaves on a link
    only what the schedule has on it.
    """
    return arrived_of(_link_of(schedule), schedule.start_ns[schedule.message_row], schedule.end_ns[schedule.message_row])


def _link_of(schedule: Schedule) -> NDArray[np.integer]:
    """The link out of each message's source."""
    return np.asarray(schedule.topology.channel_link[schedule.channel[schedule.message_row]])


def previous_of(link: NDArray[np.integer], distance: int = 1) -> Ints:
    """`previous_on_link` of messages in their order, by the link of each."""
    order, link = _by_link(link)
    previous = np.full(len(link), -1, np.int64)
    same = link[distance:] == link[:-distance]
    previous[order[distance:][same]] = order[:-distance][same]
    return previous


def arrived_of(link: NDArray[np.integer], start_ns: Ints, end_ns: Ints) -> Ints:
    """`arrived_on_link` of messages in their order, by the link and the times of each."""
    order, link = _by_link(link)
    start, end = start_ns[order], end_ns[order]
    span = int(end.max(initial=0)) + 1
    begins = np.concatenate(([True], link[1:] != link[:-1])) if len(link) else np.empty(0, np.bool_)
    number = np.cumsum(begins) - 1
    here = np.maximum.accumulate(end + number * span) if len(link) else end
    place = np.searchsorted(here, start + number * span, side="right") - 1
    arrived = np.full(len(link), -1, np.int64)
    exists = place >= np.flatnonzero(begins)[number]
    arrived[order[exists]] = order[place[exists]]
    return arrived


def _by_link(link: NDArray[np.integer]) -> tuple[Ints, NDArray[np.integer]]:
    """The messages sorted by link, in the order of each link, and the link of each."""
    # NumPy sorts 16-bit integers in linear time.
    order = np.argsort(link.astype(np.uint16) if link.max(initial=0) < 1 << 16 else link, kind="stable")
    return order, link[order]


def holds_no_link(schedule: Schedule) -> bool:
    """Whether some message holds some link for 0 ns."""
    return bool(_hold_ns(schedule).min(initial=1) < 1)


def stops_queues(schedule: Schedule) -> bool:
    """Whether a message that starts at time 0 holds its first link for 0 ns: ASTRA-sim aborts at it, but not at later ones."""
    return bool(np.any((_hold_ns(schedule) < 1) & (schedule.start_ns[schedule.message_row] == 0)))


def _hold_ns(schedule: Schedule) -> Ints:
    """int64[num_messages], how long each message holds its first link."""
    sizes, channel = schedule.sizes, schedule.channel[schedule.message_row]
    return np.asarray(sizes.timing.link_hold_ns[schedule.topology.channel_link[channel], sizes.size_class])
