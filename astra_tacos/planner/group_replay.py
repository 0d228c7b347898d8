"""The time of a collective on the real network: all groups that run it at once, in the embedded replay."""

from __future__ import annotations

from dataclasses import replace

from astra_tacos.export.chakra import schedule_trace
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import single_collective_run
from astra_tacos.run.backend import Backend
from astra_tacos.run.patterns import carrying_type
from astra_tacos.run.system import SystemConfig
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.solver.possibility import end_with_queues, why_incomplete
from astra_tacos.support.errors import ReplayError


def replay_together(
    schedule: Schedule | None,
    pattern: int,
    size_bytes: int,
    groups: tuple[tuple[int, ...], ...],
    network: NetworkConfig,
    system: SystemConfig,
    backend: Backend,
    link_order: LinkOrder | None = None,
) -> int:
    """Nanoseconds until the last of the groups finishes, if all start at once, where a network can carry it (`judge_end`).

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
    link_order
        How the traces keep the order of sends, as for `export_chakra`.

    Raises
    ------
    ConfigError, ReplayError
        As `replay_run` does, or if the native collective moves less than its pattern needs.
    """
    trace = None if schedule is None else schedule_trace(schedule, schedule.collective.name, link_order)
    own = replace(system, roofline_enabled=False, preferred_dataset_splits=1)
    run = single_collective_run(network, own, carrying_type(pattern, size_bytes), size_bytes, trace, _disjoint(groups))
    lacks = why_incomplete(run) if schedule is None else ""
    if lacks:
        raise ReplayError(lacks)
    return end_with_queues(run, backend, replay_run(run, backend).end_ns).counted_ns


def _disjoint(groups: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Groups that can run at once: of those that share a rank, the first."""
    chosen, taken = [], set[int]()
    for ranks in groups:
        if taken.isdisjoint(ranks):
            chosen.append(ranks)
            taken |= set(ranks)
    return chosen
