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
    has = np.full((schedule.topology.num_npus, sums.num_values), _NEVER)
    np.minimum.at(has, (dst, value), schedule.end_ns[rows])
    arrives = has < _NEVER
    own = np.flatnonzero(sums.npu >= 0)
    again = np.zeros(len(rows), np.bool_)
    order = np.lexsort((rows, schedule.end_ns[rows], value, dst))
    again[order[1:]] = (dst[order[1:]] == dst[order[:-1]]) & (value[order[1:]] == value[order[:-1]])
    has[sums.npu[own], own] = 0
    parts = np.diff(sums.part_first)
    durations = comp_ns((parts - 1).clip(0) * schedule.collective.chunk_size_bytes[sums.chunk])
    for whole in np.flatnonzero(parts).tolist():
        last = has[:, sums.part[sums.part_first[whole] : sums.part_first[whole + 1]]].max(axis=1)
        makes = ~arrives[:, whole] & (last < _NEVER)
        has[makes, whole] = last[makes] + durations[whole]
    text = "brings a value that the destination already has"
    own_again = sums.npu[value] == dst
    violations += [at_row("redundant-send", int(rows[i]), text) for i in np.flatnonzero(again | own_again)]
    text = "leaves before its value, or all parts of it, are there"
    absent = schedule.start_ns[rows] < has[src, value]
    violations += [at_row("chunk-absent", int(rows[i]), text) for i in np.flatnonzero(absent)]
    return violations + _check_end(schedule, sums, has)


def _check_table(sums: PartialSums, collective: Collective) -> list[Violation]:
    """Contributions are those of members, sums are of one chunk and count nobody twice, whole sums lack nobody."""
    violations: list[Violation] = []
    members = frozenset(collective.member_npus.tolist())
    contributors: list[frozenset[int]] = []
    first, part = sums.part_first.tolist(), sums.part.tolist()
    for number, (chunk, npu) in enumerate(zip(sums.chunk.tolist(), sums.npu.tolist(), strict=True)):
        parts = part[first[number] : first[number + 1]]
        found = frozenset((npu,)) if not parts else frozenset[int]().union(*(contributors[p] for p in parts))
        contributors.append(found)
        wrong = None
        if (npu >= 0) == bool(parts) or not found <= members:
            wrong = "no-such-value", "is neither a member's contribution nor a sum of others"
        elif len(found) != (sum(len(contributors[p]) for p in parts) if parts else 1):
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


def _check_end(schedule: Schedule, sums: PartialSums, has: NDArray[np.int64]) -> list[Violation]:
    """In the end every member, or the owner of each chunk, has the whole sum."""
    collective = schedule.collective
    violations = []
    for chunk, whole in enumerate(sums.total.tolist()):
        needing = collective.member_npus if collective.gathers else collective.chunk_owner[chunk : chunk + 1]
        for npu in needing[has[needing, whole] == _NEVER].tolist():
            text = f"NPU {npu} ends without the whole of chunk {chunk}"
            violations.append(Violation("incomplete", text, None, npu, chunk))
    return violations
