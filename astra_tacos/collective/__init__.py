"""Collectives by the name that the command line gives them."""

from __future__ import annotations

from collections.abc import Callable

from astra_tacos.collective.all_gather import all_gather
from astra_tacos.collective.all_reduce import all_reduce
from astra_tacos.collective.collective import Collective
from astra_tacos.collective.reduce_scatter import reduce_scatter

COLLECTIVES: dict[str, Callable[[int, int, int], Collective]] = {
    "all-reduce": all_reduce,
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
}
