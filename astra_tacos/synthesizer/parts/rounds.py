"""The integer programme of an instance (chunks, steps, rounds), and its relaxation as a bound.

x[c, l, s] says that chunk c crosses link l in step s. A chunk enters an NPU at most once, and exactly once where it is needed; it
leaves an NPU in a step only if it entered it in an earlier one, and over one link only if a single NPU needs it. In step s a link
of L lanes passes at most L r_s chunks, and the r_s add up to the rounds. Source: Cai et al., "Synthesizing optimal collective
algorithms", PPoPP 2021 (there in SMT).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.grouping import group_by, members_of

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint
    from scipy.sparse import coo_array
from astra_tacos.synthesizer.parts.lanes import Demand, Lanes

_MOST_VARIABLES = 60_000
"""Programmes with more are not solved."""
_INFEASIBLE, _SOLVED = 2, 0


class Unknown(SynthesisError):
    """The solver was stopped before it knew whether an instance is feasible."""


@dataclass(frozen=True, slots=True)
class _Variables:
    """Where and when chunks may cross links: int64[num_variables] each, and the first variable of rounds."""

    chunk: Ints
    link: Ints
    step: Ints

    @property
    def num(self) -> int:
        return len(self.chunk)


def sends_of_instance(
    lanes: Lanes, demands: list[Demand], steps: int, rounds: int, time_limit_s: float | None = None
) -> list[tuple[int, int, int]] | None:
    """A solution, as steps, chunks and links in order, or None if there is none.

    Parameters
    ----------
    time_limit_s
        Seconds after which the solver gives up; None for no limit.

    Raises
    ------
    Unknown
        If the solver gave up, or the programme is too large.
    """
    from scipy.optimize import LinearConstraint, milp

    if rounds < steps:
        return None
    variables = _variables(lanes, demands, steps)
    if variables is None:
        return None
    total = variables.num + steps
    of_rounds = _matrix(np.ones(steps), np.zeros(steps, np.int64), variables.num + np.arange(steps), (1, total))
    optimum = milp(
        np.zeros(total),
        integrality=np.ones(total),
        bounds=_bounds(variables, steps, 1.0),
        constraints=[*_constraints(lanes, demands, variables, steps), LinearConstraint(of_rounds, -np.inf, float(rounds))],
        options={} if time_limit_s is None else {"time_limit": time_limit_s},
    )
    if optimum.status == _INFEASIBLE:
        return None
    if optimum.status != _SOLVED or optimum.x is None:
        raise Unknown(f"not decided within {time_limit_s:g} s" if time_limit_s else "not decided")
    used = np.flatnonzero(optimum.x[: variables.num] > 0.5)
    rows = sorted(zip(*(column[used].tolist() for column in (variables.step, variables.chunk, variables.link)), strict=True))
    return _needed(lanes, demands, rows)


def least_rounds(lanes: Lanes, demands: list[Demand], steps: int) -> float | None:
    """A lower bound on rounds by the number of times that all chunks are repeated, for any number of times, in so many steps.

    None if some chunk cannot get where it is needed in so many steps.

    Parameters
    ----------
    lanes, demands, steps
        As for `sends_of_instance`.

    Raises
    ------
    Unknown
        If the programme is too large.
    """
    from scipy.optimize import milp

    variables = _variables(lanes, demands, steps)
    if variables is None:
        return None
    cost = np.concatenate((np.zeros(variables.num), np.ones(steps)))
    optimum = milp(
        cost,
        bounds=_bounds(variables, steps, 0.0),
        constraints=_constraints(lanes, demands, variables, steps),
    )
    return None if optimum.status != _SOLVED else float(optimum.fun)


def _variables(lanes: Lanes, demands: list[Demand], steps: int) -> _Variables | None:
    """All crossings that can be of use; None if some target is too far.

    Raises
    ------
    Unknown
        If a programme of so many variables is too large.
    """
    far = lanes.distances()
    chunks, links, when = [], [], []
    for chunk, demand in enumerate(demands):
        targets = np.array(sorted(demand.targets))
        if far[demand.source, targets].max(initial=0) > steps:
            return None
        left = far[lanes.dst][:, targets].min(axis=1)  # from the link's end to the nearest NPU that needs the chunk
        of_use = lanes.dst != demand.source
        if len(targets) == 1:
            of_use &= lanes.src != targets[0]
        for step in range(steps):
            use = of_use & (far[demand.source][lanes.src] <= step) & (left <= steps - 1 - step)
            usable = np.flatnonzero(use)
            chunks.append(np.full(len(usable), chunk))
            links.append(usable)
            when.append(np.full(len(usable), step))
    variables = _Variables(*(np.concatenate(column).astype(np.int64) for column in (chunks, links, when)))
    if variables.num > _MOST_VARIABLES:
        raise Unknown(f"{variables.num:,} variables, expected at most {_MOST_VARIABLES:,}")
    return variables


def _bounds(variables: _Variables, steps: int, least_rounds_of_step: float):  # type: ignore[no-untyped-def]
    from scipy.optimize import Bounds

    low = np.concatenate((np.zeros(variables.num), np.full(steps, least_rounds_of_step)))
    return Bounds(low, np.concatenate((np.ones(variables.num), np.full(steps, np.inf))))


def _constraints(lanes: Lanes, demands: list[Demand], variables: _Variables, steps: int) -> list[LinearConstraint]:
    from scipy.optimize import LinearConstraint

    total, num_npus = variables.num + steps, lanes.num_npus
    chunk, link, step = variables.chunk, variables.link, variables.step
    number = np.arange(variables.num)
    # A chunk enters an NPU at most once, and where it is needed once.
    into = chunk * num_npus + lanes.dst[link]
    places, row = np.unique(into, return_inverse=True)
    needs = np.array([float(place % num_npus in demands[place // num_npus].targets) for place in places.tolist()])
    entering = LinearConstraint(_matrix(np.ones(len(row)), row, number, (len(places), total)), needs, np.ones(len(places)))
    order = _leaving(lanes, demands, variables, steps, into)
    # Links pass what their lanes and rounds allow.
    used, row = np.unique(link * steps + step, return_inverse=True)
    values = [np.ones(len(row)), -lanes.lanes[used // steps].astype(np.float64)]
    rows, columns = [row, np.arange(len(used))], [number, variables.num + used % steps]
    table = _matrix(np.concatenate(values), np.concatenate(rows), np.concatenate(columns), (len(used), total))
    capacity = LinearConstraint(table, -np.inf, 0.0)
    return [entering, *([] if order is None else [order]), capacity]


def _leaving(lanes: Lanes, demands: list[Demand], variables: _Variables, steps: int, into: Ints) -> LinearConstraint | None:
    """A chunk leaves an NPU only after it has entered it.

    Up to each step, a link out of an NPU has passed a chunk no more often than the chunk has entered the NPU before that step.
    Of a chunk with one target, this holds of all links out of the NPU together, as it takes one path. In whole numbers single
    steps would do; the sums make the relaxation tighter.
    """
    from scipy.optimize import LinearConstraint

    chunk, link, step = variables.chunk, variables.link, variables.step
    source = np.array([demand.source for demand in demands])[chunk]
    is_single = np.array([len(demand.targets) == 1 for demand in demands])[chunk]
    at_source = lanes.src[link] == source
    bound = np.flatnonzero(~at_source | is_single)
    if not len(bound):
        return None
    num_links = len(lanes.src)
    out = np.where(is_single, num_links + lanes.src[link], link)
    group = np.unique(chunk[bound] * (num_links + lanes.num_npus) + out[bound], return_inverse=True)[1]
    rows, row_of = np.unique(group * steps + step[bound], return_inverse=True)
    first = bound[np.unique(row_of, return_index=True)[1]]  # a variable of each row
    limit = at_source[first].astype(np.float64)
    entered = chunk[first] * lanes.num_npus + lanes.src[link[first]]
    left = _up_to(rows // steps, rows % steps, group, step[bound])
    came = _up_to(entered, rows % steps - 1, into, step)
    values = np.concatenate((np.ones(len(left[0])), np.full(len(came[0]), -1.0)))
    columns = np.concatenate((bound[left[1]], came[1]))
    table = _matrix(values, np.concatenate((left[0], came[0])), columns, (len(rows), variables.num + steps))
    return LinearConstraint(table, -np.inf, limit)


def _up_to(key: Ints, last: Ints, of: Ints, step: Ints) -> tuple[Ints, Ints]:
    """All pairs of a row and an entry of one key, where the entry's step is at most the row's last one."""
    first, entries = group_by(of, np.arange(len(of)), int(max(of.max(), key.max())) + 1)
    begin, at = members_of(first, key)
    row, entry = np.repeat(np.arange(len(key)), np.diff(begin)), entries[at]
    kept = step[entry] <= last[row]
    return row[kept], entry[kept]


def _matrix(values: Floats, rows: NDArray[np.integer], columns: NDArray[np.integer], shape: tuple[int, int]) -> coo_array:
    from scipy.sparse import coo_array

    return coo_array((values, (rows, columns)), shape=shape).tocsr()


def _needed(lanes: Lanes, demands: list[Demand], rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The sends without which some NPU would lack a chunk that it needs."""
    wanted = {(chunk, npu) for chunk, demand in enumerate(demands) for npu in demand.targets}
    kept = []
    for step, chunk, link in reversed(rows):
        if (chunk, int(lanes.dst[link])) in wanted:
            kept.append((step, chunk, link))
            wanted.add((chunk, int(lanes.src[link])))
    return kept[::-1]
