"""The feasible splits: a bounded polyhedron of bandwidths, made from linear constraints such as `10 <= B1 + B2 <= 2 * B0`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog

from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.expression import UnfitError, parse_expression

FEASIBLE = 1e-6
"""Relative excess of a constraint up to which it counts as satisfied, because of rounding."""
_OPTIMAL, _INFEASIBLE, _UNBOUNDED = 0, 2, 3
_SIGNS = {"LtE": 1.0, "GtE": -1.0, "Eq": 1.0}


@dataclass(frozen=True, slots=True)
class Constraint:
    """sum of coefficients[d] * B_d <= bound, or == bound."""

    text: str
    coefficients: tuple[float, ...]
    is_equality: bool
    bound: float

    def excess(self, split: Sequence[float]) -> float:
        """The excess of the left side, relative to the size of its terms; 0 or less if the constraint holds."""
        terms = [coefficient * value for coefficient, value in zip(self.coefficients, split, strict=True)]
        over = sum(terms) - self.bound
        return (abs(over) if self.is_equality else over) / max(abs(self.bound), *map(abs, terms), 1e-300)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Linear:
    """sum of terms[d] * B_d + terms[-1], as a value of expressions."""

    terms: Floats

    def __repr__(self) -> str:
        return "a bandwidth"

    def __add__(self, other: _Linear | float) -> _Linear:
        return _Linear(self.terms + _linear(other, len(self.terms)).terms)

    def __mul__(self, factor: float) -> _Linear:
        if isinstance(factor, _Linear):
            raise UnfitError("a product of bandwidths", "a linear expression")
        with np.errstate(over="ignore", invalid="ignore"):
            return _Linear(self.terms * factor)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> _Linear:
        return self * -1.0

    def __pos__(self) -> _Linear:
        return self

    def __sub__(self, other: _Linear | float) -> _Linear:
        return self + -other

    def __rsub__(self, other: float) -> _Linear:
        return -self + other

    def __truediv__(self, divisor: float) -> _Linear:
        return self * (1.0 / divisor)

    def __rtruediv__(self, other: object) -> _Linear:
        raise UnfitError("a division by a bandwidth", "a linear expression")


def _linear(value: object, length: int) -> _Linear:
    if isinstance(value, _Linear):
        return value
    if type(value) not in (int, float):
        raise UnfitError(f"{value!r}"[:40], "bandwidths and numbers")
    return _Linear(np.append(np.zeros(length - 1), float(value)))  # type: ignore[arg-type]


def parse_constraint(text: str, num_dimensions: int, prices: Sequence[float] | None = None) -> list[Constraint]:
    """Parse the constraints in a text; a chain such as `1 <= B0 <= B1` has several.

    Parameters
    ----------
    prices
        Dollars of the whole network per GB/s of an NPU in each dimension, for `cost`; None without a cost model.

    Raises
    ------
    ConfigError
        If the text is not a comparison of linear expressions over B0, B1, ... (or b[0], ...), `total` and `cost`.
    """
    expression = parse_expression(text, "constraint", "B0 + B1 <= 300")
    if prices is None and "cost" in expression.names:
        raise expression.refuse("found cost without a cost model, expected --cost-model")
    unit = tuple(_Linear(row) for row in np.eye(num_dimensions, num_dimensions + 1))
    names = {f"{letter}{number}": price for letter in "Bb" for number, price in enumerate(unit)}
    names["total"] = sum(unit[1:], unit[0])
    if prices is not None:
        names["cost"] = _Linear(np.append(prices, 0.0))
    constraints = []
    for left, operator, right in expression.sides({**names, "B": unit, "b": unit}):
        try:
            if operator not in _SIGNS:
                raise UnfitError(f"the operator {operator}", "<=, >= or ==")
            terms = ((_linear(left, num_dimensions + 1) - _linear(right, num_dimensions + 1)) * _SIGNS[operator]).terms
            if not np.isfinite(terms).all():
                raise UnfitError("a number that is too large", "finite numbers")
            if not terms[:-1].any():
                raise UnfitError("no bandwidth", f"some of B0 to B{num_dimensions - 1} on one side")
        except UnfitError as error:
            raise expression.refuse(error) from None
        constraints.append(Constraint(expression.text, tuple(terms[:-1].tolist()), operator == "Eq", -float(terms[-1])))
    return constraints


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
                f"constraints: nothing limits B{dimension}, expected a limit by --total-bandwidth, --budget-cost or --constraint"
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
