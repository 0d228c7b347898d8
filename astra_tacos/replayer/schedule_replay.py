"""Replay of schedules: each link serves its sends in the order of the schedule, each as early as possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.csr import group_by
from astra_tacos.errors import ReplayError
from astra_tacos.schedule.dependencies import data_dependencies
from astra_tacos.schedule.schedule import Schedule, check_rows
from astra_tacos.topology.topology import NO_LINK


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleReplay:
    """The times of a replay of a schedule.

    `finish_ns`: int64[num_npus], time at which the last send of an NPU has arrived and its last chunk is usable.
    `link_busy_ns`: int64[num_links], time for which each link was held.
    `start_ns`, `end_ns`: int64[num_sends], time at which each send started and arrived.
    """

    finish_ns: NDArray[np.int64]
    link_busy_ns: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]

    @property
    def collective_time_ns(self) -> int:
        """Time at which the last NPU finishes, in ns."""
        return int(self.finish_ns.max())


def replay_schedule(schedule: Schedule) -> ScheduleReplay:
    """Replay a schedule under its timing model, in the order of its rows.

    The times of the schedule only decide which sends a send waits for. Times are truncated to nanoseconds, as in ASTRA-sim
    (`astra-network-analytical`, `congestion_aware/Link.cpp`).

    Raises
    ------
    ConfigError
        If a send names a chunk or channel that does not exist.
    ReplayError
        If sends wait for one another in a cycle.
    """
    from astra_tacos.replayer._schedule_replay_kernels import FINISHED, LinkOrder, Result, Sends, replay_sends

    check_rows(schedule)
    topology, timing = schedule.topology, schedule.timing
    size_class = schedule.collective.chunk_class[schedule.chunk]
    up = topology.channel_link[schedule.channel].astype(np.int64)
    down = topology.channel_down_link[schedule.channel].astype(np.int64)
    awaited_first, awaited = data_dependencies(schedule)
    rows = np.arange(schedule.num_sends)
    child_first, child = group_by(awaited, np.repeat(rows, np.diff(awaited_first)), schedule.num_sends)
    through = down != NO_LINK
    links, takers = up, rows
    if timing.is_blocking:  # a down-link serves its sends in order, too
        links, takers = np.concatenate((up, down[through])), np.concatenate((rows, rows[through]))
        order = np.argsort(takers, kind="stable")
        links, takers = links[order], takers[order]
    link_first, link_row = group_by(links, takers, topology.num_links)
    result = ScheduleReplay(
        np.zeros(topology.num_npus, np.int64),
        np.zeros(topology.num_links, np.int64),
        np.full(schedule.num_sends, -1, np.int64),
        np.full(schedule.num_sends, -1, np.int64),
    )
    sends = Sends(
        up,
        down,
        timing.link_hold_ns[up, size_class],
        timing.link_delay_ns[up, size_class],
        timing.link_hold_ns[down, size_class],
        timing.link_delay_ns[down, size_class],
        timing.channel_delay_ns[schedule.channel, size_class],
        np.where(schedule.reduces, timing.reduction_ns[size_class], 0),
        np.diff(awaited_first),
        child_first,
        child,
        schedule.src,
        schedule.dst,
    )
    times = Result(result.finish_ns, result.link_busy_ns, result.start_ns, result.end_ns)
    status = replay_sends(timing.is_blocking, sends, LinkOrder(link_first, link_row), times)
    if status != FINISHED:
        row = int(np.argmax(result.start_ns < 0))
        raise ReplayError(
            f"send {row} (chunk {schedule.chunk[row]}, NPU {schedule.src[row]} to {schedule.dst[row]}) never starts: "
            "sends wait for one another in a circle"
        )
    return result
