"""The oracle for schedules with partial sums: whether values are what they claim to be, and are there when they are sent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.partial_sums import PartialSums
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.verifier.violation import Violation

_NEVER = np.iinfo(np.int64).max
_Holders = tuple[NDArray[np.int64], NDArray[np.int64]]
"""NPUs that have a value, ascending, and since when. Few NPUs have most values, so no table has all NPUs and all values."""


def check_values(
    schedule: Schedule,
    rows: NDArray[np.int64],
    comp_ns: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    at_row: Callable[[str, int, str], Violation],
) -> list[Violation]:
    """Violations of a schedule whose sends carry values.

    A sum uses every contribution once; the whole sum of a chunk has that of every member. A value leaves an NPU once it is there:
    the NPU's own contribution from the beginning, what was sent to it on arrival, and a sum that was not sent to it as soon as
    all parts are there and added up. In the end every NPU that needs a whole sum has it.

    Parameters
    ----------
    schedule
        The schedule.
    rows
        Rows that name existing chunks and channels.
    comp_ns
        How long it takes to add numbers of bytes.
    at_row
        A violation from its code, its row and what is wrong.
    """
    sums, value = schedule.sums, schedule.value
    assert sums is not None and value is not None
    violations = _check_table(sums, schedule.collective)
    if violations:
        return violations
    value, src, dst = value[rows], schedule.src[rows], schedule.dst[rows]
    again = np.zeros(len(rows), np.bool_)
    order = np.lexsort((rows, schedule.end_ns[rows], dst, value))
    again[order[1:]] = (dst[order[1:]] == dst[order[:-1]]) & (value[order[1:]] == value[order[:-1]])
    holders = _find_holders(sums, (value, dst, schedule.end_ns[rows]), order[~again[order]])
    parts = np.diff(sums.part_first)
    durations = comp_ns((parts - 1).clip(0) * schedule.collective.chunk_size_bytes[sums.chunk])
    for whole in np.flatnonzero(parts).tolist():
        who, last = _who_has_all(
            [holders[part] for part in sums.part[sums.part_first[whole] : sums.part_first[whole + 1]].tolist()]
        )
        makes = ~np.isin(who, holders[whole][0])
        npus = np.concatenate((holders[whole][0], who[makes]))
        ascending = np.argsort(npus)
        times = np.concatenate((holders[whole][1], last[makes] + durations[whole]))
        holders[whole] = npus[ascending], times[ascending]
    text = "brings a value that the destination already has"
    own_again = sums.npu[value] == dst
    violations += [at_row("redundant-send", int(rows[i]), text) for i in np.flatnonzero(again | own_again)]
    text = "leaves before its value, or all parts of it, are there"
    absent = schedule.start_ns[rows] < _times(holders, value, src)
    violations += [at_row("chunk-absent", int(rows[i]), text) for i in np.flatnonzero(absent)]
    return violations + _check_end(schedule, sums, holders)


def _find_holders(
    sums: PartialSums, arrivals: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]], first: NDArray[np.int64]
) -> list[_Holders]:
    """Who has each value without making it, and from when on: those that it is sent to, and the NPU whose contribution it is.

    Parameters
    ----------
    sums
        The values.
    arrivals
        The value, destination and time of arrival of sends.
    first
        The sends that bring a value to an NPU first, by value.
    """
    value, dst, end_ns = arrivals
    first = first[sums.npu[value[first]] != dst[first]]
    begins = np.searchsorted(value[first], np.arange(1, sums.num_values))
    columns = np.split(dst[first].astype(np.int64), begins), np.split(end_ns[first], begins)
    holders = list(zip(*columns, strict=True))
    for number, npu in enumerate(sums.npu.tolist()):
        if npu >= 0:
            npus, times = holders[number]
            at = np.searchsorted(npus, npu)
            holders[number] = np.insert(npus, at, npu), np.insert(times, at, 0)
    return holders


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


def _times(holders: list[_Holders], value: NDArray[np.int32], npu: NDArray[np.int32]) -> NDArray[np.int64]:
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
    violations: list[Violation] = []
    # Sets of NPUs are the bits of numbers: NPU i is the bit of 2**i.
    members = sum(1 << npu for npu in collective.member_npus.tolist())
    contributors: list[int] = []
    first, part = sums.part_first.tolist(), sums.part.tolist()
    for number, (chunk, npu) in enumerate(zip(sums.chunk.tolist(), sums.npu.tolist(), strict=True)):
        parts = part[first[number] : first[number + 1]]
        found = 0 if parts or npu < 0 else 1 << npu
        is_distinct = True
        for p in parts:
            is_distinct &= not found & contributors[p]
            found |= contributors[p]
        contributors.append(found)
        wrong = None
        if (npu >= 0) == bool(parts) or found & ~members:
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
