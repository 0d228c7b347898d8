"""The oracle for schedules with partial sums: whether values are what they claim to be, and are there when they are sent.

`check_trips`: what leaves a device that only forwards is what a hop of the same trip brought there, once and as it came.

Devices that forward hold no copies and add nothing, except that a trip may begin or end at a reducing device, as at an NPU. So
all hops of a trip together do what one send from its first stop to its last would do, and the rules for what may be sent and what
is known then are those of any other schedule.

`check_devices`: no sender has more under way in one than its window, and none adds up more than its ports allow.

What is under way of a sender: a chunk that set out to be added at the device, until the sender has a copy of the chunk again.
This file shares no code with what makes schedules keep to windows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.partial_sums import PartialSums
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.verifier.violation import Violation


def comp_ns(sizes: NDArray[np.integer] | NDArray[np.floating], timing: Timing) -> Ints:
    """Of numbers of bytes, a COMP node's time: whole microseconds at the reduction's bandwidth, 1 ns when that is none."""
    rate = timing.reduce_bandwidth_gbps
    microseconds = np.rint(sizes / (rate * 1e9) * 1e6) if rate else np.zeros(len(sizes))
    return np.maximum(microseconds * 1000, 1).astype(np.int64)


def at_send(schedule: Schedule, code: str, row: int, text: str, npu: int | None = None) -> Violation:
    """A violation of a send, at its source unless an NPU is given."""
    channel = schedule.channel[row]
    src, dst = int(schedule.topology.channel_src[channel]), int(schedule.topology.channel_dst[channel])
    chunk, time = int(schedule.chunk[row]), int(schedule.start_ns[row])
    message = f"send {row} (chunk {chunk}, NPU {src} to {dst}, at {time} ns) {text}"
    return Violation(code, message, row, src if npu is None else npu, chunk, time)


def check_trips(schedule: Schedule, valid: Ints) -> tuple[Ints, Ints, list[Violation]]:
    """The first and the last hop of each trip that is one, and what is wrong with others.

    Parameters
    ----------
    valid
        int64[n], rows whose chunk and channel exist; others are hops of no trip.

    Returns
    -------
    first, last
        int64[num_trips], rows.
    violations
        Of trips that begin or end at a forwarding device, whose hops do not follow one another in place or time, that carry
        several chunks or values, come to a device twice or pass an NPU, or that reduce before their last hop.
    """
    topology = schedule.topology
    assert schedule.trip is not None
    order = valid[np.lexsort((valid, schedule.end_ns[valid], schedule.start_ns[valid], schedule.trip[valid]))]
    trip, chunk, channel = schedule.trip[order], schedule.chunk[order], schedule.channel[order]
    src, dst = topology.channel_src[channel], topology.channel_dst[channel]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = trip[1:] != trip[:-1]
    ends = np.append(begins[1:], True)
    goes_on = ~begins
    before = np.maximum(np.arange(len(order)) - 1, 0)
    num_npus = topology.num_endpoints
    holds = np.arange(topology.num_npus) < num_npus
    if schedule.sums is None:  # devices add what comes to what they have, and make no values
        holds[[device.device for device in topology.reducing]] = True
    item, content = schedule.item[order], "chunk" if schedule.sums is None else "value"
    number = np.cumsum(begins) - 1
    stop = number * topology.num_npus + dst
    _, place, visits = np.unique(stop, return_inverse=True, return_counts=True)
    origin = src[np.flatnonzero(begins)][number] if len(order) else src
    wrong = (
        (
            "trip-start",
            begins & (src >= num_npus) & ~holds[src],
            "leaves a device that only forwards before anything has come there",
        ),
        ("trip-gap", goes_on & (src != dst[before]), "does not leave where the hop before it on its trip ended"),
        ("trip-chunk", goes_on & (item != item[before]), f"carries another {content} than the hop before it on its trip"),
        (
            "trip-early",
            goes_on & (schedule.start_ns[order] < schedule.end_ns[order[before]]),
            "starts before the hop before it on its trip has arrived",
        ),
        ("trip-pass", ~ends & (dst < num_npus), "comes to an NPU before its trip ends"),
        ("trip-end", ends & ~holds[dst], "ends at a device that only forwards"),
        ("trip-twice", (visits[place.ravel()] > 1) | (dst == origin), "comes to a device where its trip has been"),
        ("trip-adds", schedule.reduces[order] & ~ends, "is added to what a device has that only forwards"),
    )
    violations, sound = [], np.ones(int(number[-1]) + 1 if len(order) else 0, np.bool_)
    for code, which, text in wrong:
        sound[number[which]] = False
        for at in np.flatnonzero(which).tolist():
            row, device, ends_at = int(order[at]), int(src[at]), int(dst[at])
            where = f"chunk {chunk[at]}, {topology.describe_device(device)} to {topology.describe_device(ends_at)}"
            violations.append(Violation(code, f"send {row} ({where}, at {schedule.start_ns[row]} ns) {text}", row, device))
    sound_trips = np.flatnonzero(sound)
    return order[np.flatnonzero(begins)[sound_trips]], order[np.flatnonzero(ends)[sound_trips]], violations


_NEVER = np.iinfo(np.int64).max
_Holders = tuple[Ints, Ints]
"""NPUs that have a value, ascending, and since when. Few NPUs have most values, so no table has all NPUs and all values."""


def check_values(schedule: Schedule, first: Ints, last: Ints) -> list[Violation]:
    """Violations of a schedule whose sends carry values.

    A sum uses every contribution once; the whole sum of a chunk has that of every member. A value leaves an NPU once it is there:
    the NPU's own contribution from the beginning, what was sent to it on arrival, and a sum that was not sent to it as soon as
    all parts are there and added up. In the end every NPU that needs a whole sum has it.

    Parameters
    ----------
    first, last
        Rows that name existing chunks and channels: the first and the last hop of each trip; each row twice without trips.
    """
    sums, value = schedule.sums, schedule.value
    assert sums is not None and value is not None
    violations = _check_table(sums, schedule.collective)
    if violations:
        return violations
    channel, topology, end_ns = schedule.channel, schedule.topology, schedule.end_ns[last]
    value, src, dst = value[first], topology.channel_src[channel[first]], topology.channel_dst[channel[last]]
    again = np.zeros(len(first), np.bool_)
    order = np.lexsort((last, end_ns, dst, value))
    again[order[1:]] = (dst[order[1:]] == dst[order[:-1]]) & (value[order[1:]] == value[order[:-1]])
    holders = _find_holders(sums, (value, dst, end_ns), order[~again[order]])
    parts = np.diff(sums.part_first)
    durations = comp_ns((parts - 1).clip(0) * schedule.collective.chunk_size_bytes[sums.chunk], schedule.timing)
    for whole in np.flatnonzero(parts).tolist():
        who, last = _who_has_all(
            [holders[part] for part in sums.part[sums.part_first[whole] : sums.part_first[whole + 1]].tolist()]
        )
        got, when = holders[whole]
        if not len(got):
            holders[whole] = who, last + durations[whole]
            continue
        makes = got[np.minimum(np.searchsorted(got, who), len(got) - 1)] != who
        npus = np.concatenate((got, who[makes]))
        ascending = np.argsort(npus)
        holders[whole] = npus[ascending], np.concatenate((when, last[makes] + durations[whole]))[ascending]
    text = "brings a value that the destination already has"
    own_again = sums.npu[value] == dst
    violations += [at_send(schedule, "redundant-send", int(last[i]), text) for i in np.flatnonzero(again | own_again)]
    text = "leaves before its value, or all parts of it, are there"
    absent = schedule.start_ns[first] < _times(holders, value, src)
    violations += [at_send(schedule, "chunk-absent", int(first[i]), text) for i in np.flatnonzero(absent)]
    return violations + _check_end(schedule, sums, holders)


def _find_holders(sums: PartialSums, arrivals: tuple[Ints32, Ints32, Ints], first: Ints) -> list[_Holders]:
    """Who has each value without making it, and from when on: those that it is sent to, and the NPU whose contribution it is."""
    value, dst, end_ns = arrivals
    first = first[sums.npu[value[first]] != dst[first]]
    own_values = np.flatnonzero(sums.npu >= 0)
    value, npus = np.concatenate((value[first], own_values)), np.concatenate((dst[first], sums.npu[own_values])).astype(np.int64)
    order = np.lexsort((npus, value))
    times = np.concatenate((end_ns[first], np.zeros(len(own_values), np.int64)))[order]
    npus, begins = npus[order], np.searchsorted(value[order], np.arange(sums.num_values + 1)).tolist()
    return [(npus[begin:end], times[begin:end]) for begin, end in pairwise(begins)]


def _who_has_all(of_parts: list[_Holders]) -> _Holders:
    """NPUs that have all of some values, and from when on."""
    of_parts = sorted(of_parts, key=lambda held: len(held[0]))
    who, last = of_parts[0]
    for npus, times in of_parts[1:]:
        if not len(who):
            break
        at = np.minimum(np.searchsorted(npus, who), len(npus) - 1)
        there = npus[at] == who
        who, last = who[there], np.maximum(last, times[at])[there]
    return who, last


def _times(holders: list[_Holders], value: Ints32, npu: Ints32) -> Ints:
    """When each of some NPUs has a value; `_NEVER` if it does not get it."""
    most = 1 + max(int(npu.max(initial=0)), *(int(npus.max(initial=0)) for npus, _ in holders))
    held = np.repeat(np.arange(len(holders)), [len(npus) for npus, _ in holders]) * most
    held += np.concatenate([npus for npus, _ in holders])
    order = np.argsort(held)
    held, times = held[order], np.concatenate([times for _, times in holders])[order]
    wanted = value.astype(np.int64) * most + npu
    at = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    return np.where(held[at] == wanted, times[at], _NEVER)


def _check_table(sums: PartialSums, collective: Collective) -> list[Violation]:
    """Contributions are those of members, sums are of one chunk and count nobody twice, whole sums lack nobody."""
    if not _are_in_order(sums, collective.num_chunks):
        return [Violation("no-such-value", "values, parts or totals name what does not exist, or parts come after their sum")]
    violations: list[Violation] = []
    # Sets of NPUs are the bits of numbers: NPU i is the bit of 2**i.
    members = sum(1 << npu for npu in collective.member_npus.tolist())
    contributors: list[int] = []
    first, part = sums.part_first.tolist(), sums.part.tolist()
    for number, (chunk, npu) in enumerate(zip(sums.chunk.tolist(), sums.npu.tolist(), strict=True)):
        parts = part[first[number] : first[number + 1]]
        contributing = 0 if parts or npu < 0 else 1 << npu
        is_distinct = True
        for p in parts:
            is_distinct &= not contributing & contributors[p]
            contributing |= contributors[p]
        contributors.append(contributing)
        wrong = None
        if (npu >= 0) == bool(parts) or contributing & ~members:
            wrong = "no-such-value", "is neither a member's contribution nor a sum of others"
        elif not is_distinct:
            wrong = "counted-twice", "adds a contribution twice"
        elif any(sums.chunk[p] != chunk for p in parts):
            wrong = "chunk-mixed", "adds values of different chunks"
        if wrong is not None:
            violations.append(Violation(wrong[0], f"value {number} (chunk {chunk}) {wrong[1]}", None, None, chunk))
    for chunk, number in enumerate(sums.total.tolist()):
        if sums.chunk[number] != chunk or contributors[number] != members:
            text = f"value {number} is not the sum of all contributions to chunk {chunk}"
            violations.append(Violation("incomplete", text, None, None, chunk))
    return violations


def _are_in_order(sums: PartialSums, num_chunks: int) -> bool:
    """Whether every chunk has a total, values are of chunks, and parts are listed sum by sum and come before their sums."""
    count, first, part = sums.num_values, sums.part_first, sums.part
    if len(sums.npu) != count or len(sums.total) != num_chunks or not np.all((sums.chunk >= 0) & (sums.chunk < num_chunks)):
        return False
    listed = len(first) == count + 1 and first[0] == 0 and first[-1] == len(part) and bool(np.all(np.diff(first) >= 0))
    if not listed or not np.all((sums.total >= 0) & (sums.total < count)):
        return False
    return bool(np.all((part >= 0) & (part < np.repeat(np.arange(count), np.diff(first)))))


def _check_end(schedule: Schedule, sums: PartialSums, holders: list[_Holders]) -> list[Violation]:
    """In the end every member, or the owner of each chunk, has the whole sum."""
    collective = schedule.collective
    violations = []
    for chunk, whole in enumerate(sums.total.tolist()):
        needing = collective.member_npus if collective.gathers else collective.chunk_owner[chunk : chunk + 1]
        for npu in np.setdiff1d(needing, holders[whole][0]).tolist():
            text = f"NPU {npu} ends without the whole of chunk {chunk}"
            violations.append(Violation("incomplete", text, None, npu, chunk))
    return violations


def check_devices(schedule: Schedule, first: Ints, last: Ints) -> list[Violation]:
    """Violations of windows and ports, by the first and the last row of each sound trip."""
    topology = schedule.topology
    src, dst = topology.channel_src[schedule.channel[first]], topology.channel_dst[schedule.channel[last]]
    chunk, adds = schedule.chunk[first], schedule.reduces[last]
    violations: list[Violation] = []
    for device in topology.reducing:
        into = np.flatnonzero((dst == device.device) & adds)
        where = topology.describe_device(device.device)
        if device.ports is not None:
            given, count = np.unique(chunk[into], return_counts=True)
            for number, ports in zip(given[count > device.ports].tolist(), count[count > device.ports].tolist(), strict=True):
                text = f"{where} adds up chunk {number} from {ports} others, expected at most {device.ports}"
                violations.append(Violation("too-many-ports", text, None, device.device, number))
        if device.window_bytes is None:
            continue
        for sender in np.unique(src[into]).tolist():
            own_sends = into[src[into] == sender]
            back = np.flatnonzero((dst == sender) & ~adds)
            returns: dict[int, list[int]] = {}
            for at in back.tolist():
                returns.setdefault(int(chunk[at]), []).append(int(schedule.end_ns[last[at]]))
            events = []
            for at in own_sends.tolist():
                size, begin = int(schedule.collective.chunk_size_bytes[chunk[at]]), int(schedule.start_ns[first[at]])
                events.append((begin, 1, size, int(first[at])))
                ends = [end for end in returns.get(int(chunk[at]), ()) if end > begin]
                if ends:
                    events.append((min(ends), 0, -size, -1))
            under_way = 0
            for _, _, change, row in sorted(events):
                under_way += change
                if change > 0 and under_way > device.window_bytes:
                    text = f"send {row} makes {under_way} bytes of NPU {sender} that are under way in {where}, expected at most "
                    violations.append(Violation("window", f"{text}{device.window_bytes}", row, sender, int(schedule.chunk[row])))
    return violations
