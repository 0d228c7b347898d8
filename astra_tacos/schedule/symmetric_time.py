"""The exact time of a symmetric schedule, from the sends of NPU 0's chunks alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from astra_tacos.network.translation_group import star
from astra_tacos.schedule.settle import LONG_NS, UNITS_PER_NS, links_of
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule
from astra_tacos.schedule.timing import untruncated


def exact_symmetric_ns(schedule: SymmetricSchedule) -> float:
    """What `exact_time_ns` says of the expanded schedule if all chunks have the same size; else of one with the largest only.

    Rows take the links of NPU 0 in their order. A port into an NPU takes as many sends as one out of it, equally far apart, so
    none waits there that did not wait before.
    """
    from astra_tacos.schedule import _settle_kernels as kernels

    task, rows = schedule.task, schedule.num_rows
    if not rows:
        return 0.0
    unit = UNITS_PER_NS if schedule.collective_time_ns < LONG_NS else 1
    links, size = star(task.name, task.dimensions), np.array([task.chunk_bytes])
    delays = untruncated(links, size, task.link_model, task.reduce_bandwidth_gbps, unit)
    hands = 1 if task.collective == "all-to-all" else task.num_npus
    here, there = (npu.astype(np.int64) % hands * task.num_chunks + schedule.chunk for npu in (schedule.src, schedule.dst))
    none, times = np.empty(0, np.int64), kernels.Times(*(np.empty(rows, np.int64) for _ in range(3)))
    way = schedule.link_class.astype(np.int32)
    kernels.earliest_times(
        kernels.Sends(schedule.chunk, way, schedule.reduces, here, there, none),
        kernels.Messages(np.arange(rows + 1), np.zeros(rows, np.int64)),
        links_of(links, replace(delays, device_reduction_ns=none)),
        kernels.Additions(none, none, none, none, none),
        hands,
        hands * task.num_chunks,
        times,
    )
    return int((times.end_ns + np.where(schedule.reduces, delays.reduction_ns[0], 0)).max()) / unit
