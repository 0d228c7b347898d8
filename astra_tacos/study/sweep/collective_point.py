"""Evaluation of a point with one collective: synthesis, verification, and the columns of the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from astra_tacos.bounds.certificate import certify
from astra_tacos.bounds.symmetric import certify_symmetric
from astra_tacos.collective import make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.planner.synthesis_cache import SynthesisCache, Wanted
from astra_tacos.run.backend import CONGESTION_AWARE, MODELS, Backend, is_packet_level
from astra_tacos.schedule.schedule import LinkOrder, Schedule
from astra_tacos.solver.judgement import judge_schedule
from astra_tacos.solver.judges import STOCK_FIGURE, timed_for
from astra_tacos.solver.packet_search import search_and_replay
from astra_tacos.solver.symmetric_judgement import (
    has_equal_delays,
    has_many_sends,
    is_symmetric,
    symmetric_tasks,
    symmetric_times,
)
from astra_tacos.solver.synthesize import check_schedule
from astra_tacos.study.sweep.outcome import Conditions
from astra_tacos.study.sweep.point import CollectiveTask
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.installation import package_version
from astra_tacos.synthesizer import AUTO
from astra_tacos.synthesizer.symmetric.chunks import fastest_symmetric, is_near_bound
from astra_tacos.verifier.symmetric_oracle import check_symmetric

_FIGURES = {
    "predicted_ns": "predicted_ns",
    "bound_ns": "bound_ns",
    "bound": "bound",
    "chunked_bound_ns": "chunked_bound_ns",
    "efficiency": "efficiency",
    "optimal": "optimal",
    "algorithm_bandwidth_gbps": "algorithm_bandwidth_gbps",
    "bus_bandwidth_gbps": "bus_bandwidth_gbps",
    "num_sends": "num_sends",
    "made_by": "synthesizer",
    "made_chunks_per_npu": "chunks_per_npu",
    "made_seed": "seed",
    "made_link_model": "link_model",
}
"""Columns of a row, and the names of the same figures in a certificate."""
_KEPT = {"synthesis_seconds": "seconds", "link_order": "link order or None"}
"""What a cache keeps with a schedule."""
_MOST_JUDGED = 1 << 16
"""Symmetric schedules of more sends are not listed and replayed where their prediction does not speak for all judges."""


def evaluate_collective(network: NetworkConfig, task: CollectiveTask, conditions: Conditions) -> dict[str, Any]:
    """Synthesize a collective, and return the values of result columns by name.

    Raises
    ------
    AstraTacosError
        If the collective cannot be synthesized, or a check refuses its schedule.
    """
    cache = SynthesisCache(None if conditions.cache is None else Path(conditions.cache))
    identity = {} if cache.directory is None else _identity(network, task)
    compact = None if cache.holds(identity) else _without_expansion(network, task, conditions)
    if compact is not None:
        return compact
    check = check_schedule if conditions.with_checks else lambda schedule: None
    schedule, order, seconds = _schedule(network, task, (cache, identity), check)
    certificate = certify(schedule)
    figures = {column: certificate[name] for column, name in _FIGURES.items()}
    figures |= judge_schedule(schedule, network, _backend(task), order).times_ns
    return figures | {"verified": conditions.with_checks, "synthesis_seconds": seconds}


def _without_expansion(network: NetworkConfig, task: CollectiveTask, conditions: Conditions) -> dict[str, Any] | None:
    """The result of a symmetric schedule whose sends are not listed; None if there is none, or only a search or replay knows it.

    That takes milliseconds for thousands of NPUs. It is taken where a search would look no further, and where there are too many
    sends to list.
    """
    options = task.options
    backend = _backend(task)
    if not is_symmetric(network, task.collective, options):
        return None
    is_large = has_many_sends(network, task.collective, options)
    if is_packet_level(backend) and not is_large:
        return None
    begin = time.perf_counter()
    most = None if is_large else options.max_sends
    try:
        asked, _ = symmetric_tasks(network, task.collective, task.size_bytes, options, backend)
        schedule = fastest_symmetric(asked, most, options.chooses_chunks)
    except SynthesisError:  # others cut the buffer themselves, or say why they cannot
        if is_large:
            raise
        return None
    seconds = time.perf_counter() - begin
    is_listed = schedule.num_sends <= _MOST_JUDGED or (options.synthesizer == AUTO and not is_large)
    if is_listed and not is_near_bound(schedule):
        return None
    times = symmetric_times(schedule, backend)
    is_exact = None not in (times[STOCK_FIGURE], times[CONGESTION_AWARE.figure]) and has_equal_delays(schedule.task)
    if schedule.num_sends <= _MOST_JUDGED and not is_exact:
        return None
    if conditions.with_checks:
        check_symmetric(schedule)
    certificate = certify_symmetric(schedule)
    figures = {column: certificate[name] for column, name in _FIGURES.items()}
    return figures | times | {"verified": conditions.with_checks, "synthesis_seconds": seconds}


def _backend(task: CollectiveTask) -> Backend | None:
    return None if task.backend is None else MODELS[task.backend]


def _identity(network: NetworkConfig, task: CollectiveTask) -> dict[str, Any]:
    """What a schedule depends on, as the cache knows it."""
    about = asdict(task) | {"options": task.options.identity()}
    return {"network": asdict(network) | {"source": ""}, "task": about, "version": package_version()}


def _schedule(
    network: NetworkConfig, task: CollectiveTask, kept: tuple[SynthesisCache, dict[str, Any]], check: Callable[[Schedule], None]
) -> tuple[Schedule, LinkOrder | None, float]:
    """A schedule from the cache or a search, after the check has accepted it, the order of sends in its traces, and seconds."""
    cache, identity = kept
    topology = build_topology(network, may_forward=True)
    collective = make_collective(task.collective, topology.num_npus, task.size_bytes, 1, task.root, topology.endpoints)
    cached = cache.find(identity, Wanted((topology,), collective, _KEPT), check)
    if cached is not None:
        return cached[0], cached[1]["link_order"], float(cached[1]["synthesis_seconds"])
    begin = time.perf_counter()
    backend = _backend(task)
    asked = timed_for(task.options, topology, backend)[0]
    found, order = search_and_replay(backend, network, topology, collective, asked)
    seconds = time.perf_counter() - begin
    check(found.schedule)
    cache.keep(identity, found.schedule, {"synthesis_seconds": seconds, "link_order": order})
    return found.schedule, order, seconds
