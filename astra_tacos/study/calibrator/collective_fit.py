"""Constants of a machine from times of its collectives: robust least squares of logarithms, and errors on what was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from astra_tacos.study.calibrator.collective_model import PRIORS, CollectiveModel, Floats, Work
from astra_tacos.study.calibrator.collective_times import CollectiveTime
from astra_tacos.study.calibrator.machine import Errors, robust, spread_of
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size

_LEAST_TIMES = 12
_STARTS = 8
_ROBUST = 0.05
"""Errors beyond it count by their size, not by its square."""
_KNOT = np.log(4.0)
_CURVE = (np.log(256.0), np.log(float(1 << 20)))
"""Messages between which the curve has knots."""
_CHANGE, _START = 0.5, 0.3
"""How far the curve goes from a knot to the next, and begins away from 1."""


@dataclass(frozen=True, slots=True)
class CollectiveFit:
    """A model, by name how uncertain each constant is (as a share), and the cost of the fit."""

    model: CollectiveModel
    uncertainty: dict[str, float]
    cost: float


def fit_collectives(rows: Sequence[CollectiveTime], *, has_nvls: bool | None = None, is_mesh: bool = False) -> CollectiveFit:
    """The constants that fit some times best.

    Parameters
    ----------
    rows
        Times of one machine.
    has_nvls
        Whether a switch adds; None to take what fits better, and no such switch where both fit alike.
    is_mesh
        Whether each two GPUs of a node have a link of their own.

    Raises
    ------
    ConfigError
        If there are too few times.
    """
    from scipy.optimize import least_squares

    if len(rows) < _LEAST_TIMES:
        raise ConfigError(f"{len(rows)} times of collectives, expected at least {_LEAST_TIMES}")
    if has_nvls is None:
        without, with_it = (fit_collectives(rows, has_nvls=has, is_mesh=is_mesh) for has in (False, True))
        return with_it if with_it.cost < 0.95 * without.cost else without
    work = Work.of(rows, has_nvls, is_mesh)
    log_time = np.log([row.time_us for row in rows])
    message = np.log(work.message[work.is_there])
    first = max(float(message.min()), _CURVE[0])
    last = max(first, min(float(message.max()), _CURVE[1]))
    knots = np.arange(first, last + _KNOT, _KNOT)
    names = list(PRIORS)
    typical, spread = np.log([PRIORS[name][0] for name in names]), np.array([PRIORS[name][1] for name in names])

    def model_of(x: Floats) -> CollectiveModel:
        constants = dict(zip(names, np.exp(x[: len(names)]).tolist(), strict=True))
        return CollectiveModel(constants, knots, x[len(names) :], has_nvls, is_mesh)

    def residuals(x: Floats) -> Floats:
        error = (np.log(model_of(x).times(work).min(axis=1)) - log_time) / _ROBUST
        curve = x[len(names) :]
        typically = (x[: len(names)] - typical) / spread
        return np.concatenate((robust(error), typically, np.diff(curve) / _CHANGE, [curve[0] / _START]))

    start = np.concatenate((typical, np.zeros(len(knots))))
    for name, moved, counts in (
        ("inside_gbps", work.inside_bytes, work.between_bytes[:, 0] == 0),
        ("between_gbps", work.between_bytes, work.between_bytes[:, 0] > 0),
    ):
        if (chosen := counts & work.is_there[:, 0]).any():
            start[names.index(name)] = np.log(np.percentile(moved[chosen, 0] / np.exp(log_time[chosen]) / 1e3, 90) + 1e-3)
    # Which algorithm is the fastest depends on the constants, so that there are several optima.
    random = np.random.default_rng(0)
    moved_by = np.concatenate((spread / 2, np.full(len(knots), _START)))
    starts = [start, *(start + moved_by * random.standard_normal(len(start)) for _ in range(_STARTS - 1))]
    found = min((least_squares(residuals, each, max_nfev=200) for each in starts), key=lambda each: each.cost)
    return CollectiveFit(model_of(found.x), dict(zip(names, spread_of(found.jac), strict=False)), float(found.cost))


def errors_of_rows(model: CollectiveModel, rows: Sequence[CollectiveTime]) -> list[float]:
    """Relative errors of the model's times, with their signs."""
    return (model.predict(rows)[0] / np.array([row.time_us for row in rows]) - 1).tolist()  # type: ignore[no-any-return]


def left_out(rows: Sequence[CollectiveTime], fitted: CollectiveModel) -> tuple[dict[str, Errors], dict[str, float]]:
    """Errors on whole collectives, node counts and thirds of the sizes that a fit to all others has not seen.

    Returns
    -------
    tuple
        Errors by what was left out; `all` has all of them together: the error to expect of what was not measured. And by how much
        each constant differs between these fits, as a share: rows of one test are no independent times, so that it is more than
        a fit to all of them says.
    """
    sizes = sorted({row.size_bytes for row in rows})
    bounds = sorted({sizes[len(sizes) * part // 3] for part in range(3)})

    def third(row: CollectiveTime) -> str:
        return f"sizes from {format_size(max(bound for bound in bounds if bound <= row.size_bytes))}"

    kinds: tuple[Callable[[CollectiveTime], str], ...] = (lambda row: row.collective, lambda row: f"{row.nodes} nodes", third)
    found: dict[str, Errors] = {}
    every: list[float] = []
    differs = dict.fromkeys(PRIORS, 0.0)
    for kind in kinds:
        groups = list(dict.fromkeys(map(kind, rows)))
        models = []
        for group in groups if len(groups) > 1 else ():
            inside, others = ([row for row in rows if (kind(row) == group) is is_in] for is_in in (True, False))
            if len(others) < _LEAST_TIMES:
                continue
            models.append(fit_collectives(others, has_nvls=fitted.has_nvls, is_mesh=fitted.is_mesh).model)
            errors = [abs(error) for error in errors_of_rows(models[-1], inside)]
            found[group] = Errors.of(errors)
            every += errors
        for name in PRIORS if len(models) > 1 else ():
            values = np.log([model.constants[name] for model in models])
            differs[name] = max(differs[name], float(np.sqrt(len(models) - 1) * values.std()))
    return found | ({"all": Errors.of(every)} if every else {}), differs
