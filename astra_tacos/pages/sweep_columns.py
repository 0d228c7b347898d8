"""The rows of a sweep by column, and what each column measures: label, unit and better direction."""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.support.arrays import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class SweepColumns:
    """Rows of a sweep by column.

    Parameters
    ----------
    axes
        Names of the axes, in the order of the sweep file; each is a column.
    columns
        Values by column, one per point: int, float, bool, str, a list of numbers, or None for no value.

    Raises
    ------
    ConfigError
        If the columns differ in length, or an axis is not among them.
    """

    name: str
    axes: tuple[str, ...]
    columns: dict[str, list[Any]]

    def __post_init__(self) -> None:
        for name, values in self.columns.items():
            if len(values) != self.num_rows:
                raise ConfigError(f"{self.name}: column {name} has {len(values)} rows, expected {self.num_rows} as the others")
        for axis in self.axes:
            if axis not in self.columns:
                raise ConfigError(f"{self.name}: axis {axis} is no column, expected one of {', '.join(self.columns)}")

    @property
    def num_rows(self) -> int:
        """Number of points."""
        return len(next(iter(self.columns.values()), []))

    @property
    def kinds(self) -> set[str]:
        """Kinds of the tasks in it: "collective", "workload"."""
        return {kind for kind in self.columns.get("kind", []) if kind is not None}


LOWER, NEITHER, HIGHER = -1, 0, 1
_SAME_VALUE = 1e-6


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a sweep.

    Parameters
    ----------
    label
        Name of the measure in words, without the unit.
    unit
        "ns", "bytes", "$", "GB/s", ..., "share" (0 to 1), or empty.
    role
        "result", "input", "draw" for an input that chooses one of many random cases, or "task" for an input that defines what
        is to be done; results of different tasks are not compared.
    """

    label: str
    unit: str = ""
    goal: int = NEITHER
    role: str = "input"


MEASURES: dict[str, Measure] = {
    "point": Measure("point"),
    "status": Measure("status", role="result"),
    "error": Measure("error", role="result"),
    "kind": Measure("kind", role="task"),
    "workload": Measure("workload", role="task"),
    "collective": Measure("collective", role="task"),
    "size_bytes": Measure("size", "bytes", role="task"),
    "root": Measure("root", role="task"),
    "network": Measure("network"),
    "topology": Measure("topology"),
    "num_npus": Measure("NPUs"),
    "num_links": Measure("links"),
    "link_bandwidth_gibps": Measure("link bandwidth", "GiB/s"),
    "latency_ns": Measure("latency", "ns"),
    "bandwidth_per_npu_gbps": Measure("bandwidth per NPU", "GB/s"),
    "total_bandwidth_gbps": Measure("total bandwidth per NPU", "GB/s", LOWER),
    "cost": Measure("cost", "$", LOWER),
    "failed_links": Measure("failed links"),
    "failed_fraction": Measure("failed share of links", "share"),
    "failed_seed": Measure("seed of failures", role="draw"),
    "synthesizer": Measure("synthesizer"),
    "chunks_per_npu": Measure("chunks per NPU"),
    "trials": Measure("trials"),
    "seed": Measure("seed", role="draw"),
    "effort": Measure("effort"),
    "budget_sends": Measure("budget", "sends examined"),
    "link_model": Measure("link model"),
    "reduce_bandwidth_gbps": Measure("reduce bandwidth", "GB/s"),
    "baseline": Measure("baseline"),
    "placement": Measure("placement"),
    "endpoint": Measure("endpoint"),
    "backend": Measure("backend"),
    "time_ns": Measure("collective time", "ns", LOWER, "result"),
    "best_native_ns": Measure("best native time", "ns", LOWER, "result"),
    "predicted_ns": Measure("collective time (old name)", "ns", LOWER, "result"),
    "stock_ns": Measure("printed by stock ASTRA-sim", "ns", LOWER, "result"),
    "congested_ns": Measure("printed with queues", "ns", LOWER, "result"),
    "packets_ns": Measure("time packet by packet", "ns", LOWER, "result"),
    "bound_ns": Measure("bound (any algorithm)", "ns", LOWER, "result"),
    "bound": Measure("argument of the bound", role="result"),
    "chunked_bound_ns": Measure("bound (these chunks)", "ns", LOWER, "result"),
    "efficiency": Measure("efficiency", "share", HIGHER, "result"),
    "optimal": Measure("optimal", role="result"),
    "algorithm_bandwidth_gbps": Measure("algorithm bandwidth", "GB/s", HIGHER, "result"),
    "bus_bandwidth_gbps": Measure("bus bandwidth", "GB/s", HIGHER, "result"),
    "num_sends": Measure("sends", "", LOWER, "result"),
    "made_by": Measure("made by", role="result"),
    "made_chunks_per_npu": Measure("chunks per NPU made", role="result"),
    "made_seed": Measure("seed made", role="result"),
    "made_link_model": Measure("link model made", role="result"),
    "verified": Measure("verified", role="result"),
    "before_ns": Measure("end of run before", "ns", LOWER, "result"),
    "speed_up": Measure("speed-up", "x", HIGHER, "result"),
    "exposed_before_ns": Measure("exposed communication before", "ns", LOWER, "result"),
    "exposed_ns": Measure("exposed communication", "ns", LOWER, "result"),
    "num_collectives": Measure("collectives", role="result"),
    "num_cases": Measure("distinct collectives", role="result"),
    "comm_cores": Measure("cores that communicate", role="result"),
    "comm_memory_gbps": Measure("memory bandwidth of communication", "GB/s", role="result"),
    "driven_gbps": Measure("network bandwidth driven", "GB/s", HIGHER, "result"),
    "time_cost": Measure("time \N{MULTIPLICATION SIGN} cost", "$\N{MIDDLE DOT}s", LOWER, "result"),
    "synthesis_seconds": Measure("time to synthesize", "s", LOWER, "result"),
    "seconds": Measure("time to compute the point", "s", LOWER, "result"),
}
"""Measures by column, in the order of reports; axes and definitions with names of the sweep file's own have no entry."""

