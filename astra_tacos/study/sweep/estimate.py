"""Estimates of a sweep's duration: a rough model of the time of each point, scaled by the times of a few that are computed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from astra_tacos.collective import cut_into, make_collective
from astra_tacos.network.topology import Topology
from astra_tacos.run.backend import choose_backend
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.solver.clock import timed_for
from astra_tacos.study.sweep.guard import Guard
from astra_tacos.study.sweep.point import KINDS, TIMEOUT, CollectiveTask, Conditions, Point, WorkloadTask, synthesizers_of
from astra_tacos.study.sweep.run_source import topology_of
from astra_tacos.study.sweep.run_sweep import SweepRun
from astra_tacos.study.sweep.sweep_file import Sweep
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.support.records import Keyed
from astra_tacos.support.units import duration
from astra_tacos.synthesizer import AUTO, auto_synthesizers
from astra_tacos.synthesizer.chunk_counts import advise_for_trips, choose_chunks
from astra_tacos.synthesizer.search.candidates import Cut, list_candidates
from astra_tacos.synthesizer.search.search import MAX_CHUNKS_PER_NPU
from astra_tacos.synthesizer.work import SENDS_PER_SECOND

# Measured on one core in 2026.
_POINT_S = 0.01
_CHECK_S = 4e-6
"""Seconds per send to verify, replay and bound a schedule."""
_TRIED = 0.1
"""Share of the estimated work that a search really does where its work list has several numbers of chunks."""
_RANK_S = 0.02
"""Seconds per rank to read, plan and replay a run with a few distinct collectives."""


def guess_seconds(points: Iterable[Point], measured: Mapping[str, float]) -> float:
    """Estimate how long points take, one after another, in seconds.

    The model adds up the work of the schedules that a search tries, as the synthesizers estimate it. Without measured times the
    estimate is right within a factor of about three.

    Parameters
    ----------
    points
        Points to compute; those with an error take no time.
    measured
        Seconds of points that were computed, by key; they scale the model, separately for each kind of point.
    """
    known: dict[tuple[Any, ...], float] = {}
    # By kind: estimated seconds of all points, and estimated and measured seconds of those that were measured.
    guessed: dict[str, list[float]] = {kind: [0.0, 0.0, 0.0] for kind in KINDS}
    for point in points:
        if point.error is not None:
            continue
        seconds = _point_seconds(point, known)
        sums = guessed[point.kind]
        took = measured.get(point.key) if measured else None
        sums[0] += seconds
        if took is not None:
            sums[1] += seconds
            sums[2] += took
    return sum(to_do * (really / tried if tried else 1.0) for to_do, tried, really in guessed.values())


def _point_seconds(point: Point, known: dict[tuple[Any, ...], float]) -> float:
    """Estimated seconds of a point; those that do not differ in what the estimate depends on share one, in `known`."""
    task, network = point.task, point.network
    if isinstance(task, WorkloadTask):
        return _RANK_S * network.num_npus * (task.options.trials or 1 if task.options.synthesizer == AUTO else 1)
    structure = (
        tuple((d.block, d.size) for d in network.dimensions),
        len(network.links),
        len(network.failed_links),
        len(network.forwarding),
        network.reducing,
    )
    size = task.size_bytes.bit_length() if task.options.chooses_chunks else 0
    options = replace(task.options, seed=0, link_model="auto", reduce_bandwidth_gbps=0.0)
    key = (structure, size, task.collective, task.backend, options)
    if key not in known:
        try:
            known[key] = _search_seconds(topology_of(Keyed(structure, network)), task)
        except AstraTacosError:  # the point fails quickly, and its row says why
            known[key] = _POINT_S
    return known[key]


def _search_seconds(topology: Topology, task: CollectiveTask) -> float:
    """Estimated seconds of a search by one thread and of the checks of its schedule.

    Raises
    ------
    AstraTacosError
        If the collective cannot be synthesized on this topology.
    """
    options = task.options
    collective = make_collective(task.collective, topology.num_npus, task.size_bytes, 1, task.root, topology.endpoints)
    if isinstance(options.chunks_per_npu, int):
        collective = cut_into(collective, options.chunks_per_npu)
    model = timed_for(replace(options, link_model="auto"), topology, choose_backend(task.backend))[1][0]
    cuts, sends = [collective], collective.least_sends
    if options.chooses_chunks and topology.forwarding:
        advised = advise_for_trips(topology, collective.name, collective.size_bytes, model, options.max_sends)
        cuts = [cut_into(collective, count) for count in sorted({1, advised})]
        sends = cuts[-1].least_sends
    elif options.chooses_chunks:
        chosen = choose_chunks(topology, collective.name, collective.size_bytes, model, options.max_sends)
        counts = sorted({candidate.chunks_per_npu for candidate in chosen if candidate.chunks_per_npu <= MAX_CHUNKS_PER_NPU})
        cuts, sends = [cut_into(collective, count) for count in counts], chosen[0].num_sends
    timing = compute_timing(topology, collective, model, options.reduce_bandwidth_gbps)
    names = dict.fromkeys(auto_synthesizers() if options.synthesizer == AUTO else (options.synthesizer,), 0)
    listed = [Cut(cut, timing, 0, lambda: 0, is_fixed=not options.chooses_chunks) for cut in cuts]
    candidates, _ = list_candidates(topology, listed, names, options)
    if not candidates:
        return _POINT_S
    # Where there are many numbers of chunks and synthesizers, the search rules out most of them before it tries them.
    work = sum(candidate.work for candidate in candidates) * (_TRIED if len(candidates) > len(names) else 1.0)
    return _POINT_S + min(work, options.sends_budget(topology)) / SENDS_PER_SECOND + _CHECK_S * sends


_SAMPLES = 12
_SECONDS = 20.0
"""Time limit for all samples together, in seconds."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated duration of a sweep.

    Parameters
    ----------
    seconds
        Time of all points, one after another.
    start_up_s
        Time in which a worker's process starts, in seconds.
    num_sampled
        Number of points that were computed for the estimate.
    is_least
        Whether a sampled point was cut short, so that the sweep may take longer.
    """

    seconds: float
    start_up_s: float
    num_sampled: int
    is_least: bool


def estimate(points: Mapping[str, Point], conditions: Conditions) -> Estimate:
    """Compute some evenly spaced points, for at most 20 s, and scale a model by their times; no result is kept.

    Parameters
    ----------
    points
        Points that have to be computed, by key.
    conditions
        Limits and options with which points are computed.
    """
    if not points:
        return Estimate(0.0, 0.0, 0, False)
    keys = list(points)
    sample = [keys[len(keys) * number // _SAMPLES] for number in range(_SAMPLES)] if len(keys) > _SAMPLES else keys
    guard = Guard(synthesizers_of(points.values()))
    measured: dict[str, float] = {}
    is_least = False
    try:
        begin = time.monotonic()
        guard.wait_until_warm()
        start_up_s = time.monotonic() - begin
        end = begin + start_up_s + _SECONDS
        # The first few come from all parts of the sweep, in case the time limit ends the sample early.
        for key in sample[::3] + sample[1::3] + sample[2::3]:
            left = end - time.monotonic()
            if left <= 0:
                break
            limit = min(left, conditions.timeout_s or left)
            limits = Conditions(limit, conditions.memory_bytes, conditions.with_checks)
            outcome = guard.compute(key, points[key], limits)
            measured[key] = outcome.results.get("seconds", 0.0)
            is_least |= outcome.status == TIMEOUT and limit != conditions.timeout_s
    finally:
        guard.close()
    return Estimate(guess_seconds(points.values(), measured), start_up_s, len(measured), is_least)


def estimate_sweep(
    asked: Sweep, run: SweepRun, conditions: Conditions, workers: int
) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """Compute a few points of a sweep to estimate the time of all on a number of workers.

    Returns
    -------
    dict, list
        The object that `sweep --dry-run --json` prints, and the same as labels, figures and remarks.
    """
    sampled = estimate(run.missing, conditions)
    num_results, reused, combinations = len(run.outcomes) + len(run.missing), run.num_reused, asked.num_combinations
    seconds = sampled.start_up_s + sampled.seconds / min(workers, max(num_results - reused, 1))
    errors = [point.error for point in asked.points if point.error is not None]
    figures = {
        "name": asked.name,
        "combinations": combinations,
        "points": len(asked.points),
        "invalid": len(errors),
        "results": num_results,
        "reused": reused,
        "workers": workers,
        "sampled": sampled.num_sampled,
        "seconds": seconds,
        "is_least": sampled.is_least,
    }
    refused = combinations - len(asked.points)
    time: tuple[str, ...] = ("time", "none", "everything is computed")
    if num_results > reused:
        where = f"{workers} worker{'s'[: workers > 1]}"
        how = f"{'at least ' * sampled.is_least}on {where}, estimated from {sampled.num_sampled} points"
        time = ("time", duration(seconds), how)
    rows = [
        time,
        ("points", f"{len(asked.points):,}", f"{refused:,} more are excluded by where" if refused else ""),
        ("results", f"{num_results:,}", f"distinct, {reused:,} of them already computed"),
        *([("invalid", f"{len(errors):,}", errors[0])] if errors else []),
        ("axes", "", ", ".join(asked.axes) or "none"),
    ]
    return figures, rows
