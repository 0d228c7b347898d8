"""Why stock ASTRA-sim aborts in a run that the embedded replay brings to its end."""

from __future__ import annotations

import numpy as np

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.run.backend import Backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace, WorkloadColumns
from astra_tacos.support.arrays import Bools

_LACKING = (NodeType.MEM_LOAD, NodeType.MEM_STORE, NodeType.INVALID)
_MESSAGES = (NodeType.COMM_SEND, NodeType.COMM_RECV)


def abort_at_start(network: NetworkConfig, backend: Backend) -> tuple[str, ...]:
    """Why stock ASTRA-sim aborts before it runs anything on a network; empty where it does not (lint: N01)."""
    fault = backend.aborted_by(network)
    return () if fault is None else (f"{backend.binary} aborts at its start on a {fault.block} of {fault.size} (lint: N01)",)


def lack_statistics(trace: Trace, columns: WorkloadColumns) -> Bools:
    """bool[num_nodes], nodes of kinds that ASTRA-sim's statistics do not count (`Statistics.cc`, `extract_comp_comm_overlap`)."""
    lacking: Bools = np.isin(trace.kind, _LACKING) | ((trace.kind == NodeType.COMP) & columns.is_cpu_op)
    return lacking


def aborts_of(run: Run, outcome: RunOutcome) -> tuple[str, ...]:
    """Why stock ASTRA-sim aborts or may abort in a run, a reason each; empty where it prints all ranks (lint: N01, A14).

    Its statistics throw as a rank ends that ran a node of a kind that they lack (`lack_statistics`). The exception ends the
    program where a message of the workload was the last event of the rank.

    Parameters
    ----------
    run, outcome
        A run of which every rank was replayed, or one rank of each class, and its replay.
    """
    reasons = list(abort_at_start(run.network, outcome.backend))
    trace, end = run.workload, outcome.node_finish_ns
    ran = end >= 0
    has_event = trace.kind != NodeType.INVALID  # a skipped node ends in the event of another
    for rank in np.unique(trace.rank[lack_statistics(trace, run.columns) & ran]).tolist():
        rows = np.flatnonzero((trace.rank == rank) & has_event)
        last = rows[end[rows] == end[rows].max(initial=0)]
        is_message = np.isin(trace.kind[last], _MESSAGES)
        if is_message.any() or not len(is_message):
            does = "abort" if is_message.all() else "may abort"
            owner = int(trace.owner[np.flatnonzero(trace.rank == rank)[0]])
            reasons.append(f"its statistics {does} as rank {owner} ends, before later ranks are printed (lint: A14)")
            break
    return tuple(reasons)