_OF_WORKLOADS = {"time_ns": "end of the run", "bound_ns": "lower bound of the run", "num_sends": "sends planned"}


def measure_of(column: str, kinds: Set[str] = frozenset()) -> Measure:
    """The measure of a column; its label may depend on the kinds of tasks ("collective", "workload") in the sweep."""
    measure = MEASURES.get(column, Measure(column))
    if "workload" in kinds and column in _OF_WORKLOADS:
        label = _OF_WORKLOADS[column] if kinds == {"workload"} else f"{measure.label} or {_OF_WORKLOADS[column]}"
        return Measure(label, measure.unit, measure.goal, measure.role)
    return measure


def as_one_value(values: list[Any]) -> list[Any]:
    """The column with floats that differ by rounding alone (relative difference up to `_SAME_VALUE`) made equal.

    Such differences come from sums and conversions of the same bandwidths. The value with the shortest text replaces the others;
    values that are no floats do not change.
    """
    floats = sorted({value for value in values if isinstance(value, float) and math.isfinite(value)})
    groups: list[list[float]] = []
    for value in floats:
        if groups and value - groups[-1][0] <= _SAME_VALUE * abs(value):
            groups[-1].append(value)
        else:
            groups.append([value])
    stands: dict[float, float] = {}
    for group in groups:
        if len(group) > 1:
            stands |= dict.fromkeys(group, min(group, key=lambda same: (len(repr(same)), same)))
    return [stands.get(value, value) if isinstance(value, float) else value for value in values] if stands else values


def pareto_front(x: Floats, y: Floats) -> Bools:
    """Which points are on the Pareto front: no other point is lower in one coordinate without being higher in the other.

    Equal points are on the front together; points with a coordinate that is NaN are not on it.

    Parameters
    ----------
    x, y
        float64[n], coordinates of the points; lower is better.

    Returns
    -------
    bool[n]
    """
    import numpy as np

    front = np.zeros(len(x), bool)
    valid = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    order = valid[np.lexsort((y[valid], x[valid]))]
    sorted_x, sorted_y = x[order], y[order]
    # The first point of a run of equal x has the lowest y of the run. It is on the front, with points equal to it, if this y is
    # lower than that of every point with smaller x.
    first = np.flatnonzero(np.r_[True, sorted_x[1:] != sorted_x[:-1]][: len(order)])
    least = np.minimum.accumulate(sorted_y[first]) if len(first) else sorted_y
    run = np.cumsum(np.isin(np.arange(len(order)), first)) - 1
    best = np.zeros(len(first), bool)
    best[:1] = True
    best[1:] = sorted_y[first][1:] < least[:-1]
    front[order] = best[run] & (sorted_y == sorted_y[first][run])
    return front
