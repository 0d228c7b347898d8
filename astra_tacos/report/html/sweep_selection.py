"""Selection of points for the page of a sweep that does not fit on a page: the points that matter most in its figures."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.report.sweep_measures import MEASURES, pareto_front

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

JUDGED = (
    "predicted_ns",
    "cost",
    "time_cost",
    "total_bandwidth_gbps",
    "efficiency",
    "bus_bandwidth_gbps",
    "speed_up",
    "exposed_ns",
)
"""Measures by which points are selected."""
_EXTREMES = "the best and the worst point of each cell of"
_MOST_CELLS = 40_000
_MOST_FRONT_GROUPS = 2_000


def select_points(
    measures: dict[str, NDArray[np.float64]],
    axes: list[NDArray[np.intp]],
    tasks: NDArray[np.intp],
    failed: NDArray[np.bool_],
    most: int,
) -> tuple[NDArray[np.intp], list[str]]:
    """Select at most `most` of n points.

    Parameters
    ----------
    measures
        Columns out of `JUDGED`, float64[n], NaN for no value.
    axes
        For each axis, the main ones first, the number of each point's value: intp[n] from 0.
    tasks
        Number of each point's task, intp[n] from 0; points of different tasks are not compared.
    failed
        Whether each point failed, bool[n].
    most
        Largest number of points.

    Returns
    -------
    (indices of the points, intp[<= most] in ascending order; the rules by which they were selected, in words)
    """
    lower = {name: values * (-MEASURES[name].goal or 1) for name, values in measures.items()}
    taken = np.zeros(len(tasks), bool)
    rules: list[str] = []
    pairs = list(combinations(axes, 2)) or [(tasks, axis) for axis in axes] or [(tasks, tasks)]
    stages: list[tuple[str, Callable[[], NDArray[np.intp]]]] = [
        ("every point on the front of any two measures", lambda: _fronts(lower, tasks)),
        (f"{_EXTREMES} the two main axes, by each measure", lambda: _cells(lower, pairs[:1], tasks, failed)),
        (f"{_EXTREMES} any two axes, by each measure", lambda: _cells(lower, pairs[1:], tasks, failed)),
    ]
    for rule, rows_of in stages:
        rows = np.setdiff1d(rows_of(), np.flatnonzero(taken))
        room = most - int(taken.sum())
        taken[_spread(rows, room)] = True
        rules.append(rule if len(rows) <= room else f"{rule} ({room:,} of {len(rows):,})")
        if len(rows) >= room:
            return np.flatnonzero(taken), rules
    rest = np.flatnonzero(~taken)
    room = most - int(taken.sum())
    taken[_spread(rest, room)] = True
    if len(rest):
        rules.append(f"{min(room, len(rest)):,} of the other {len(rest):,}, drawn by chance, the same each time")
    return np.flatnonzero(taken), rules


def _spread(rows: NDArray[np.intp], room: int) -> NDArray[np.intp]:
    """At most `room` of the rows, in an arbitrary but fixed order; every n-th row would coincide with axes of a grid."""
    if len(rows) <= room:
        return rows
    mixed = rows.astype(np.uint64)
    for _ in range(2):  # an integer hash: multiplications spread low bits upwards, shifts bring high bits down
        mixed = ((mixed ^ (mixed >> np.uint64(16))) * np.uint64(0x45D9F3B)) & np.uint64(0xFFFFFFFF)
    return rows[np.argsort(mixed, kind="stable")[:room]]


def _fronts(lower: dict[str, NDArray[np.float64]], tasks: NDArray[np.intp]) -> NDArray[np.intp]:
    order = np.argsort(tasks, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(tasks[order])) + 1)[:_MOST_FRONT_GROUPS]
    rows = [group[pareto_front(lower[a][group], lower[b][group])] for a, b in combinations(lower, 2) for group in groups]
    return np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.intp)


def _cells(
    lower: dict[str, NDArray[np.float64]],
    pairs: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
    tasks: NDArray[np.intp],
    failed: NDArray[np.bool_],
) -> NDArray[np.intp]:
    orders = [np.argsort(values, kind="stable")[: int(np.sum(~np.isnan(values)))] for values in lower.values()]
    orders.append(np.flatnonzero(failed))  # else a cell with failures only would look empty
    rows = [np.zeros(0, np.intp)]
    for first, second in pairs:
        cells = (tasks * (int(first.max()) + 1) + first) * (int(second.max()) + 1) + second
        if int(cells.max(initial=0)) >= _MOST_CELLS:
            continue
        for order in orders:
            for rank in (order, order[::-1]):
                found = np.full(int(cells.max()) + 1, -1, np.intp)
                found[cells[rank[::-1]]] = rank[::-1]  # where several rows share a cell, the first in the order is written last
                rows.append(found[found >= 0])
    return np.unique(np.concatenate(rows))
