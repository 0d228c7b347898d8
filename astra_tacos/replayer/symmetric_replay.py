"""Replay of symmetric schedules, without a list of all sends: what happens to NPU 0's chunks happens to all, moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule

_BLOCK = 1 << 18
"""Rows that are taken at a time, as Python's numbers take much memory."""


@dataclass(frozen=True, slots=True, eq=False)
class SymmetricReplay:
    """The times of a replay; all NPUs finish at the same time.

    `start_ns`, `end_ns`: int64[num_rows], time at which each send of NPU 0's chunks started and arrived.
    `collective_time_ns`: time at which every NPU finishes, in ns.
    """

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    collective_time_ns: int


def replay_symmetric(schedule: SymmetricSchedule) -> SymmetricReplay:
    """Replay a symmetric schedule: each class of links serves its sends in the order of the rows, each as early as possible.

    A link serves one send of each row of its class, and all links of a class serve it at the same time. So does
    `replay_schedule` with the expanded schedule, if all chunks are as large as the largest one.

    Parameters
    ----------
    schedule
        A schedule that `verify_symmetric` accepts; of others, the times mean nothing.
    """
    task = schedule.task
    places = 1 if task.collective == "all-to-all" else task.num_npus
    usable = [0] * (task.num_chunks * places)
    free = [0] * len(task.classes)
    way = schedule.link_class
    start = np.empty(schedule.num_rows, np.int64)
    delay, hold, adding = task.delay_ns.tolist(), task.hold_ns.tolist(), task.reduction_ns
    for first in range(0, schedule.num_rows, _BLOCK):
        rows = slice(first, first + _BLOCK)
        base = schedule.chunk[rows].astype(np.int64) * places
        here = base + (schedule.src[rows] if places > 1 else 0)
        there = base + (schedule.dst[rows] if places > 1 else 0)
        begun = []
        for at, to, over, reduces in zip(
            here.tolist(), there.tolist(), way[rows].tolist(), schedule.reduces[rows].tolist(), strict=True
        ):
            begin = max(free[over], usable[at])
            begun.append(begin)
            free[over] = begin + hold[over]
            usable[to] = max(usable[to], begin + delay[over] + (adding if reduces else 0))
        start[rows] = begun
    return SymmetricReplay(start, start + task.delay_ns[way], max(usable))
