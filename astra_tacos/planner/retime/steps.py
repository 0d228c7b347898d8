"""The steps of a run, and the time of an iteration in steady state.

The run's end is not a number of steps times that: nothing hides the communication of the last step. Steps are told by the names
that `generate --steps` gives to nodes: `step1_mb0_mlp_forward_layer3`. In a steady state every node comes again after the same
time. In a short run they do not quite, as nothing comes before the first step and after the last one: an iteration is the longest
time after which a compute node that all steps have comes again, the mean from the first to the last step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError

_NAME = re.compile(r"step([0-9]{1,6})_(.*)", re.DOTALL)
NO_STEP = -1
"""Of a node that is in no step."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of a run.

    Parameters
    ----------
    of_row
        int64[num_nodes], the step of each node that all steps of its rank have, NO_STEP for others.
    again
        int64[2, ...], rows of compute nodes in the first step, and the same nodes in the last one.
    """

    of_row: Ints
    again: Ints
    between: int

    def iteration_ns(self, rows: Ints, outcome: RunOutcome) -> int:
        """An iteration in ns.

        Parameters
        ----------
        rows
            int64[...], the row of the workload that each node of the replayed run was made of.
        """
        end_ns = np.zeros(len(self.of_row), np.int64)
        np.maximum.at(end_ns, rows, outcome.node_finish_ns)  # of all parts of a node
        return int(np.diff(end_ns[self.again], axis=0).max(initial=0)) // self.between


def steps_of(run: Run) -> Steps:
    """The steps of a run.

    Raises
    ------
    ConfigError
        If names do not tell two or more steps.
    """
    trace = run.workload
    rows_of: dict[tuple[int, str], dict[int, int]] = {}
    steps: set[int] = set()
    names = run.names(np.arange(trace.num_nodes))
    for row, (rank, name) in enumerate(zip(trace.rank.tolist(), names, strict=True)):
        if match := _NAME.fullmatch(name):
            rows_of.setdefault((rank, match[2]), {})[int(match[1])] = row
            steps.add(int(match[1]))
    if len(steps) < 2:
        raise ConfigError(
            f"{trace.prefix}: found {len(steps)} steps, expected names of nodes that begin with step0_, step1_ and so on, as "
            "those of generate --steps 2"
        )
    of_row = np.full(trace.num_nodes, NO_STEP, np.int64)
    again: list[tuple[int, int]] = []
    for rows in rows_of.values():
        if len(rows) == len(steps):
            of_row[list(rows.values())] = list(rows)
            if trace.kind[rows[min(rows)]] == NodeType.COMP:
                again.append((rows[min(rows)], rows[max(rows)]))
    return Steps(of_row, np.array(again, np.int64).reshape(-1, 2).T, max(steps) - min(steps))
