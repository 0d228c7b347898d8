"""The clock of an answer: what a schedule takes on one network model, what any algorithm needs there, and what ASTRA-sim prints.

The clock is `--backend`, by default the model with queues. All times of an answer are times on its clock, untruncated: ASTRA-sim
truncates the time of each message on each link to whole nanoseconds, and `prints` has what its programs print then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from astra_tacos.bounds import all_bounds
from astra_tacos.bounds.bound import Bound
from astra_tacos.collective import cut_into
from astra_tacos.collective.collective import Collective
from astra_tacos.export.astra_sim_network import astra_sim_network
from astra_tacos.export.chakra import keeps_timing, schedule_trace
from astra_tacos.network.network_config import NetworkConfig, check_block_sizes, check_values
from astra_tacos.network.rotations import star
from astra_tacos.network.topology import Topology
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import Backend, Binary, binaries_for
from astra_tacos.run.trace.trace import Trace
from astra_tacos.schedule.dependencies import stops_queues
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, SymmetricTask, exact_symmetric_ns
from astra_tacos.schedule.timing import LinkModel, can_replay_blocking, timing_of_sizes
from astra_tacos.solver.packets import MOST_SENDS, PacketLevel, packet_level
from astra_tacos.solver.untruncated import untruncated_trace_ns
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.units import format_time
from astra_tacos.synthesizer.search.search_options import FASTEST, SearchOptions, link_models_of, models_for


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program of ASTRA-sim prints for a directory: the largest of its `finished, T cycles`.

    Parameters
    ----------
    time_ns
        For the directory that was written; None if it does not run to its end, or that is not known.
    best_native_ns
        For the same task with native algorithms, in the configuration that is the best one on the clock.
    """

    binary: Binary
    time_ns: int | None
    best_native_ns: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The program by its file name, where it is from, and both times."""
        return {
            "binary": self.binary.backend.binary,
            "from": self.binary.label,
            "backend": self.binary.backend.name,
            "time_ns": self.time_ns,
            "best_native_ns": self.best_native_ns,
        }


def beside_native(prints: Iterable[Printed], native: Mapping[Binary, int | None]) -> tuple[Printed, ...]:
    """The prints of a directory, each with what the same program prints for the best native algorithms, where that is known."""
    return tuple(replace(printed, best_native_ns=native.get(printed.binary)) for printed in prints)


@dataclass(frozen=True, slots=True)
class ScheduleTime:
    """What a schedule takes on a clock."""

    clock: Backend
    time_ns: float
    prints: tuple[Printed, ...] = ()
    level: PacketLevel | None = None
    notes: tuple[str, ...] = ()


def time_on(schedule: Schedule, network: NetworkConfig, clock: Backend) -> ScheduleTime:
    """What the traces of a schedule take on a clock.

    Raises
    ------
    ConfigError, ReplayError
        If the traces do not run on the clock.
    """
    written_network = None if schedule.topology.forwarding else _network_file(schedule, clock)
    trace: Trace | None = None
    if schedule.num_sends <= MOST_SENDS and not schedule.topology.forwarding:
        trace = schedule_trace(schedule, schedule.collective.name)
    prints = () if trace is None or written_network is None else _prints(trace, written_network)
    if not clock.is_analytical:
        level = packet_level(schedule, network)
        return ScheduleTime(clock, float(level.time_ns), prints, level, (f"packet level: {level.describe()}",))
    check_clock(schedule.topology, network, clock)
    exact_ns = exact_time_ns(schedule)
    if schedule.topology.forwarding:
        # The replay of the schedule, hop by hop, is what this model does; traces of NPUs cannot say over which devices to go.
        if schedule.timing.is_blocking:
            raise ConfigError(f"{network.source}: links are held until chunks arrive, expected --link-model pipelined here")
        return ScheduleTime(clock, exact_ns)
    on = network if clock.models_congestion else written_network
    if on is None:
        raise ConfigError(f"{network.source}: ASTRA-sim has no network that stands for it, expected --backend congestion-aware")
    if _keeps_prediction(schedule, clock):
        return ScheduleTime(clock, exact_ns, prints)
    if trace is None:
        note = f"predicted: {schedule.num_sends:,} sends are too many to replay their traces (at most {MOST_SENDS:,})"
        return ScheduleTime(clock, exact_ns, notes=(note,))
    replayed_ns = replay_trace(trace, on, clock).collective_time_ns
    if replayed_ns == schedule.collective_time_ns:
        return ScheduleTime(clock, exact_ns, prints)
    time_ns = untruncated_trace_ns(trace, on, clock)
    note = f"{format_time(exact_ns)} predicted: on the {clock} model messages meet in another order"
    return ScheduleTime(clock, time_ns, prints, notes=(note,) if clock.models_congestion else ())


def _network_file(schedule: Schedule, clock: Backend) -> NetworkConfig | None:
    """The network file of the schedule's run directory; None where no network of ASTRA-sim stands for the topology."""
    try:
        return astra_sim_network(schedule.topology, schedule.timing.link_model, clock).to_config()
    except ConfigError:
        return None


