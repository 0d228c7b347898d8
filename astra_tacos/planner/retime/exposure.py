"""Exposed communication: how long ranks compute nothing while a collective or message runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType


def exposed_ns(run: Run, outcome: RunOutcome) -> NDArray[np.int64]:
    """int64[num_nodes], time for which each collective or send ran while its rank's GPU computed nothing; 0 for other nodes."""
    trace, columns = run.workload, run.columns
    found = np.zeros(trace.num_nodes, np.int64)
    for rank in range(trace.num_ranks):
        rows = np.arange(trace.rank_first[rank], trace.rank_first[rank + 1])
        kind = trace.kind[rows]
        busy = rows[(kind == NodeType.COMP) & ~columns.is_cpu_op[rows]]
        busy = busy[np.argsort(outcome.node_issue_ns[busy], kind="stable")]
        begin, end = outcome.node_issue_ns[busy], outcome.node_finish_ns[busy]
        before = np.concatenate(([0], np.cumsum(end - begin)))

        def computed(at: NDArray[np.int64]) -> NDArray[np.int64]:
            """Time for which the GPU computed before each moment; it computes one node at a time."""
            place = np.searchsorted(begin, at, side="right")  # noqa: B023 (called within the turn)
            over = np.where(place > 0, np.maximum(end[np.maximum(place - 1, 0)] - at, 0), 0) if len(end) else 0  # noqa: B023
            return np.asarray(before[place] - over)  # noqa: B023

        talking = rows[np.isin(kind, (NodeType.COMM_COLL, NodeType.COMM_SEND))]
        start, stop = outcome.node_issue_ns[talking], outcome.node_finish_ns[talking]
        found[talking] = (stop - start) - (computed(stop) - computed(start))
    return found


def exposed_of_ranks(run: Run, outcome: RunOutcome) -> NDArray[np.int64]:
    """int64[num_ranks], the same for all collectives and sends of each rank."""
    return np.add.reduceat(exposed_ns(run, outcome), run.workload.rank_first[:-1])
