"""Replay of schedules: each link serves its sends in the order of the schedule, each as early as possible.

A symmetric schedule is replayed without a list of all sends: what happens to NPU 0's chunks happens to all, moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.network.topology import NO_LINK
from astra_tacos.schedule.dependencies import operations
from astra_tacos.schedule.partial_sums import addition_ns
from astra_tacos.schedule.schedule import Schedule, check_rows
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ReplayError
from astra_tacos.support.grouping import group_by


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScheduleReplay:
    """The times of a replay of a schedule.

    `finish_ns`: int64[num_npus], time at which the last send of an NPU has arrived and its last chunk is usable.
    `link_busy_ns`: int64[num_links], time for which each link was held.
    `start_ns`, `end_ns`: int64[num_sends], time at which each send started and arrived.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, replay, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> replay(schedule).finish_ns.shape
    (4,)
    """

    finish_ns: Ints
    link_busy_ns: Ints
    start_ns: Ints
    end_ns: Ints

    def __repr__(self) -> str:
        return f"<ScheduleReplay: {len(self.start_ns):,} sends in {self.collective_time_ns:,} ns>"

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

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, replay, synthesize
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> replay(schedule).collective_time_ns == schedule.collective_time_ns
    True
    """
    from astra_tacos.replayer._schedule_replay_kernels import FINISHED, LinkOrder, Messages, Operations, Result, replay_operations

    check_rows(schedule)
    topology, sizes, done = schedule.topology, schedule.sizes, operations(schedule)
    timing, size_class = sizes.timing, sizes.size_class
    num_messages, additions = done.num_messages, done.additions
    row = schedule.message_row
    channel = schedule.channel[row]
    up = topology.channel_link[channel].astype(np.int64)
    down = topology.channel_down_link[channel].astype(np.int64)
    numbers = np.arange(num_messages)
    num_operations = num_messages + len(additions)
    child_first, child = group_by(done.awaited, np.repeat(np.arange(num_operations), np.diff(done.first)), num_operations)
    through = down != NO_LINK
    links, takers = up, numbers
    if timing.is_blocking:  # a down-link serves its messages in order, too
        links, takers = np.concatenate((up, down[through])), np.concatenate((numbers, numbers[through]))
        order = np.argsort(takers, kind="stable")
        links, takers = links[order], takers[order]
    link_first, link_row = group_by(links, takers, topology.num_links)
    times = Result(
        np.zeros(topology.num_npus, np.int64),
        np.zeros(topology.num_links, np.int64),
        np.full(num_operations, -1, np.int64),
        np.full(num_operations, -1, np.int64),
    )
    messages = Messages(
        up,
        down,
        timing.link_hold_ns[up, size_class],
        timing.link_delay_ns[up, size_class],
        timing.link_hold_ns[down, size_class],
        timing.link_delay_ns[down, size_class],
        timing.channel_delay_ns[channel, size_class],
        schedule.reduction_ns[row],
        schedule.src[row],
        schedule.dst[row],
    )
    graph = Operations(
        np.diff(done.first), child_first, child, additions.npu, addition_ns(additions.size_bytes, timing.reduce_bandwidth_gbps)
    )
    status = replay_operations(timing.is_blocking, messages, graph, LinkOrder(link_first, link_row), times)
    message = schedule.message_of
    result = ScheduleReplay(times.finish_ns, times.link_busy_ns, times.start_ns[message], times.end_ns[message])
    if status != FINISHED:
        stuck = int(np.argmax(result.start_ns < 0))
        raise ReplayError(
            f"send {stuck} (chunk {schedule.chunk[stuck]}, NPU {schedule.src[stuck]} to {schedule.dst[stuck]}) never starts: "
            "sends wait for one another in a cycle"
        )
    return result


_BLOCK = 1 << 18
"""Rows that are taken at a time, as Python's numbers take much memory."""


@dataclass(frozen=True, slots=True, eq=False)
class SymmetricReplay:
    """The times of a replay; all NPUs finish at the same time.

    `start_ns`, `end_ns`: int64[num_rows], time at which each send of NPU 0's chunks started and arrived.
    `collective_time_ns`: time at which every NPU finishes, in ns.
    """

    start_ns: Ints
    end_ns: Ints
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
