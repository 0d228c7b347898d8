"""The linear programme over columns: how much of its data each demand sends along each, so that the busiest link is done first.

    minimise T    such that    sum of x over a demand's columns = its bytes,    sum of load x on a link <= bandwidth T.

Columns that would lower T are found by the prices of links in the dual solution (Dantzig and Wolfe 1960; for trees: Barahona,
"Packing spanning trees", 1995). For any prices, the cheapest columns bound T from below, which says when to stop. The first
columns come from prices that grow with the load of links (Plotkin, Shmoys and Tardos 1995).

Stars: every member pushes its part of a chunk to a server, which adds them and answers with the sum; no chain, no tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.link_use import count_work
from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import bytes_per_ns
from astra_tacos.synthesizer.columns.demand import NOISE, Demands
from astra_tacos.synthesizer.columns.routes import Column, RouteFinder, Trip, column_of

_GAP = 5e-4
_MOST_ROUNDS = 60
_FIRST_ROUNDS = 12
_STEEPNESS = 24.0
_SMOOTHING = 0.6
"""Share of the best prices so far in those that are asked for columns (Wentges 1997)."""
_USED = 1e-7
_SHALLOWER = 2e-4
"""By so much longer a time may be so that trees are shallower."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Columns in use, and the bytes along each: float64[num_columns]. `time_ns`: of the busiest link; `bound_ns`: of any.

    Trees that branch at devices are not priced exactly, so with them `bound_ns` is only where the search stopped.
    """

    columns: tuple[Column, ...]
    bytes: Floats
    time_ns: float
    bound_ns: float

    @property
    def total(self) -> float:
        """All bytes, along any column; those of paths once for all targets."""
        return float(self.bytes.sum())

    def scaled(self, factor: float) -> Solution:
        """The solution for so many times the bytes."""
        return Solution(self.columns, self.bytes * factor, self.time_ns * factor, self.bound_ns * factor)


def solve(demands: Demands) -> Solution:
    """Columns and bytes along each of them that are within a thousandth of the optimum, or the best after some rounds."""
    columns = _first_columns(demands)
    best_bound, centre = 0.0, None
    amount, time, price = _master(columns, demands)
    for _ in range(_MOST_ROUNDS):
        if time - best_bound <= _GAP * time:
            break
        for price_asked in (price,) if centre is None else (_SMOOTHING * centre + (1 - _SMOOTHING) * price, price):
            bound, new_columns = _priced(demands, price_asked)
            if bound > best_bound:
                best_bound, centre = bound, price_asked
            useful = _cheaper(new_columns, columns, price, len(demands))
            if useful:
                break
        if not useful:
            break
        columns += useful
        amount, time, price = _master(columns, demands)
    amount = _shallowest(columns, demands, time * (1 + _SHALLOWER))
    used = np.flatnonzero(amount > _USED * amount.max())
    return Solution(tuple(columns[at] for at in used.tolist()), amount[used], time, best_bound)


def _shallowest(columns: list[Column], demands: Demands, time: float) -> Floats:
    """Bytes along each column so that links take no longer than a time, and chunks pass as few links as possible."""
    from scipy.optimize import linprog

    (inside, all_of), total = _rows_of(columns, demands), demands.total
    depth = np.array([demands.depth(column) for column in columns])
    room = demands.rate * (time / total)
    best = linprog(depth, inside, room, all_of, demands.share / total, (0, None), method="highs")
    amount: Floats = best.x * total
    return amount


def _rows_of(columns: list[Column], demands: Demands) -> tuple[Any, Any]:
    """The loads of links, of one byte along each column, and which demand it serves, as sparse matrices."""
    from scipy.sparse import csc_array

    count = len(columns)
    row = np.concatenate([column.rows for column in columns])
    which = np.repeat(np.arange(count), [len(column.rows) for column in columns])
    load = np.concatenate([column.load for column in columns])
    inside = csc_array((load, (row, which)), shape=(len(demands.rate), count))
    of_demand = np.array([column.demand for column in columns])
    all_of = csc_array((np.ones(count), (of_demand, np.arange(count))), shape=(len(demands), count))
    return inside, all_of


def _cheaper(new_columns: list[Column], columns: list[Column], price: Floats, num_demands: int) -> list[Column]:
    """The columns that are cheaper than all of their demand that are there."""
    rows = np.concatenate([column.rows for column in columns])
    first = np.cumsum([0, *(len(column.rows) for column in columns[:-1])])
    cost = np.add.reduceat(price[rows] * np.concatenate([column.load for column in columns]), first)
    least = np.full(num_demands, np.inf)
    np.minimum.at(least, [column.demand for column in columns], cost)
    return [column for column in new_columns if column.cost(price) < least[column.demand] * (1 - 1e-9)]


def _first_columns(demands: Demands) -> list[Column]:
    rate = demands.rate
    load = np.zeros(len(rate))
    columns: list[Column] = []
    wanted = [(number, root) for number, demand in enumerate(demands.demands) for root in demand.roots]
    step = max(1, len(wanted) // 16)
    for _ in range(_FIRST_ROUNDS):
        for first in range(0, len(wanted), step):
            busy = load / rate
            price = np.exp(_STEEPNESS * busy / max(float(busy.max()), 1e-300) - _STEEPNESS) / rate * demands.row_size
            routes = demands.routes(price)
            for number, root in wanted[first : first + step]:
                for column in demands.cheapest(price, routes, number, (root,)):
                    columns.append(column)
                    load[column.rows] += column.load * demands.share[number] / len(demands.demands[number].roots)
                    count_work(len(column.trips) * 8)
    return columns


def _priced(demands: Demands, price: Floats) -> tuple[float, list[Column]]:
    """The bound of prices that cost 1 for a nanosecond of all links, and the cheapest columns."""
    routes = demands.routes(price)
    bound, columns = 0.0, []
    for number in range(len(demands)):
        new_columns = demands.cheapest(price, routes, number)
        bound += min(column.cost(price) for column in new_columns) * demands.share[number]
        columns += new_columns
        count_work(sum(len(column.trips) for column in new_columns) * 8)
    return bound / (1 + NOISE), columns


def _master(columns: list[Column], demands: Demands) -> tuple[Floats, float, Floats]:
    """Bytes along each column, the time of the busiest link, and prices of links that cost 1 for a nanosecond of all."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array, hstack

    (inside, all_of), total, rate = _rows_of(columns, demands), demands.total, demands.rate
    scale = float(rate.max())
    objective = np.zeros(len(columns) + 1)
    objective[-1] = 1.0
    loads = hstack((inside, csc_array(-rate[:, None] / scale)), format="csc")
    served = hstack((all_of, csc_array((len(demands), 1))), format="csc")
    best = linprog(objective, loads, np.zeros(len(rate)), served, demands.share / total, (0, None), method="highs")
    price = np.maximum(-best.ineqlin.marginals, 0.0) * scale
    price /= max(float(price @ rate), 1e-300)
    return best.x[:-1] * total, float(best.x[-1]) * total / scale, price


