"""How long collectives take: replays of each alone on the network, with lines between the sizes that were replayed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.scheduler.tasks import Operation
from astra_tacos.trace.schema import NodeType
from astra_tacos.trace.trace import ABSENT, Trace, WorkloadColumns

_SIZES_PER_OCTAVE = 2
"""Of sizes that are replayed: others lie on lines between them."""


class CollectiveDurations:
    """Durations of native collectives, found when they are asked for."""

    def __init__(self, run: Run, backend: Backend) -> None:
        self._run, self._backend = run, backend
        self._group_of: dict[tuple[int, ...], int] = {}
        self._known: dict[tuple[int, int, int], int] = {}

    def __call__(self, operation: Operation) -> int:
        """Duration in ns, alone on the network; an estimate between two sizes that were replayed."""
        members, size = operation.members, max(operation.size_bytes, 1)
        shape = tuple(rank - members[0] for rank in members)
        group = self._group_of.setdefault(shape, operation.group)
        least = max(len(members), self._run.network.num_npus)
        if size <= least:
            return self._of(operation, group, least)
        step = 2.0 ** (1 / _SIZES_PER_OCTAVE)
        number = int(np.floor(np.log(size / least) / np.log(step)))
        low, high = (int(least * step**at) for at in (number, number + 1))
        if size in (low, high) or low == high:
            return self._of(operation, group, size)
        first, last = self._of(operation, group, low), self._of(operation, group, high)
        return round(first + (last - first) * (size - low) / (high - low))

    def _of(self, operation: Operation, group: int, size: int) -> int:
        key = operation.pattern, group, size
        if key not in self._known:
            run = single_run(self._run, operation.pattern, operation.group, operation.members, size)
            self._known[key] = replay_run(run, self._backend).end_ns
        return self._known[key]


def single_run(run: Run, pattern: int, group: int, members: tuple[int, ...], size: int) -> Run:
    """A run of one collective; ranks that do not take part compute for 1 ns.

    Parameters
    ----------
    run
        Where system, network and groups come from.
    pattern, group, members, size
        The collective's `CommType`, group, ranks, and input of a rank in bytes.
    """
    num = run.network.num_npus
    takes_part = np.isin(np.arange(num), members)
    absent = np.full(num, ABSENT, np.int64)
    zero, none = np.zeros(num, np.int64), np.zeros(num, np.uint32)
    columns = WorkloadColumns(
        comm_type=np.where(takes_part, pattern, ABSENT),
        num_ops=absent,
        tensor_size=absent,
        comm_priority=absent,
        is_cpu_op=np.zeros(num, np.bool_),
        own=absent,
        group=np.where(takes_part & (group != 0), 0, ABSENT).astype(np.int32),
        group_names=(str(group),),
        involved_dims=zero,
        involved_count=zero,
        wrong_type=none,
        no_value=none,
        byte_offset=zero,
    )
    trace = Trace(
        run.workload.prefix,
        np.arange(num + 1),
        np.zeros(num, np.uint64),
        np.where(takes_part, NodeType.COMM_COLL, NodeType.COMP).astype(np.uint8),
        zero,
        np.where(takes_part, size, ABSENT),
        absent,
        absent,
        np.zeros(num + 1, np.int64),
        np.empty(0, np.int64),
        None,
        columns,
    )
    system = replace(run.system, roofline_enabled=False)
    return replace(run, workload=trace, system=system, implementation=np.full(num, NATIVE, np.int32))
