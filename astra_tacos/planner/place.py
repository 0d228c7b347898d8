"""`place`: which rank of a run sits on which NPU.

A model of how long the communication of a run takes, given where its ranks are: bytes over bandwidth, level by level.

A group that has y_1 members within each block of the first dimension, y_2 such blocks in each of the second, and so on,
takes for an All-Reduce of S bytes 2 S (y_d - 1) / (y_1 ... y_d) over the bandwidth that a member has in dimension d, and twice
y_d - 1 times its latency, summed over the dimensions: Reduce-Scatter inside first (the hierarchical algorithm that P2 calls
reduce-allreduce-broadcast). What is scored is the most that a rank takes for all its collectives and messages one after another.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.network.network_files import NETWORK, own_tables
from astra_tacos.planner.acceptance import Acceptance
from astra_tacos.planner.permuted_run import check_permutable, permuted
from astra_tacos.planner.run_files import PLACE_FILE, planned_inputs
from astra_tacos.planner.workload import NO_CASE, Workload, find_workload
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.rules.refusal import refuse_left_out
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.placement_matrix import Axis, Matrix, Rows, find_axes, npu_of_rank, npus_of, placements
from astra_tacos.run.run import GROUPS, MEMORY, SYSTEM, WORKLOAD, RunInputs, read_run
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_outside, check_replaceable, replaced_directory, write_json
from astra_tacos.support.rows import Result, Row, Table
from astra_tacos.support.units import bytes_per_ns

_MOST_ROWS = 12
"""Placements that are shown; place.json has all."""
_WHOLE = frozenset({"broadcast", "reduce", "message"})
_TO_EACH_ITS_OWN = frozenset({"all-to-all", "scatter", "gather"})
MOST_REPLAYED = 6
"""Placements that are replayed, of those with the least estimates: each replay takes seconds."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Collectives of one group: the pattern, the size of each, and how many there are. Of a `message`, the two ranks."""

    collective: str
    size_bytes: int
    ranks: tuple[int, ...]
    count: int


