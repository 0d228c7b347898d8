"""The best split of a model, proven optimal by Kelley's cutting planes with HiGHS (SciPy's `linprog`).

The time is linear in rates r_d >= 1 / B_d. This constraint is the only nonlinear one, a curve of one variable. Tangents of the
curve give a linear programme whose value is a lower bound on the best time. The splits that the programme proposes give upper
bounds, and the points at which to add tangents (Kelley 1960). The two bounds meet after a few rounds.

The product of time and cost is not convex. However, the least time T*(C) at a cost of at most C is convex and never increases,
and the dual of a programme gives a tangent of it. With the envelope of tangents in place of T*, C x T* is concave between
breakpoints, so its minimum is at a breakpoint. The algorithm solves there, adds the tangent, and repeats until the bound meets
the best product found. The result is the global optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from astra_tacos.study.optimizer.model import Model
from astra_tacos.study.optimizer.space import Space, scaled
from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError

_GAP = 1e-9
"""Relative, between the best split and the bound, at which the search ends."""
_COST_GAP = 1e-6
"""As `_GAP`, for time times cost."""
_SLACK = 1e-7
"""The search begins at the least cost times 1 plus this, as rounding may leave no split at the least cost itself."""
_ROUNDS = 120
"""Of a search, at most."""
_FIRST_TANGENTS = 24
"""For each bandwidth; later rounds add those that are missing."""
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The best split found, its objective (ns, or ns x dollars), and a lower bound on the objective of every split."""

    split: Floats
    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """Upper bound on the relative improvement that another split could bring."""
        return max(0.0, 1.0 - self.bound / self.objective) if self.objective > 0 else 0.0


def minimise_time(model: Model, space: Space) -> Solution:
    """The split with the least time."""
    split, time_ns, bound, _ = _Linearised(model, space).solve(None)
    return Solution(split, time_ns, bound)


def minimise_time_cost(model: Model, space: Space, prices: Floats) -> Solution:
    """The split with the least product of time and cost; `prices` are dollars of the whole network per GB/s of an NPU."""
    cheapest = _least_cost(space, prices) * (1 + _SLACK)
    programme = _Linearised(model, space, prices, cheapest)
    fastest, time_ns, bound, _ = programme.solve(None)
    dearest = float(prices @ fastest)
    tangents = [(bound, 0.0)]  # T*(C) >= intercept + slope * C; a split that costs more than the fastest one is never better
    best, best_split, tried = time_ns * dearest, fastest, {dearest}
    for _ in range(_ROUNDS):
        bound, cost = _least_product(tangents, cheapest, max(cheapest, dearest))
        if best - bound <= _COST_GAP * best or any(abs(cost - old) <= 1e-13 * dearest for old in tried):
            break
        tried.add(cost)
        split, time_ns, below, slope = programme.solve(cost)
        if not np.isfinite(below):
            break
        tangents.append((below - slope * cost, slope))
        product = time_ns * float(prices @ split)
        if product < best:
            best, best_split = product, split
    return Solution(best_split, best, min(bound, best))


def _least_cost(space: Space, prices: Floats) -> float:
    split = space.extreme(prices)
    if split is None:
        raise ConfigError("constraints: no split satisfies them")
    return float(prices @ split)


def _least_product(tangents: list[tuple[float, float]], cheapest: float, dearest: float) -> tuple[float, float]:
    """Least value of C times the highest tangent at C, and its C, which is an end or the intersection of two tangents."""
    intercept, slope = np.array(tangents, np.float64).T
    with np.errstate(divide="ignore", invalid="ignore"):
        meets = (intercept[:, None] - intercept) / (slope - slope[:, None])
    costs = np.concatenate(([cheapest, dearest], meets[np.isfinite(meets) & (meets > cheapest) & (meets < dearest)]))
    products = costs * (intercept[:, None] + slope[:, None] * costs).max(axis=0)
    least = int(np.argmin(products))
    return float(products[least]), float(costs[least])


