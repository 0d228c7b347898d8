"""The oracle for schedules: whether every send is possible on its links, and all sends together compute the collective.

It shares no code with synthesizers, settling or replay, and computes delays anew from the links' bandwidth and latency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.joint import join
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.arrays import Bools, Floats, Ints, Ints32
from astra_tacos.support.errors import VerificationError
from astra_tacos.verifier.value_oracle import at_send, check_devices, check_trips, check_values, comp_ns
from astra_tacos.verifier.violation import Violation

_LONGEST_NS = float(1 << 61)
"""Two of them can be added up."""


def verify(schedule: Schedule) -> tuple[Violation, ...]:
    """Every violation of a schedule; none if it is legal and computes its collective.

    Checked: sends name existing chunks and channels; delays are those of the timing model; no link or port is double-booked,
    in the order of the rows; switches serve first come, first served; a chunk leaves an NPU only once it is there; a reduction
    uses each contribution exactly once; nothing replaces a chunk while a send is added to it;
    devices that only forward give out what they took in; windows and ports of reducing
    devices suffice; in the end every NPU has what the collective promises; chunk sizes add up, and personalised chunks are
    those of the right pairs. Other NPUs than the members may hold and pass on what they get.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, synthesize, verify
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> verify(schedule)
    ()
    >>> verify(replace(schedule, start_ns=schedule.start_ns - 1))[0].code
    'negative-start'
    """
    violations = check_sizes(schedule.collective)
    valid, broken = _check_references(schedule)
    violations += broken
    if len(valid):
        heads = _heads(schedule, valid)
        violations += _check_times(schedule, heads)
        violations += _check_links(schedule, heads)
    first = last = valid
    if schedule.trip is not None:
        first, last, broken = check_trips(schedule, valid)
        violations += broken + check_devices(schedule, first, last)
    judge = _check_contributions if schedule.sums is None else check_values
    violations += judge(schedule, first, last)
    return tuple(violations)


def verify_together(schedules: Sequence[Schedule]) -> tuple[Violation, ...]:
    """Every violation of schedules that run at once on one network: of each, and of the links that they share.

    Rows of the second kind count all sends by start.
    """
    joint = join(schedules)
    rows = _heads(joint, _check_references(joint)[0])
    alone = [violation for schedule in schedules for violation in verify(schedule)]
    return (*alone, *_check_links(joint, rows))


def _heads(schedule: Schedule, rows: Ints) -> Ints:
    """Those of some rows that are the first of a message, ascending."""
    counts = np.zeros(schedule.num_sends, np.int8)
    counts[rows] = 1
    counts[schedule.message_row] += 1
    return np.flatnonzero(counts == 2)


def check(schedule: Schedule) -> None:
    """Raise a `VerificationError` with the first violation, if there is one."""
    violations = verify(schedule)
    if violations:
        raise VerificationError(f"{len(violations)} violations, the first: {violations[0]}")


def check_sizes(collective: Collective) -> list[Violation]:
    """Chunks add up to what the collective moves, and differ by at most a byte."""
    if collective.part_bytes is not None:
        return _check_unequal_parts(collective)
    sizes = collective.chunk_size_bytes
    expected = _moved_bytes(collective)
    violations = []
    if int(sizes.sum()) != expected:
        violations.append(Violation("size-sum", f"chunks are {sizes.sum()} bytes in all, expected {expected}"))
    if int(sizes.min()) < 1 or int(sizes.max()) - int(sizes.min()) > 1:
        violations.append(
            Violation("size-spread", f"chunks are {sizes.min()} to {sizes.max()} bytes, expected at most 1 byte apart")
        )
    return violations + _check_ends(collective)


def _check_unequal_parts(collective: Collective) -> list[Violation]:
    """Chunks have a byte or more, and those of each pair add up to its part."""
    assert collective.part_bytes is not None and collective.chunk_target is not None
    members = collective.member_npus.tolist()
    left = {
        (src, dst): int(collective.part_bytes[row, column])
        for row, src in enumerate(members)
        for column, dst in enumerate(members)
        if src != dst
    }
    violations = []
    columns = (collective.chunk_owner, collective.chunk_target, collective.chunk_size_bytes)
    for chunk, (src, dst, size) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if size < 1:
            violations.append(Violation("size-spread", f"chunk {chunk} has {size} bytes, expected at least 1", chunk=chunk))
        left[src, dst] = left.get((src, dst), 0) - size
    wrong = [pair for pair, rest in left.items() if rest]
    if wrong:
        (src, dst), more = wrong[0], f" (and {len(wrong) - 1} pairs more)" if len(wrong) > 1 else ""
        text = f"chunks from NPU {src} to NPU {dst} lack {left[src, dst]} bytes of its part{more}"
        violations.append(Violation("size-sum", text))
    return violations


def _moved_bytes(collective: Collective) -> int:
    """What all chunks together must be: everything that some NPU lacks, or has to add to what others have."""
    others = len(collective.member_npus) - 1
    if collective.chunk_target is None:
        return collective.size_bytes * (1 if collective.reduces or collective.root is not None else others + 1)
    if collective.name != "scatter":
        return collective.size_bytes * others  # own parts of all buffers are one buffer; gathered shards are of one size
    pieces = (others + 1) * collective.chunks_per_npu
    first = int(np.searchsorted(collective.member_npus, collective.root or 0)) * collective.chunks_per_npu
    sizes = [collective.size_bytes * (k + 1) // pieces - collective.size_bytes * k // pieces for k in range(pieces)]
    sizes.sort(reverse=True)
    return collective.size_bytes - sum(sizes[first : first + collective.chunks_per_npu])


def _check_ends(collective: Collective) -> list[Violation]:
    """Personalised chunks are for every pair of members, from or to the root if there is one, equally many."""
    if collective.chunk_target is None:
        return []
    members = collective.member_npus.tolist()
    sources = [collective.root] if collective.name == "scatter" else members
    targets = [collective.root] if collective.name == "gather" else members
    expected = {(src, dst): collective.chunks_per_npu for src in sources for dst in targets if src != dst}
    counts = Counter(zip(collective.chunk_owner.tolist(), collective.chunk_target.tolist(), strict=True))
    wrong = sorted(ends for ends in expected.keys() | counts.keys() if expected.get(ends) != counts.get(ends))
    if not wrong:
        return []
    src, dst = wrong[0]
    text = f"{counts[src, dst]} chunks from NPU {src} to NPU {dst}, expected {expected.get((src, dst), 0)}"
    return [Violation("chunk-ends", f"{text} (and {len(wrong) - 1} pairs more)" if len(wrong) > 1 else text)]


def _check_references(schedule: Schedule) -> tuple[Ints, list[Violation]]:
    """Rows whose chunk and channel exist, and a violation for each of the others."""
    ok = np.ones(schedule.num_sends, bool)
    violations = []
    limits = (
        ("chunk", schedule.chunk, schedule.collective.num_chunks),
        ("channel", schedule.channel, schedule.topology.num_channels),
    )
    for kind, column, count in limits:
        outside = (column < 0) | (column >= count)
        ok &= ~outside
        for row in np.flatnonzero(outside).tolist():
            violations.append(Violation(f"no-such-{kind}", f"send {row}: {kind} {column[row]}, expected 0 to {count - 1}", row))
    return np.flatnonzero(ok), violations


def _bytes_of_messages(schedule: Schedule) -> Floats:
    """Of each row, the bytes of all rows of its message. Chunks that do not exist count as nothing."""
    size, chunk = schedule.collective.chunk_size_bytes, schedule.chunk
    exists = (chunk >= 0) & (chunk < len(size))
    message = schedule.message_of
    total = np.bincount(message, np.where(exists, size[np.where(exists, chunk, 0)], 0), schedule.num_messages)
    return total.astype(np.float64)[message]


def _delays(schedule: Schedule, row: Ints, links: Ints32) -> tuple[Ints, Ints]:
    """int(size / bandwidth) and int(latency + size / bandwidth) of each row's message on a link, in ASTRA-sim's arithmetic.

    A message is no shorter than what takes 1 ns of the link, and of all links of the switch that it may go through.
    """
    topology = schedule.topology
    rate = topology.link_bandwidth_gibps * (1 << 30) / 1e9
    on_wire = np.maximum(_bytes_of_messages(schedule)[row], np.ceil(_fastest_at_switch(topology, rate)[links]))
    latency = np.minimum(topology.link_latency_ns[links], _LONGEST_NS)
    serialisation = np.minimum(on_wire / rate[links], _LONGEST_NS)
    return np.trunc(serialisation).astype(np.int64), np.trunc(latency + serialisation).astype(np.int64)


def _fastest_at_switch(topology: Topology, rate: Floats) -> Floats:
    """float64[num_links], the highest rate of all links of a link's switch, its own where it leads to none."""
    switch = np.maximum(topology.link_src, topology.link_dst)  # NPUs have lower numbers
    order = np.argsort(switch, kind="stable")
    first = np.flatnonzero(np.diff(switch[order], prepend=-1))
    highest = np.repeat(np.maximum.reduceat(rate[order], first), np.diff(np.append(first, len(order)))) if len(order) else rate
    fastest = rate.copy()
    through = switch[order] >= topology.num_npus
    fastest[order[through]] = highest[through]
    return fastest