@dataclass(slots=True, eq=False)
class PlacementCost:
    """The model for one network and run."""

    dimensions: Sequence[Dimension]
    demands: Sequence[Demand]
    _known: dict[tuple[str, int, tuple[int, ...]], float] = field(default_factory=dict)
    _degree: dict[tuple[int, tuple[int, ...]], float] = field(default_factory=dict)

    def score_ns(self, npu_of_rank: Ints) -> float:
        """The most that a rank takes for its communication, in ns."""
        return max(self.loads_ns(npu_of_rank), default=0.0)

    def loads_ns(self, npu_of_rank: Ints) -> list[float]:
        """What each rank that communicates takes for it, in ns."""
        npus = npu_of_rank.tolist()
        total: dict[int, float] = defaultdict(float)
        for demand in self.demands:
            cost = demand.count * self.time_ns(demand.collective, demand.size_bytes, [npus[rank] for rank in demand.ranks])
            for rank in demand.ranks:
                total[rank] += cost
        return list(total.values())

    def time_ns(self, collective: str, size_bytes: int, npus: Sequence[int]) -> float:
        """The time of one collective of a group on these NPUs, or of a message between two."""
        key = collective, size_bytes, tuple(npus if collective == "message" else sorted(npus))
        if key not in self._known:
            self._known[key] = self._time_ns(*key)
        return self._known[key]

    def _time_ns(self, collective: str, size_bytes: int, npus: tuple[int, ...]) -> float:
        blocks, members, width, time_ns, inside = npus, len(npus), 1, 0.0, 1.0
        for number, dimension in enumerate(self.dimensions):
            width *= dimension.size
            outer = tuple(sorted({npu // width for npu in npus}))
            share = len(set(blocks)) / len(outer)
            if share > 1:
                first = sorted(block % dimension.size for block in set(blocks) if block // dimension.size == outer[0])
                rate = dimension.bandwidth_gibps * self._links(number, dimension, tuple(first))
                rate = float(bytes_per_ns(np.array([rate]))[0])
                inside *= share
                time_ns += _moved(collective, size_bytes, members, share, inside) / rate
                time_ns += dimension.latency_ns * (share - 1) * (2 if collective == "all-reduce" else 1)
            blocks = outer
        return time_ns

    def _links(self, number: int, dimension: Dimension, coordinates: tuple[int, ...]) -> float:
        """Links that each of some members of a dimension has to the others, on average, or up to switches; at least 1."""
        key = number, coordinates
        if key not in self._degree:
            links = dimension.building_block.links(dimension.size)
            inside = np.isin(links.src, coordinates)
            used = inside & (np.isin(links.dst, coordinates) | (links.dst >= dimension.size))
            self._degree[key] = max(float(np.count_nonzero(used)) / len(coordinates), 1.0)
        return self._degree[key]


def _moved(collective: str, size_bytes: int, members: int, share: float, inside: float) -> float:
    """Bytes that a member sends or receives in a dimension, with `share` members or blocks there, `inside` in all so far."""
    if collective == "all-reduce":
        return 2 * size_bytes * (share - 1) / inside
    if collective == "all-gather":
        return size_bytes * members * (share - 1) / inside
    if collective in _WHOLE:
        return float(size_bytes)
    if collective in _TO_EACH_ITS_OWN:
        return size_bytes * (share - 1) / share
    return size_bytes * (share - 1) / inside


def exchange(cost: PlacementCost, num_ranks: int, starts: int, seed: int) -> list[Ints]:
    """Placements that no exchange of two ranks improves, from the ranks' own and from random ones, the best first.

    An exchange has to lower the sum of the fourth powers of what ranks take: the largest counts most, and where that stays the
    same, exchanges of others still go in a direction.
    """
    random = np.random.default_rng(seed)
    scores: dict[tuple[int, ...], float] = {}
    for start in range(starts):
        place = np.arange(num_ranks) if start == 0 else random.permutation(num_ranks)
        best = _fourth_powers(cost, place)
        improves = True
        while improves:
            improves = False
            for first in range(num_ranks):
                for second in range(first + 1, num_ranks):
                    place[[first, second]] = place[[second, first]]
                    score = _fourth_powers(cost, place)
                    if score < best * (1 - 1e-12):
                        best, improves = score, True
                    else:
                        place[[first, second]] = place[[second, first]]
        scores[tuple(place.tolist())] = cost.score_ns(place)
    ordered = sorted(scores, key=lambda order: (scores[order], order))
    return [np.array(order, np.int64) for order in ordered]


def _fourth_powers(cost: PlacementCost, place: Ints) -> float:
    return sum(load**4 for load in cost.loads_ns(place))


def most_starts(num_ranks: int, num_demands: int) -> int:
    """How many starts take a few seconds; 0 if not even one does."""
    steps = num_ranks**2 / 2 * num_demands * 8
    return min(8, math.floor(2e7 / max(steps, 1)))


_OWN = {PLACE_FILE, WORKLOAD, GROUPS, SYSTEM, NETWORK, MEMORY}


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where the ranks of a run are.

    Parameters
    ----------
    npu_of_rank
        int64[num_ranks].
    matrix
        A row for each axis, a column for each level, outermost first; None if it was found without axes.
    score_ns
        What the model says that the most loaded rank takes for its communication.
    end_ns
        End of the run in the replay; None where it was not replayed.
    """

    npu_of_rank: Ints
    matrix: Matrix | None
    score_ns: float
    end_ns: int | None = None

    def replayed(self, workload: Workload, backend: Backend) -> Placement:
        """The placement with the end of the run in it.

        Raises
        ------
        ConfigError, ReplayError
            As `replay_run` does.
        """
        return replace(self, end_ns=replay_run(permuted(workload, self.npu_of_rank), backend).end_ns)

    def is_better_than(self, other: Placement) -> bool:
        """Whether the run ends earlier; both were replayed."""
        assert self.end_ns is not None and other.end_ns is not None
        return self.end_ns < other.end_ns

    def to_json(self) -> dict[str, Any]:
        """Its figures, without the ranks."""
        matrix = None if self.matrix is None else [list(row) for row in self.matrix]
        return {"matrix": matrix, "score_ns": round(self.score_ns, 3), "end_ns": self.end_ns}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlaceResult(Result):
    """The result of a search for a placement.

    Parameters
    ----------
    axes, levels
        What matrices are made of; no axes where the groups are no products.
    """

    backend: Backend
    axes: tuple[Axis, ...]
    levels: tuple[int, ...]
    best: Placement
    own: Placement
    tried: tuple[Placement, ...]

    @property
    def is_as_it_was(self) -> bool:
        """Whether the ranks stay where they were."""
        return self.best.npu_of_rank is self.own.npu_of_rank

    @property
    def name(self) -> str:
        """The placement in words."""
        return "as it was" if self.is_as_it_was else describe(self.best.matrix, self.axes)

    @property
    def speed_up(self) -> float | None:
        """End of the run as it was over that of the placed one."""
        if self.own.end_ns is None or self.best.end_ns is None:
            return None
        return self.own.end_ns / max(self.best.end_ns, 1)

    def to_json(self) -> dict[str, Any]:
        """One object for `place.json`."""
        return {
            "backend": self.backend.name,
            "axes": [{"name": axis.name, "size": axis.size, "stride": axis.stride} for axis in self.axes],
            "levels": list(self.levels),
            "before": self.own.to_json(),
            "after": self.best.to_json(),
            "speed_up": self.speed_up,
            "npu_of_rank": self.best.npu_of_rank.tolist(),
            "placements": [placement.to_json() for placement in self.tried],
        }

    def title(self) -> str:
        """What was done, and on which model."""
        return f"ranks placed, on the {self.backend} model, with the run's own collectives"

    def rows(self) -> list[Row]:
        """The end of the run, where its ranks are, and what placements are made of."""
        before, after = (
            "does not end" if placement.end_ns is None else f"{placement.end_ns:,} ns" for placement in (self.own, self.best)
        )
        gain = "" if self.speed_up is None else f"{self.speed_up:.3f} times as fast as before ({before})"
        axes = ", ".join(f"{axis.name} {axis.size}" for axis in self.axes)
        return [
            Row("end of the run", after, note=gain or f"before: {before}"),
            Row("placement", note=self.name),
            Row("axes", note=axes or "none: the groups are no products of axes"),
            Row("levels", " x ".join(map(str, self.levels)), note="outermost first"),
        ]

    def tables(self) -> list[Table]:
        """The placements with the best scores."""
        title = f"the best of {len(self.tried):,} placements by score (parts of each axis within each level, outermost first)"
        shown = [
            (describe(placement.matrix, self.axes), round(placement.score_ns), placement.end_ns)
            for placement in self.tried[:_MOST_ROWS]
        ]
        return [Table(title, ("placement", "score ns", "end of the run ns"), shown)]


def place(
    inputs: RunInputs,
    output: Path,
    *,
    axes: tuple[Axis, ...] | None = None,
    backend: Backend | str | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> PlaceResult:
    """Write a run with its ranks where it ends earliest, see `best_placement`.

    Raises
    ------
    ConfigError
        If an input is not what it should be, the network has no dimensions, or the run has custom collectives.
    ReplayError
        If the run cannot be replayed in any placement.
    """
    check_replaceable(output, "placed run of astra_tacos", _is_own, own_tables(output))
    check_outside(output, (inputs.workload, inputs.system, inputs.network, inputs.groups, inputs.remote_memory))
    workload = find_workload(read_run(inputs))
    result = best_placement(workload, axes=axes, backend=backend, seed=seed, on_progress=on_progress)
    with replaced_directory(output) as folder:
        permuted(workload, result.best.npu_of_rank).write(folder, inputs.workload.name)
        write_json(folder / PLACE_FILE, result.to_json())
    return result


def best_placement(
    workload: Workload,
    *,
    axes: tuple[Axis, ...] | None = None,
    backend: Backend | str | None = None,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> PlaceResult:
    """Where the ranks of a run are to be so that it ends earliest.

    If the groups of the run are products of axes, all matrices of axes over the dimensions are scored by the model
    (`PlacementCost`); else, exchanges of two ranks improve the ranks' own placement and random ones. The run itself and the
    placements with the best scores are replayed; of those that end first, the run's own is kept.

    Parameters
    ----------
    axes
        Axes of parallelism; None to find them from the groups and messages.
    backend
        The network model, or its name; None takes the one with queues.
    seed
        Of the search without axes.

    Raises
    ------
    ConfigError
        If the network has no dimensions, or the run has custom collectives.
    ReplayError
        If the run cannot be replayed in any placement.
    """
    check_permutable(workload)
    refuse_left_out(workload.run)
    network = workload.run.network
    levels = _levels(network)
    model = choose_backend(backend)
    axes_found, tried = find_placements(workload, axes, seed)
    as_it_is = next(placement for placement in tried if np.array_equal(placement.npu_of_rank, np.arange(network.num_npus)))
    chosen = [as_it_is, *(placement for placement in tried[:MOST_REPLAYED] if placement is not as_it_is)]
    acceptance = Acceptance[Placement]()
    known: dict[int, Placement] = {}
    for number, placement in enumerate(chosen):
        replayed = acceptance.consider(partial(placement.replayed, workload, model))
        known[id(placement)] = replayed or placement
        on_progress(number + 1, len(chosen))
    if acceptance.best is None:
        raise acceptance.failures[0]  # of the run itself
    all_of_them = tuple(known.get(id(placement), placement) for placement in tried)
    return PlaceResult(model, axes_found or (), levels, acceptance.best, known[id(as_it_is)], all_of_them)


def write_placed(folder: Path, inputs: RunInputs, rows: Rows) -> RunInputs:
    """Write a run with its ranks in a placement into an empty directory; returns its files.

    Raises
    ------
    ConfigError
        If an input is not what it should be, the placement is for another network, or the run has custom collectives.
    """
    workload = find_workload(read_run(inputs))
    check_permutable(workload)
    permuted(workload, npus_of(rows, _levels(workload.run.network))).write(folder, inputs.workload.name)
    return planned_inputs(folder, inputs)


def _levels(network: NetworkConfig) -> tuple[int, ...]:
    """Sizes of the dimensions, outermost first.

    Raises
    ------
    ConfigError
        If there are none.
    """
    if not network.dimensions:
        raise ConfigError(f"{network.source}: a list of links, expected dimensions, over which axes can be placed")
    return tuple(dimension.size for dimension in reversed(network.dimensions))


def find_placements(
    workload: Workload, axes: tuple[Axis, ...] | None, seed: int
) -> tuple[tuple[Axis, ...] | None, tuple[Placement, ...]]:
    """Axes, None if there are none, and all placements by score, the best first; the run's own is one of them.

    Raises
    ------
    ConfigError
        If axes are given, and are not as many ranks as there are.
    """
    network = workload.run.network
    demands = demands_of(workload)
    cost = PlacementCost(network.dimensions, demands)
    num = network.num_npus
    run_axes = axes or find_axes(num, [demand.ranks for demand in demands])
    matrices: dict[tuple[int, ...], Matrix | None] = {}
    if run_axes is not None:
        by_stride = tuple(sorted(run_axes, key=lambda axis: axis.stride))
        if math.prod(axis.size for axis in by_stride) != num:
            text = ",".join(f"{axis.name}={axis.size}" for axis in by_stride)
            raise ConfigError(f"axes: found {text}, expected a product of {num}, the ranks of {workload.run.workload.prefix}")
        for matrix in placements(_levels(network), [axis.size for axis in run_axes]):
            matrices.setdefault(tuple(npu_of_rank(matrix, run_axes).tolist()), matrix)
    else:
        for place_of in exchange(cost, num, most_starts(num, len(demands)), seed):
            matrices.setdefault(tuple(place_of.tolist()), None)
    matrices.setdefault(tuple(range(num)), None)
    scored = [Placement(np.array(npus, np.int64), matrix, cost.score_ns(np.array(npus))) for npus, matrix in matrices.items()]
    return run_axes, tuple(
        sorted(scored, key=lambda placement: (placement.score_ns, placement.matrix or (), placement.npu_of_rank.tolist()))
    )


def demands_of(workload: Workload) -> list[Demand]:
    """What the run communicates: its collectives by group, and messages by their ends."""
    instances, trace = workload.instances, workload.run.workload
    counts = Counter[tuple[str, int, tuple[int, ...]]]()
    for number, case in enumerate(workload.of_instance.tolist()):
        if case == NO_CASE:
            continue
        ranks = tuple(sorted(instances.nodes.members[int(instances.group[number])]))
        counts[workload.cases[case].collective, workload.cases[case].size_bytes, ranks] += 1
    send = workload.graph.messages.send
    for row, rank in zip(send.tolist(), trace.rank[send].tolist(), strict=True):
        ends = (rank, int(trace.peer[row]))
        if ends[0] != ends[1]:
            counts["message", int(trace.size_bytes[row]), ends] += 1
    return [Demand(*key, count) for key, count in counts.items()]


def _is_own(names: set[str]) -> bool:
    return names <= _OWN and (not names or PLACE_FILE in names)


def describe(matrix: Matrix | None, axes: Sequence[Axis]) -> str:
    """A matrix in words: `tp 1x8, dp 4x2`, outermost level first."""
    if matrix is None:
        return "as it was" if axes else "by exchanges"
    return ", ".join(f"{axis.name} {'x'.join(map(str, row))}" for axis, row in zip(axes, matrix, strict=True))
