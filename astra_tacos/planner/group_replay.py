"""The time of a collective on the real network: all groups that run it at once, in the embedded replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from astra_tacos.config.communicator import CommunicatorGroups
from astra_tacos.config.network import NetworkConfig
from astra_tacos.config.system import SystemConfig
from astra_tacos.export.chakra import schedule_trace
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.patterns import carrying_type
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.trace.schema import NodeType
from astra_tacos.trace.trace import ABSENT, Trace, WorkloadColumns


def replay_together(
    schedule: Schedule | None,
    pattern: int,
    size_bytes: int,
    groups: tuple[tuple[int, ...], ...],
    network: NetworkConfig,
    system: SystemConfig,
    backend: Backend,
) -> int:
    """Nanoseconds until the last of the groups finishes, if all start at once.

    Parameters
    ----------
    schedule
        What they run, None for the native collective of the system.
    pattern
        Pattern of the collective.
    size_bytes
        Size of the collective.
    groups
        Ranks in ascending order; of groups that share a rank, only the first takes part.
    network
        Network of the run.
    system
        System of the run.
    backend
        Network model of the replay.

    Raises
    ------
    ConfigError, ReplayError
        As `replay_run` does.
    """
    chosen = disjoint(groups)
    traces = () if schedule is None else (schedule_trace(schedule, schedule.collective.name),)
    return replay_run(_run(traces, pattern, size_bytes, chosen, network, system), backend).end_ns


def disjoint(groups: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Groups that can run at once: of those that share a rank, the first."""
    chosen, taken = [], set[int]()
    for ranks in groups:
        if taken.isdisjoint(ranks):
            chosen.append(ranks)
            taken |= set(ranks)
    return chosen


def _run(
    traces: tuple[Trace, ...],
    pattern: int,
    size_bytes: int,
    groups: list[tuple[int, ...]],
    network: NetworkConfig,
    system: SystemConfig,
) -> Run:
    num_ranks = network.num_npus
    everyone = len(groups) == 1 and len(groups[0]) == num_ranks
    group = np.full(num_ranks, -1, np.int32)
    takes_part = np.zeros(num_ranks, np.bool_)
    for number, ranks in enumerate(groups):
        takes_part[list(ranks)] = True
        if not everyone:
            group[list(ranks)] = number
    absent = np.full(num_ranks, ABSENT, np.int64)
    workload = Trace(
        prefix=traces[0].prefix if traces else "native",
        rank_first=np.arange(num_ranks + 1),
        node_id=np.zeros(num_ranks, np.uint64),
        kind=np.where(takes_part, NodeType.COMM_COLL, NodeType.COMP).astype(np.uint8),
        duration_us=np.zeros(num_ranks, np.int64),
        size_bytes=np.full(num_ranks, size_bytes),
        peer=absent,
        tag=absent,
        dep_first=np.zeros(num_ranks + 1, np.int64),
        dep=np.empty(0, np.int64),
        workload=WorkloadColumns(
            comm_type=np.full(num_ranks, carrying_type(pattern, size_bytes), np.int64),
            num_ops=absent,
            tensor_size=absent,
            comm_priority=absent,
            is_cpu_op=~takes_part,
            own=absent,
            group=group,
            group_names=tuple(str(number + 1) for number in range(len(groups))),
            involved_dims=absent,
            involved_count=np.zeros(num_ranks, np.int64),
            wrong_type=np.zeros(num_ranks, np.uint32),
            no_value=np.zeros(num_ranks, np.uint32),
            byte_offset=np.zeros(num_ranks, np.int64),
        ),
    )
    members = {} if everyone else {number + 1: ranks for number, ranks in enumerate(groups)}
    return Run(
        workload=workload,
        system=replace(system, roofline_enabled=False, preferred_dataset_splits=1),
        network=network,
        groups=CommunicatorGroups("the plan", members),
        remote_memory=None,
        prefixes=tuple(trace.prefix for trace in traces),
        collectives=traces,
        implementation=np.where(takes_part & bool(traces), 0, NATIVE).astype(np.int32),
        directory=Path(),
    )