def _blocking_delay(schedule: Schedule, row: Ints) -> Ints:
    topology = schedule.topology
    up, down = topology.channel_link[schedule.channel[row]], topology.channel_down_link[schedule.channel[row]]
    rate = topology.link_bandwidth_gibps * (1 << 30) / 1e9
    direct = down == NO_LINK
    slower = np.where(direct, rate[up], np.minimum(rate[up], rate[down]))
    latency = topology.link_latency_ns[up] + np.where(direct, 0.0, topology.link_latency_ns[down])
    return np.trunc(latency + _bytes_of_messages(schedule)[row] / slower).astype(np.int64)


def _check_times(schedule: Schedule, row: Ints) -> list[Violation]:
    """Starts are not negative, and arrivals fit the model: exactly, or no earlier where a switch may keep a chunk waiting."""
    topology = schedule.topology
    start, end = schedule.start_ns[row], schedule.end_ns[row]
    up, down = topology.channel_link[schedule.channel[row]], topology.channel_down_link[schedule.channel[row]]
    waits = np.zeros(len(row), bool)
    if schedule.timing.is_blocking:
        delay = _blocking_delay(schedule, row)
    else:
        waits = down != NO_LINK
        delay = _delays(schedule, row, up)[1] + np.where(waits, _delays(schedule, row, down)[1], 0)
    wrong = (end - start < delay) | (~waits & (end - start != delay))
    violations = [at_send(schedule, "negative-start", int(row[i]), f"starts at {start[i]} ns") for i in np.flatnonzero(start < 0)]
    for i in np.flatnonzero(wrong):
        least = "at least " if waits[i] else ""
        violations.append(
            at_send(schedule, "wrong-delay", int(row[i]), f"takes {end[i] - start[i]} ns, expected {least}{delay[i]}")
        )
    return violations


