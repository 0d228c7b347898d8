"""Evaluation of a point with one collective: synthesis, verification, and the columns of the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import make_collective
from astra_tacos.config.network import NetworkConfig
from astra_tacos.judge.judgement import judge_schedule
from astra_tacos.judge.judges import timed_for
from astra_tacos.judge.packet_search import search_and_replay
from astra_tacos.planner.synthesis_cache import SynthesisCache, Wanted
from astra_tacos.run.backend import MODELS, Backend
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.sweep.outcome import Conditions
from astra_tacos.sweep.point import CollectiveTask
from astra_tacos.sweep.schedule_check import check_schedule
from astra_tacos.topology.composition import build_topology
from astra_tacos.version import package_version

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


def evaluate_collective(network: NetworkConfig, task: CollectiveTask, conditions: Conditions) -> dict[str, Any]:
    """Synthesize a collective, and return the values of result columns by name.

    Raises
    ------
    AstraTacosError
        If the collective cannot be synthesized, or a check refuses its schedule.
    """
    schedule, seconds = _schedule(network, task, conditions, check_schedule if conditions.with_checks else _unchecked)
    certificate = certify(schedule)
    figures = {column: certificate[name] for column, name in _FIGURES.items()}
    figures |= judge_schedule(schedule, network, _backend(task)).times_ns
    return figures | {"verified": conditions.with_checks, "synthesis_seconds": seconds}


def _backend(task: CollectiveTask) -> Backend | None:
    return None if task.backend is None else MODELS[task.backend]


def _unchecked(schedule: Schedule) -> None:
    """Accept every schedule."""


def _schedule(
    network: NetworkConfig, task: CollectiveTask, conditions: Conditions, check: Callable[[Schedule], None]
) -> tuple[Schedule, float]:
    """A schedule from the cache or from a search, after the check has accepted it, and the seconds that its search took."""
    cache = SynthesisCache(None if conditions.cache is None else Path(conditions.cache))
    identity: dict[str, Any] = {}
    topology = build_topology(network)
    collective = make_collective(task.collective, topology.num_npus, task.size_bytes, 1, task.root)
    if cache.directory is not None:
        about = asdict(task) | {"options": task.options.identity()}
        identity = {"network": asdict(network) | {"source": ""}, "task": about, "version": package_version()}
        kept = cache.find(identity, Wanted((topology,), collective, {"synthesis_seconds": "seconds"}), check)
        if kept is not None:
            return kept[0], float(kept[1]["synthesis_seconds"])
    begin = time.perf_counter()
    backend = _backend(task)
    asked = timed_for(task.options, topology, collective, backend)[0]
    found = search_and_replay(backend, network, topology, collective, asked)
    seconds = time.perf_counter() - begin
    check(found.schedule)
    cache.keep(identity, found.schedule, {"synthesis_seconds": seconds})
    return found.schedule, seconds
