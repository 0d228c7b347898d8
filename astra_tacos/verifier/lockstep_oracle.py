"""The oracle for lockstep schedules: the checks of `schedule_oracle`, done round by round in little memory.

It shares no code with the synthesizer, and computes delays anew from the links' bandwidth and latency. A Reduce-Scatter is
correct if every NPU except a chunk's owner sends its sum exactly once, after it has received all that it receives of the chunk:
then all contributions reach the owner, each on one path. An All-Reduce is a Reduce-Scatter that ends before the All-Gather
begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.lockstep_schedule import LockstepSchedule, why_not_lockstep
from astra_tacos.verifier.schedule_oracle import check_sizes, comp_ns
from astra_tacos.verifier.violation import Violation

MOST_VIOLATIONS = 1000
"""Most violations that are listed; all are counted."""
# Number of parts of the chunks. It does not depend on the number of threads, so that the result does not, either.
_PARTS = 2


def verify_lockstep(
    schedule: LockstepSchedule, threads: int | None = None, on_progress: Callable[[int, int], None] | None = None
) -> tuple[Violation, ...]:
    """The first violations of a schedule, up to `MOST_VIOLATIONS`; none if it is legal and computes its collective.

    Parameters
    ----------
    schedule
        The schedule to verify.
    threads
        Number of threads, by default one per core; more than two have no effect.
    on_progress
        Called with the number of rounds done and their total.
    """
    why_not = why_not_lockstep(schedule.topology)
    if why_not:
        return (Violation("not-lockstep", why_not),)
    shape = (schedule.num_rounds, schedule.topology.num_channels)
    if schedule.chunk.shape != shape or not 0 <= schedule.reducing_rounds <= schedule.num_rounds:
        text = f"chunks are {schedule.chunk.shape}, {schedule.reducing_rounds} rounds of them reduce, expected {shape}"
        return (Violation("shape", text),)
    violations = check_sizes(schedule.collective)
    hold, usable = _delays(schedule)
    violations += _check_starts(schedule, hold, usable)
    collective, reducing = schedule.collective, schedule.reducing_rounds
    phases = [(0, reducing)] if collective.reduces or reducing else []
    phases += [(reducing, schedule.num_rounds)] if collective.gathers or reducing < schedule.num_rounds else []
    report = on_progress or (lambda done, total: None)
    place_of = _places(schedule)
    sends = unlisted = 0
    with ThreadPoolExecutor(max(1, min(threads or os.cpu_count() or 1, _PARTS))) as pool:
        for first, last in phases:
            found, more, phase_sends = _check_phase(schedule, first, last, usable, place_of, pool, report)
            violations += found
            unlisted += more
            sends += phase_sends
    if sends != schedule.num_sends:
        violations.append(Violation("send-count", f"has {sends:,} sends, expected {schedule.num_sends:,} as it says itself"))
    if unlisted:
        violations.append(Violation("more", f"and {unlisted:,} more violations"))
    return tuple(violations)


def _delays(schedule: LockstepSchedule) -> tuple[int, NDArray[np.int64]]:
    """The time in ns for which a send holds its link, and int64[num_rounds], the delay of the round's slowest chunk.

    A delay is the time from the start of a round until the chunk is usable. The arithmetic is ASTRA-sim's.
    """
    topology = schedule.topology
    rate = topology.link_bandwidth_gibps[0] * (1 << 30) / 1e9
    size = float(schedule.collective.chunk_size_bytes.max())
    serialisation = (size if schedule.timing.is_blocking else max(size, np.ceil(rate))) / rate  # 1 ns at least
    delay = int(topology.link_latency_ns[0] + serialisation)
    hold = delay if schedule.timing.is_blocking else int(serialisation)
    usable = np.full(schedule.num_rounds, delay)
    usable[: schedule.reducing_rounds] += int(comp_ns(schedule.collective.chunk_size_bytes, schedule.timing).max())
    return hold, usable


def _check_starts(schedule: LockstepSchedule, hold: int, usable: NDArray[np.int64]) -> list[Violation]:
    """Check that rounds start at least a link's holding time apart, and that gathering begins after all reductions."""
    start, reducing = schedule.start_ns, schedule.reducing_rounds
    violations = []
    if len(start) and start[0] < 0:
        violations.append(Violation("negative-start", f"round 0 starts at {start[0]} ns", None, None, None, int(start[0])))
    for number in np.flatnonzero(np.diff(start) < hold).tolist():
        text = (
            f"round {number + 1} starts {start[number + 1] - start[number]} ns after the one before, which holds links for {hold}"
        )
        violations.append(Violation("double-booked", text, None, None, None, int(start[number + 1])))
    if 0 < reducing < len(start) and start[reducing] < (start + usable)[:reducing].max():
        text = f"gathering begins at {start[reducing]} ns, before all is reduced"
        violations.append(Violation("chunk-absent", text, None, None, None, int(start[reducing])))
    expected = {(True, False): "all reduce", (False, True): "none reduces"}
    what = expected.get((schedule.collective.reduces, schedule.collective.gathers))
    if what and reducing != (len(start) if schedule.collective.reduces else 0):
        violations.append(Violation("wrong-phase", f"{reducing} of {len(start)} rounds reduce, expected that {what}"))
    return violations


