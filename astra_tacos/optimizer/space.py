"""The feasible splits: a bounded polyhedron of bandwidths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog

from astra_tacos.errors import ConfigError
from astra_tacos.optimizer.expression import Constraint
from astra_tacos.optimizer.model import Floats

FEASIBLE = 1e-6
"""Relative excess of a constraint up to which it counts as satisfied, because of rounding."""
_OPTIMAL, _INFEASIBLE, _UNBOUNDED = 0, 2, 3


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """lower <= B <= upper, at_most @ B <= most, equal @ B == values; GB/s per NPU.

    `middle` is a split well inside the space; `constraints` are those that it was made from.
    """

    lower: Floats
    upper: Floats
    at_most: Floats
    most: Floats
    equal: Floats
    values: Floats
    middle: Floats
    constraints: tuple[Constraint, ...]

    def holds(self, split: Floats) -> bool:
        """Whether a split is in the space, up to rounding."""
        return bool((split >= self.lower * (1 - FEASIBLE)).all()) and all(
            constraint.excess(split.tolist()) <= FEASIBLE for constraint in self.constraints
        )

    def around(self, split: Floats, factor: float) -> Space:
        """The space restricted to splits that differ from `split` by at most a factor in each dimension."""
        lower, upper = np.maximum(self.lower, split / factor), np.minimum(self.upper, split * factor)
        return replace(self, lower=lower, upper=upper, middle=split)

    def extreme(self, direction: Floats) -> Floats | None:
        """The split B with the least direction @ B; None if there is no split."""
        result = self._minimise(direction)
        return None if result.status == _INFEASIBLE else np.asarray(result.x, np.float64)

    def equal_shares(self) -> Floats | None:
        """The largest split with the same bandwidth in every dimension; None if there is none."""
        size = len(self.lower)
        differences = np.eye(size)[1:] - np.eye(size)[0]
        equal, values = np.vstack((self.equal, differences)), np.concatenate((self.values, np.zeros(size - 1)))
        return replace(self, equal=equal, values=values).extreme(-np.ones(size))

    def _minimise(self, direction: Floats):  # type: ignore[no-untyped-def]
        bounds = np.column_stack((self.lower, self.upper))
        return linprog(
            direction / max(float(np.abs(direction).max()), 1e-300),
            *scaled(self.at_most, self.most),
            *scaled(self.equal, self.values),
            bounds=bounds,
        )


def make_space(constraints: Sequence[Constraint], num_dimensions: int, min_bandwidth: float) -> Space:
    """The splits that satisfy all constraints, with at least `min_bandwidth` in every dimension.

    Raises
    ------
    ConfigError
        If there is no such split, or a bandwidth has no upper limit.
    """
    at_most, most = _sides([constraint for constraint in constraints if not constraint.is_equality], num_dimensions)
    equal, values = _sides([constraint for constraint in constraints if constraint.is_equality], num_dimensions)
    lower, upper = np.full(num_dimensions, min_bandwidth), np.full(num_dimensions, np.inf)
    space = Space(lower, upper, at_most, most, equal, values, lower, tuple(constraints))
    corners = []
    for dimension in range(num_dimensions):
        result = space._minimise(-np.eye(num_dimensions)[dimension])
        if result.status == _INFEASIBLE:
            listed = "; ".join(dict.fromkeys(constraint.text for constraint in constraints))
            raise ConfigError(f"constraints: no split of at least {min_bandwidth:g} GB/s each satisfies {listed or 'them'}")
        if result.status == _UNBOUNDED:
            raise ConfigError(
                f"constraints: nothing limits B{dimension}, expected --total-bandwidth, --budget-cost or a --constraint that does"
            )
        if result.status != _OPTIMAL:
            raise ConfigError(
                f"constraints: the solver gives up ({' '.join(str(result.message).split())}), expected other numbers"
            )
        upper[dimension] = max(-float(result.fun), min_bandwidth)
        corners.append(result.x)
    return replace(space, upper=upper, middle=np.maximum(np.mean(corners, axis=0), lower))


def _sides(constraints: list[Constraint], num_dimensions: int) -> tuple[Floats, Floats]:
    """Coefficients and bounds, a row per constraint."""
    coefficients = np.array([constraint.coefficients for constraint in constraints], np.float64)
    return coefficients.reshape(len(constraints), num_dimensions), np.array([c.bound for c in constraints], np.float64)


def scaled(matrix: Floats, bound: Floats) -> tuple[Floats, Floats]:
    """The constraints, with each row scaled so that its largest coefficient is 1."""
    scale = np.abs(matrix).max(axis=1, initial=0.0)
    scale[scale == 0] = 1.0
    return matrix / scale[:, None], bound / scale
