"""Which nodes of a trace wait for which others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.trace import Trace


def precede(
    trace: Trace, place: NDArray[np.int64], order: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """bool[num_queries], whether a chain of dependencies leads from `before[i]` to `after[i]`, two rows of one rank.

    Parameters
    ----------
    trace
        The workload.
    place, order
        int64[num_nodes] each, a topological order: the place of each row in it, and the row at each place.
    before, after
        int64[num_queries], rows.
    """
    from astra_tacos.run.trace._row_kernels import precedes

    answer = np.zeros(len(before), np.bool_)
    asked = np.flatnonzero(place[before] < place[after])  # a row can only depend on earlier ones
    asked = asked[np.lexsort((place[after[asked]], place[before[asked]]))]
    rows = before[asked], after[asked]
    answer[asked] = precedes(trace.rank_first, trace.rank, place, order, trace.dep_first, trace.dep, *rows)
    return answer