def _check_links(schedule: Schedule, row: Ints) -> list[Violation]:
    """No link takes a send while it is held by another; rows of one link are in order; switches do not reorder."""
    topology = schedule.topology
    start, end = schedule.start_ns[row], schedule.end_ns[row]
    up, down = topology.channel_link[schedule.channel[row]], topology.channel_down_link[schedule.channel[row]]
    switched = np.flatnonzero(down != NO_LINK)
    if schedule.timing.is_blocking:
        hold = _blocking_delay(schedule, row)
        violations = _check_overlaps(schedule, row, up, start, hold, start)
        return violations + _check_overlaps(
            schedule, row[switched], down[switched], start[switched], hold[switched], start[switched]
        )
    violations = _check_overlaps(schedule, row, up, start, _delays(schedule, row, up)[0], start)
    row, down = row[switched], down[switched]
    hold, delay = _delays(schedule, row, down)
    reached = start[switched] + _delays(schedule, row, up[switched])[1]
    return violations + _check_overlaps(schedule, row, down, end[switched] - delay, hold, reached)


def _check_overlaps(
    schedule: Schedule,
    row: Ints,
    link: Ints32,
    begin: Ints,
    hold: Ints,
    reached: Ints,
) -> list[Violation]:
    order = np.lexsort((row, begin, link))
    before, after = order[:-1], order[1:]
    same = link[before] == link[after]
    overlap = same & (begin[after] < begin[before] + hold[before])
    swapped = same & ~overlap & (row[after] < row[before]) & (reached[after] >= reached[before]) & (reached is begin)
    overtakes = same & ~overlap & (reached[after] < reached[before])
    violations = []
    for code, which, finding in (
        ("double-booked", overlap, "takes a link that is held by"),
        ("out-of-order", swapped, "comes later on its link, but earlier in the schedule, than"),
        ("overtaken", overtakes, "reached a switch earlier, but is served after"),
    ):
        for i in np.flatnonzero(which):
            text = f"{finding} send {row[before[i]]} ({schedule.topology.describe_link(int(link[after[i]]))})"
            violations.append(at_send(schedule, code, int(row[after[i]]), text))
    return violations