def _places(schedule: LockstepSchedule) -> NDArray[np.int64]:
    """A numbering of the chunks, chosen for locality in the processor's cache; any numbering is correct.

    Chunks that are sent at the same time get close numbers: they are sorted by the round of the second half in which they first
    appear.
    """
    num_chunks = schedule.collective.num_chunks
    seen = np.zeros(num_chunks, bool)
    order = [np.empty(0, np.int64)]
    found = 0
    for number in range(schedule.num_rounds // 2, schedule.num_rounds):
        if found == num_chunks:
            break
        row = schedule.chunk[number]
        new = np.unique(row[row < num_chunks]).astype(np.int64)
        new = new[~seen[new]]
        seen[new] = True
        found += len(new)
        order.append(new)
    place_of = np.empty(num_chunks, np.int64)
    place_of[np.concatenate([*order, np.flatnonzero(~seen)])] = np.arange(num_chunks)
    return place_of


def _check_phase(
    schedule: LockstepSchedule,
    first: int,
    last: int,
    usable: NDArray[np.int64],
    place_of: NDArray[np.int64],
    pool: ThreadPoolExecutor,
    report: Callable[[int, int], None],
) -> tuple[list[Violation], int, int]:
    """Violations of the reducing or of the copying rounds, the number of violations that are not listed, and of sends."""
    from astra_tacos.verifier import _round_kernels as kernels

    topology, collective = schedule.topology, schedule.collective
    reduces = first < schedule.reducing_rounds or (first == last and not collective.gathers)
    blocks = -(-collective.num_chunks // (64 * kernels.WORDS))
    bits = np.zeros((blocks, topology.num_npus, kernels.WORDS), np.uint64)
    if not reduces:
        place = place_of >> 6
        bit = np.uint64(1) << (place_of & 63).astype(np.uint64)
        np.bitwise_or.at(bits, (place // kernels.WORDS, collective.chunk_owner, place % kernels.WORDS), bit)
    start = schedule.start_ns
    deliver_to = np.zeros(schedule.num_rounds, np.int64)
    deliver_to[first:last] = first + np.searchsorted(start[first:last] + usable[first:last], start[first:last], "right")
    deliver_to[first:last] = np.minimum(deliver_to[first:last], np.arange(first, last))
    faults = np.empty((_PARTS, MOST_VIOLATIONS, 3), np.int64)
    found = [0] * _PARTS
    delivered, sends = first, 0
    for begin, end in [(max(a, first), min(b, last)) for a, b in schedule.windows() if a < last and b > first]:
        rows = np.asarray(schedule.chunk[delivered:end]).astype(np.uint32)
        sends += int(np.count_nonzero(rows[begin - delivered :] != schedule.idle))
        window = kernels.Window(reduces, begin, end, delivered, deliver_to, end == last)
        played = kernels.Sends(schedule.idle, rows, topology.channel_src, topology.channel_dst, place_of)
        parts = [
            pool.submit(kernels.follow_rounds, window, kernels.Share(part, _PARTS), played, bits, faults[part], found[part])
            for part in range(_PARTS)
        ]
        found = [int(part.result()) for part in parts]
        delivered = int(deliver_to[end - 1])
        report(end, schedule.num_rounds)
    listed = np.concatenate([faults[part, : min(found[part], MOST_VIOLATIONS)] for part in range(_PARTS)])
    listed = listed[np.lexsort((listed[:, 2], listed[:, 1]))][:MOST_VIOLATIONS]
    violations = [_violation(schedule, *row) for row in listed.tolist()]
    missing = np.empty((MOST_VIOLATIONS, 2), np.int64)
    chunk_of = np.argsort(place_of)
    chunk_first = np.minimum(np.arange(blocks + 1) * 64 * kernels.WORDS, collective.num_chunks)
    lacking = int(kernels.find_missing(chunk_first, chunk_of, collective.chunk_owner, reduces, bits, missing))
    for npu, chunk in missing[: min(lacking, MOST_VIOLATIONS)].tolist():
        if reduces:
            text = f"NPU {npu} " + ("owns" if collective.chunk_owner[chunk] == npu else "keeps") + f" chunk {chunk}"
            text += ", but sends it away" if collective.chunk_owner[chunk] == npu else ", expected to send its sum away"
        else:
            text = f"NPU {npu} ends without chunk {chunk}"
        violations.append(Violation("incomplete", text, None, npu, chunk))
    return violations, sum(found) - len(listed) + max(0, lacking - MOST_VIOLATIONS), sends


def _violation(schedule: LockstepSchedule, kind: int, number: int, channel: int) -> Violation:
    from astra_tacos.verifier import _round_kernels as kernels

    texts = {
        kernels.NO_SUCH_CHUNK: ("no-such-chunk", "which does not exist"),
        kernels.ABSENT: ("chunk-absent", "which is not there yet"),
        kernels.REDUNDANT: ("redundant-send", "which the destination already has"),
        kernels.SENT_TWICE: ("counted-twice", "whose sum has been sent away before"),
        kernels.TOO_LATE: ("counted-out", "whose sum its destination has sent away already"),
    }
    code, text = texts[kind]
    topology = schedule.topology
    src, dst, chunk = int(topology.channel_src[channel]), int(topology.channel_dst[channel]), int(schedule.chunk[number, channel])
    message = f"in round {number} NPU {src} sends NPU {dst} chunk {chunk}, {text}"
    return Violation(code, message, None, src, chunk, int(schedule.start_ns[number]))