class _Linearised:
    """The linear programme over b (bandwidths), r (rates), t (demands) and T, scaled to about 1; it accumulates tangents."""

    def __init__(self, model: Model, space: Space, prices: Floats | None = None, cost_unit: float = 1.0) -> None:
        self.model, self.space, self.prices, self.cost_unit = model, space, prices, cost_unit
        self.unit = space.middle
        self.offset = float(model.compute_ns.min())  # a large constant time would cost precision
        self.time_unit = max(model.time_ns(space.middle) - self.offset, 1e-9)
        self.num_dimensions, self.num_demands = len(space.lower), len(model.load)
        self.size = 2 * self.num_dimensions + self.num_demands + 1
        self._fixed_rows()
        self.tangent_rows: list[Floats] = []
        for points in np.geomspace(space.lower, space.upper, _FIRST_TANGENTS):
            self._add_tangents(points / self.unit, np.ones(self.num_dimensions, np.bool_))

    def _fixed_rows(self) -> None:
        model, dims, rows, bounds = self.model, self.num_dimensions, [], []
        first = 2 * dims
        for compute, counts in zip(model.compute_ns, model.counts, strict=True):
            row = np.zeros(self.size)
            row[first:-1], row[-1] = counts, -1.0
            rows.append(row)
            bounds.append((self.offset - compute) / self.time_unit)
        for demand, load in enumerate(model.load):
            for loads in load:
                row = np.zeros(self.size)
                row[dims:first], row[first + demand] = loads / self.unit / self.time_unit, -1.0
                rows.append(row)
                bounds.append(-model.fixed_ns[demand] / self.time_unit)
        matrix, most = scaled(self.space.at_most * self.unit, self.space.most)
        rows += list(self._widened(matrix))
        self.rows, self.bounds = np.array(rows, np.float64).reshape(len(rows), self.size), np.concatenate((bounds, most))
        matrix, self.values = scaled(self.space.equal * self.unit, self.space.values)
        self.equal = self._widened(matrix)

    def _widened(self, matrix: Floats) -> Floats:
        return np.pad(matrix, ((0, 0), (0, self.size - matrix.shape[1])))

    def _add_tangents(self, points: Floats, chosen: Floats | np.ndarray) -> None:
        """Add the tangent of 1 / b at p, r >= 2 / p - b / p**2, in the chosen dimensions, scaled by p for numerical stability."""
        for dimension in np.flatnonzero(chosen).tolist():
            row = np.zeros(self.size)
            row[dimension], row[self.num_dimensions + dimension] = -1.0 / points[dimension], -points[dimension]
            self.tangent_rows.append(row)

    def solve(self, cost: float | None) -> tuple[Floats, float, float, float]:
        """The best split at a cost (None: any), its time, a lower bound on its time, and the bound's derivative by cost."""
        best, best_split, bound, slope = np.inf, self.space.lower, -np.inf, 0.0
        for _ in range(_ROUNDS):
            solved = self._programme(cost)
            if solved is None:
                break
            values, objective, derivative = solved
            if objective > bound:
                bound, slope = objective, derivative
            points = np.clip(values[: self.num_dimensions], self.space.lower / self.unit, self.space.upper / self.unit)
            split = points * self.unit
            time_ns = self.model.time_ns(split)
            if time_ns < best:
                best, best_split = time_ns, split
            rates = values[self.num_dimensions : 2 * self.num_dimensions]
            if best - bound <= _GAP * (best - self.offset):
                break
            self._add_tangents(points, rates * points < 1 - _GAP / 10)
        if not np.isfinite(best) and cost is None:
            raise ConfigError("constraints: the solver finds no split, expected bandwidths of less unequal sizes")
        return best_split, best, min(bound, best), slope

    def _programme(self, cost: float | None) -> tuple[Floats, float, float] | None:
        """Variables, least time and its derivative by cost, for the present tangents; None if there is no solution."""
        dims = self.num_dimensions
        matrix = np.vstack((self.rows, *self.tangent_rows))
        most = np.concatenate((self.bounds, np.full(len(self.tangent_rows), -2.0)))
        if cost is not None and self.prices is not None:
            priced = np.zeros(self.size)
            priced[:dims] = self.prices * self.unit / self.cost_unit
            matrix, most = np.vstack((matrix, priced)), np.append(most, cost / self.cost_unit)
        objective = np.zeros(self.size)
        objective[-1] = 1.0
        bounds = np.full((self.size, 2), (-np.inf, np.inf))
        bounds[:dims] = np.column_stack((self.space.lower / self.unit, self.space.upper / self.unit))
        bounds[dims : 2 * dims, 0] = 0.0
        result = linprog(objective, matrix, most, self.equal, self.values, bounds, method="highs-ds", options=_OPTIONS)
        if result.status != 0:
            return None
        derivative = 0.0
        if cost is not None:
            derivative = min(float(result.ineqlin.marginals[-1]), 0.0) * self.time_unit / self.cost_unit
        return np.asarray(result.x), float(result.fun) * self.time_unit + self.offset, derivative
