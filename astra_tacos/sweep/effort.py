"""Rough estimates of the time that points take, corrected by measured times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from astra_tacos.collective import cut_into, make_collective
from astra_tacos.config.network import NetworkConfig
from astra_tacos.errors import AstraTacosError
from astra_tacos.judge.judges import timed_for
from astra_tacos.run.backend import BACKENDS
from astra_tacos.schedule.timing import compute_timing
from astra_tacos.sweep.point import KINDS, CollectiveTask, Point, WorkloadTask
from astra_tacos.synthesizer import AUTO, auto_synthesizers
from astra_tacos.synthesizer.chunk_counts import choose_chunks
from astra_tacos.synthesizer.search.candidates import Cut, list_candidates
from astra_tacos.synthesizer.search.search import MAX_CHUNKS_PER_NPU
from astra_tacos.synthesizer.work import SENDS_PER_SECOND
from astra_tacos.topology.composition import build_topology
from astra_tacos.topology.topology import Topology

# Measured on one core in 2026.
_POINT_S = 0.01
_CHECK_S = 4e-6
"""Of a send: to verify, replay and bound it."""
_TRIED = 0.1
"""Of the seconds of a work list of several numbers of chunks, those that are spent."""
_RANK_S = 0.02
"""Of a rank of a run: to read, plan and replay it, with a handful of distinct collectives."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Seconds of all points together, one after the other, and how many measured ones it rests on."""

    seconds: float
    num_measured: int


def guess_seconds(points: Iterable[Point], measured: Mapping[str, float]) -> Guess:
    """How long points will take, by a model: the schedules that a search tries, times the work that synthesizers say that one is.

    Parameters
    ----------
    points
        What is still to be done; those with an error take no time.
    measured
        By key, seconds of points that are done, or were tried. They scale the model, kind by kind; by itself it is right within
        a factor of three or so.
    """
    model = _Model()
    guessed: dict[str, list[float]] = {kind: [0.0, 0.0, 0.0] for kind in KINDS}  # to do; measured: guessed, really
    num_measured = 0
    for point in points:
        if point.error is not None:
            continue
        seconds = model.seconds(point)
        sums = guessed[point.kind]
        took = measured.get(point.key) if measured else None
        sums[0] += seconds
        if took is not None:
            sums[1] += seconds
            sums[2] += took
            num_measured += 1
    total = sum(to_do * (really / tried if tried else 1.0) for to_do, tried, really in guessed.values())
    return Guess(total, num_measured)


@dataclass(slots=True)
class _Model:
    """Guesses, one for all points that differ in nothing that matters for it; the last topology is kept."""

    known: dict[tuple[Any, ...], float] = field(default_factory=dict)
    last: tuple[tuple[Any, ...], Topology] | None = None

    def seconds(self, point: Point) -> float:
        """Seconds of a point."""
        if isinstance(point.task, WorkloadTask):
            options = point.task.options
            return _RANK_S * point.network.num_npus * (options.trials or 1 if options.synthesizer == AUTO else 1)
        task = point.task
        network = point.network
        structure = (tuple((d.block, d.size) for d in network.dimensions), len(network.links), len(network.failed_links))
        size = task.size_bytes.bit_length() if task.options.chooses_chunks else 0
        options = replace(task.options, seed=0, link_model="auto", reduce_bandwidth_gbps=0.0)
        key = (structure, size, task.collective, task.backend, options)
        if key not in self.known:
            try:
                self.known[key] = _search_seconds(self._topology(network, structure), task)
            except AstraTacosError:  # its row will say why
                self.known[key] = _POINT_S
        return self.known[key]

    def _topology(self, network: NetworkConfig, structure: tuple[Any, ...]) -> Topology:
        if self.last is None or self.last[0] != structure:
            self.last = (structure, build_topology(network))
        return self.last[1]


def _search_seconds(topology: Topology, task: CollectiveTask) -> float:
    """Seconds of a search by one thread, and of the checks of what it finds.

    Raises
    ------
    AstraTacosError
        If it cannot be done.
    """
    options = task.options
    collective = make_collective(task.collective, topology.num_npus, task.size_bytes, 1, task.root)
    if isinstance(options.chunks_per_npu, int):
        collective = cut_into(collective, options.chunks_per_npu)
    backend = None if task.backend is None else BACKENDS[task.backend]
    model = timed_for(replace(options, link_model="auto"), topology, collective, backend)[1]
    cuts, sends = [collective], collective.least_sends
    if options.chooses_chunks:
        chosen = choose_chunks(topology, collective.name, collective.size_bytes, model, options.max_sends)
        counts = sorted({candidate.chunks_per_npu for candidate in chosen if candidate.chunks_per_npu <= MAX_CHUNKS_PER_NPU})
        cuts, sends = [cut_into(collective, count) for count in counts], chosen[0].num_sends
    timing = compute_timing(topology, collective, model, options.reduce_bandwidth_gbps)
    names = dict.fromkeys(auto_synthesizers() if options.synthesizer == AUTO else (options.synthesizer,), 0)
    listed = [Cut(cut, timing, 0, not options.chooses_chunks) for cut in cuts]
    candidates, _ = list_candidates(topology, listed, names, options.trials, options.seed)
    if not candidates:
        return _POINT_S
    # Of many numbers of chunks and synthesizers most turn out to be needless before they are tried.
    work = sum(candidate.work for candidate in candidates) * (_TRIED if len(candidates) > len(names) else 1.0)
    return _POINT_S + min(work, options.sends_budget) / SENDS_PER_SECOND + _CHECK_S * sends