def server_stars(topology: Topology, collective: Collective, servers: Sequence[int]) -> Solution:
    """An All-Reduce in which each of some NPUs serves as much as every other: members themselves, or others.

    Raises
    ------
    ConfigError
        If there is no server, or one cannot reach a member without passing NPUs.
    """
    rate = bytes_per_ns(topology.link_bandwidth_gibps)
    routes = RouteFinder(topology).find(1.0 / rate)
    members = collective.member_npus.tolist()
    pairs = [(member, server) for server in servers for member in members if member != server]
    if not pairs or not all(np.isfinite([routes.cost[pair], routes.cost[pair[::-1]]]).all() for pair in pairs):
        raise ConfigError(f"{topology.name}: servers are {list(servers)}, expected NPUs that reach all members directly")
    columns = []
    for server in servers:
        others = [member for member in members if member != server]
        up = [Trip(tuple(routes.links(member, server)), True) for member in others]
        down = [Trip(tuple(routes.links(server, member)), False) for member in others]
        columns.append(column_of(0, [*up, *down]))
    share = np.full(len(columns), float(collective.chunk_size_bytes.sum()) / len(columns))
    load = np.zeros(topology.num_links)
    for column, amount in zip(columns, share.tolist(), strict=True):
        load[column.rows] += column.load * amount
    time = float((load / rate).max())
    return Solution(tuple(columns), share, time, time)