def check_clock(topology: Topology, network: NetworkConfig, clock: Backend) -> None:
    """Refuse a clock that cannot have the network.

    Raises
    ------
    ConfigError
        If the clock has no queues, and devices of the network only forward.
    """
    if topology.forwarding and clock.is_analytical and not clock.models_congestion:
        raise ConfigError(
            f"{network.source}: has devices that forward, expected --backend congestion-aware or packet, not {clock}"
        )


def _keeps_prediction(schedule: Schedule, clock: Backend) -> bool:
    """Whether traces take exactly what is predicted: each link is for one pair of NPUs, and no send comes before its turn."""
    if stops_queues(schedule) or not keeps_timing(schedule, None, None):
        return False
    if clock.models_congestion:
        return not schedule.topology.has_switches
    return schedule.timing.is_blocking and can_replay_blocking(schedule.topology)


def _prints(trace: Trace, network: NetworkConfig) -> tuple[Printed, ...]:
    """What the programs that run a network file print for traces of a collective."""
    printed = []
    for binary in binaries_for(network):
        try:
            time_ns: int | None = replay_trace(trace, network, binary.backend).collective_time_ns
        except AstraTacosError:
            time_ns = None  # the program stops at them
        printed.append(Printed(binary, time_ns))
    return tuple(printed)


@lru_cache(maxsize=1 << 6)  # `compare` asks for the same bounds for each synthesizer
def bounds_on(topology: Topology, collective: Collective, clock: Backend) -> tuple[Bound, ...]:
    """What any algorithm and any chunking needs on a clock; empty where links carry any number of messages.

    They are those of one chunk per NPU, so that all algorithms, efforts and seeds have the same.
    """
    if not clock.models_congestion:
        return ()
    uncut = collective if collective.part_bytes is not None else cut_into(collective, 1)
    return all_bounds(
        Problem(topology, uncut, timing_of_sizes(topology, uncut.class_size_bytes, "pipelined", may_be_instant=True))
    )


def timed_for(options: SearchOptions, topology: Topology, clock: Backend) -> tuple[SearchOptions, tuple[LinkModel, ...], str]:
    """The options with the link models that suit a clock, these models, and why, "" where the options say it.

    A clock without queues times schedules that hold links only approximately on some networks. There schedules of both link
    models are compared.
    """
    if options.link_model != "auto":
        return options, *link_models_of(topology, options)
    models: tuple[LinkModel, ...] = (clock.link_model,)
    reason = f"schedules for the {clock} backend are timed so"
    if not clock.models_congestion:
        models, reason = models_for(topology, clock.link_model, reason)
    return replace(options, link_model=models[0] if len(models) == 1 else FASTEST), models, reason


def symmetric_tasks(
    network: NetworkConfig, collective: str, size_bytes: int, options: SearchOptions, clock: Backend
) -> tuple[list[SymmetricTask], str]:
    """What to synthesize, once for each link model that comes into question, and why it does, "" where the user said so.

    Parameters
    ----------
    network, collective, options
        For which `is_symmetric` holds.

    Raises
    ------
    ConfigError
        If the network's values or the size are out of range.
    """
    check_values(network)
    check_block_sizes(network.source, network.dimensions)
    chunks = options.first_chunks
    rate = options.reduce_bandwidth_gbps
    task = SymmetricTask(network.name, network.dimensions, collective, size_bytes, chunks, "blocking", rate)
    _, models, reason = timed_for(options, star(network.name, network.dimensions), clock)
    if clock.is_analytical and not clock.models_congestion:
        models = tuple(model for model in models if model == clock.link_model) or models  # others only a replay could time
    return [replace(task, link_model=model) for model in models], reason


def symmetric_time_ns(schedule: SymmetricSchedule, clock: Backend) -> float | None:
    """The time of a symmetric schedule on a clock, all chunks as large as the largest; None where only a replay could say.

    Sends that hold their links until they arrive never wait for one another, so every clock takes the predicted time, unless a
    switch takes a message twice, as queues do. Sends that wait in queues take it where there are queues.
    """
    task = schedule.task
    is_queued, has_switches = task.link_model == "pipelined", star(task.name, task.dimensions).has_switches
    is_known = is_queued or not has_switches if clock.models_congestion else not is_queued and not has_switches
    return exact_symmetric_ns(schedule) if is_known and clock.is_analytical else None


def has_equal_delays(task: SymmetricTask) -> bool:
    """Whether chunks that differ by a byte take equally long, so that the expanded schedule takes exactly as long."""
    timing = task.timing
    tables = (timing.channel_delay_ns, timing.link_hold_ns, timing.reduction_ns[None])
    return all(bool(np.all(table[:, 0] == table[:, -1])) for table in tables)
