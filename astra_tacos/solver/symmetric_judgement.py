"""Symmetric schedules that are not expanded: for which link models they are made, and their times on the judges."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np

from astra_tacos.collective import ROOTED
from astra_tacos.export.astra_sim_network import stock_network
from astra_tacos.network.network_config import NetworkConfig, check_block_sizes, check_values
from astra_tacos.network.rotations import star, why_no_translations
from astra_tacos.run.backend import BACKENDS, Backend
from astra_tacos.schedule.symmetric_schedule import SYMMETRIC_COLLECTIVES, SymmetricSchedule, SymmetricTask
from astra_tacos.solver.judges import STOCK_FIGURE, timed_for
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.search.search_options import SearchOptions

MOST_ROWS = 50_000_000
"""Sends that can be listed one by one."""


def is_symmetric(network: NetworkConfig, collective: str, options: SearchOptions) -> bool:
    """Whether `symmetric` is asked for and can do a collective on a network.

    Parameters
    ----------
    network
        The network, as described.
    collective
        Name of the collective.
    options
        What is asked of the search.
    """
    return collective in SYMMETRIC_COLLECTIVES and "symmetric" in options.synthesizers and not why_no_translations(network)


def has_many_sends(network: NetworkConfig, collective: str, options: SearchOptions) -> bool:
    """Whether a schedule has more sends than the options allow, even in one chunk per NPU, or in as many as they say.

    Parameters
    ----------
    network, collective, options
        As for `is_symmetric`.
    """
    return sends_of_pair(collective, options) * network.num_npus * (network.num_npus - 1) > options.max_sends


def check_sends(network: NetworkConfig, collective: str, options: SearchOptions) -> None:
    """Refuse, before the search, what has too many sends to be listed.

    Parameters
    ----------
    network, collective, options
        As for `is_symmetric`.

    Raises
    ------
    ConfigError
        If there are more than `MOST_ROWS` sends: says how many NPUs have fewer, and where `symmetric` does without a list.
    """
    if collective in ROOTED or not has_many_sends(network, collective, replace(options, max_sends=MOST_ROWS)):
        return
    instead = f"use at most {(1 + isqrt(1 + 4 * MOST_ROWS // sends_of_pair(collective, options))) // 2:,} NPUs"
    if isinstance(options.chunks_per_npu, int) and options.chunks_per_npu > 1:
        instead += ", or fewer chunks"
    if is_symmetric(network, collective, replace(options, synthesizer="symmetric")):
        instead += ", or `synthesize --synthesizer symmetric`, which makes NPU 0's chunks for all"
    raise ConfigError(
        f"{network.source}: {network.num_npus:,} NPUs, for which {collective} has more than {MOST_ROWS:,} sends, too many to "
        f"list: {instead}"
    )


def sends_of_pair(collective: str, options: SearchOptions) -> int:
    """The least number of sends of a schedule by pair of NPUs, in one chunk per NPU or in as many as the options say."""
    chunks = options.first_chunks
    return 2 * chunks if collective == "all-reduce" else chunks


def symmetric_tasks(
    network: NetworkConfig, collective: str, size_bytes: int, options: SearchOptions, backend: Backend | None
) -> tuple[list[SymmetricTask], str]:
    """What to synthesize, once for each link model that comes into question, and why it does, "" where the user said so.

    Parameters
    ----------
    network, collective, options
        For which `is_symmetric` holds.
    size_bytes
        Size of the collective.
    backend
        The network model that was asked for; None for what stock ASTRA-sim comes closest to.

    Raises
    ------
    ConfigError
        If the network's values or the size are out of range.
    """
    check_values(network)
    check_block_sizes(network.source, network.dimensions)
    chunks = options.first_chunks
    rate = options.reduce_bandwidth_gbps
    asked = SymmetricTask(network.name, network.dimensions, collective, size_bytes, chunks, "blocking", rate)
    links = star(network.name, network.dimensions)
    _, models, reason = timed_for(options, links, backend)
    return [replace(asked, link_model=model) for model in models], reason


def symmetric_times(schedule: SymmetricSchedule, backend: Backend | None) -> dict[str, int | None]:
    """The schedule's times by figure of an analytical judge; None where only a replay of its traces could say.

    Sends that hold their links until they arrive never wait for one another, so every judge takes the predicted time, unless a
    switch takes a message twice, as queues do. Sends that wait in queues take it where there are queues.

    Parameters
    ----------
    schedule
        The schedule, all of whose chunks count as the largest one.
    backend
        The model that it was asked for; None for the one for which schedules are timed so.
    """
    task = schedule.task
    links = star(task.name, task.dimensions)
    stock = stock_network(links, task.link_model, backend)
    queues = {STOCK_FIGURE: stock.backend.models_congestion}
    queues |= {each.figure: True for each in BACKENDS.values() if each.models_congestion}
    known = {True: task.link_model == "pipelined" or not links.has_switches, False: task.link_model == "blocking"}
    return {figure: schedule.collective_time_ns if known[queued] else None for figure, queued in queues.items()}


def has_equal_delays(task: SymmetricTask) -> bool:
    """Whether chunks that differ by a byte take equally long, so that the expanded schedule takes exactly as long."""
    timing = task.timing
    tables = (timing.channel_delay_ns, timing.link_hold_ns, timing.reduction_ns[None])
    return all(bool(np.all(table[:, 0] == table[:, -1])) for table in tables)
