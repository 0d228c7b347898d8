"""Rules D: dependencies within a rank."""

from __future__ import annotations

import numpy as np

from astra_tacos.rules import _order_kernels as kernels
from astra_tacos.rules.node_facts import NodeFacts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.trace.trace import DANGLING
from astra_tacos.support.grouping import distinct

_SHOWN_OF_CYCLE = 8
"""Nodes of a cycle, in a finding."""


@rule("D01", "dangling dependency")
def dangling(facts: NodeFacts) -> Findings:
    """A node depends on an id that no node of its rank has.

    ASTRA-sim throws when it reads the file: `Node 7 in data_dep graph, but not found in index, file might be corrupted` (Chakra
    `feeder_v3/et_feeder.cpp`, `graph_sanity_check`). In a custom collective it exits with a message about the path.

    Remedy: correct the dependency. It can only name nodes of the same rank's file.
    """
    for view in facts.views:
        rows = distinct(np.repeat(np.arange(view.trace.num_nodes), np.diff(view.trace.dep_first))[view.trace.dep == DANGLING])
        yield view.each(rows, lambda row: "depends on a node that does not exist", "ids count within a rank's file", waits=True)


@rule("D02", "no node can start")
def all_wait(facts: NodeFacts) -> Findings:
    """No node of a rank can start: each depends on another one, or on itself.

    ASTRA-sim throws when it reads the file: `No dependancy free nodes found, there might be deadlocks` (Chakra
    `feeder_v3/dependancy_solver.cpp`, `resolve_dependancy_free_nodes`).

    Remedy: break the cycle.
    """
    for view in facts.views:
        waiting = np.concatenate(([0], np.cumsum(view.waits)))[view.trace.rank_first]
        counts = np.diff(view.trace.rank_first)
        for rank in np.flatnonzero((np.diff(waiting) == counts) & (counts > 0)).tolist():
            yield _cycle(view, rank, "no node can start", waits=True)


@rule("D03", "cycle of dependencies")
def some_wait(facts: NodeFacts) -> Findings:
    """Some nodes of a rank depend on one another in a cycle.

    ASTRA-sim silently skips these nodes and all nodes that depend on them: when all other nodes have finished, the rank finishes
    and prints its line (`workload/Workload.cc`, `call`: no node is free, none is running).

    Remedy: break the cycle.
    """
    for view in facts.views:
        counts = np.diff(view.trace.rank_first)
        for rank in np.flatnonzero((view.ordered > 0) & (view.ordered < counts)).tolist():
            lost = counts[rank] - view.ordered[rank]
            yield _cycle(view, rank, f"{lost:,} of {counts[rank]:,} nodes never run, and the rank finishes without them")


def _cycle(view: TraceView, rank: int, consequence: str, *, waits: bool = False) -> Found:
    start = view.issue.order[view.trace.rank_first[rank] + view.ordered[rank]]
    rows = kernels.find_cycle(view.trace.dep_first, view.trace.dep, ~view.runs, start).tolist()[::-1]
    ids = [str(view.node(row)) for row in [*rows, rows[0]]]
    if len(ids) > _SHOWN_OF_CYCLE:
        ids = [*ids[: _SHOWN_OF_CYCLE - 1], "...", ids[-1]]
    return view.at(rows[0], f"waits for itself ({' -> '.join(ids)}): {consequence}", "break the cycle", waits=waits)