def _check_contributions(schedule: Schedule, row: Ints, last: Ints) -> list[Violation]:
    """What NPUs know, if chunks leave them in some rows and come to others in rows of their own: without trips, in the same."""
    from astra_tacos.verifier import _oracle_kernels as kernels

    collective = schedule.collective
    chunk = schedule.chunk[row]
    reduces = schedule.reduces[last]
    adding = comp_ns(_bytes_of_messages(schedule)[last], schedule.timing)
    for device in schedule.topology.reducing:
        at_device = schedule.topology.channel_dst[schedule.channel[last]] == device.device
        adding = np.where(at_device, max(device.reduction_ns, 1), adding)
    arrival = schedule.end_ns[last]
    usable = arrival + np.where(reduces, adding, 0)
    place = chunk.astype(np.int64) * schedule.topology.num_npus + schedule.topology.channel_dst[schedule.channel[last]]
    raced = _copies_that_meet_additions(place, reduces, arrival, usable)
    events = np.arange(2 * len(row))
    departs = events >= len(row)
    send = events % max(len(row), 1)
    # What arrives at an instant can leave at it. A send whose arrival does not follow its start is reported above: skip it.
    sane = usable > schedule.start_ns[row]
    time = np.concatenate((usable, schedule.start_ns[row]))
    order = np.lexsort((departs, time, chunk[send]))
    order = order[sane[send[order]]]
    chunk_first = np.searchsorted(chunk[send[order]], np.arange(collective.num_chunks + 1))
    ends = schedule.topology.channel_src[schedule.channel[row]], schedule.topology.channel_dst[schedule.channel[last]]
    events_by_chunk = kernels.Events(chunk_first, send[order], departs[order], *ends, reduces)
    goal = kernels.Goal(
        collective.chunk_owner,
        collective.chunk_owner if collective.chunk_target is None else collective.chunk_target,
        np.isin(np.arange(schedule.topology.num_npus), collective.member_npus),
        collective.reduces,
        collective.gathers,
    )
    room = 0
    while True:
        faults = [np.empty(room, np.int64) for _ in range(4)]
        num_faults = kernels.follow_contributions(events_by_chunk, goal, kernels.Faults(*faults))
        if num_faults <= room:
            break
        room = num_faults
    texts = {
        kernels.ABSENT: ("chunk-absent", "leaves before any part of the chunk has arrived"),
        kernels.COUNTED_TWICE: ("counted-twice", "adds a contribution that the destination already has"),
        kernels.OVERWRITTEN: ("overwrites", "replaces the chunk by a chunk that lacks one of its contributions"),
        kernels.BASELESS: ("adds-to-nothing", "is added to a chunk that its destination does not have"),
        kernels.REDUNDANT: ("redundant-send", "brings a chunk that the destination already has"),
    }
    violations = []
    for copy in raced.tolist():
        text = "replaces the chunk while another send is added to the chunk: the result depends on their order"
        violations.append(at_send(schedule, "race", int(last[copy]), text, int(ends[1][copy])))
    for kind, local, npu, of_chunk in zip(*(column.tolist() for column in faults), strict=True):
        if kind == kernels.MISSING:
            text = f"NPU {npu} ends without the whole of chunk {of_chunk}"
            violations.append(Violation("incomplete", text, None, npu, of_chunk))
        else:
            code, text = texts[kind]
            violations.append(at_send(schedule, code, int((row if kind == kernels.ABSENT else last)[local]), text, npu))
    return violations


def _copies_that_meet_additions(place: Ints, reduces: Bools, arrival: Ints, usable: Ints) -> Ints:
    """Sends that replace a chunk somewhere while another one is added to it there.

    An addition lasts from its arrival until it is usable, both instants included: nothing says what comes first at one instant.
    """
    additions, copies = np.flatnonzero(reduces), np.flatnonzero(~reduces)
    where = place[np.concatenate((additions, copies, additions))]
    time = np.concatenate((arrival[additions], arrival[copies], usable[additions]))
    kind = np.repeat(np.array([1, 0, -1]), (len(additions), len(copies), len(additions)))
    order = np.lexsort((-kind, time, where))
    under_way = np.empty(len(order), np.int64)
    under_way[order] = np.cumsum(kind[order])
    return copies[under_way[len(additions) : len(additions) + len(copies)] > 0]
