"""Estimated durations of nodes and collectives, used to choose an order of collectives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.solution import Solution
from astra_tacos.planner.workload import Workload
from astra_tacos.replayer.workload_actions import workload_actions
from astra_tacos.run.run import Run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.units import bytes_per_ns


def estimate_durations(workload: Workload, solutions: tuple[Solution, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[num_nodes] and int64[num_instances], ns of each node and each collective.

    Raises
    ------
    ConfigError
        If a node would make ASTRA-sim stop.
    """
    run, instances = workload.run, workload.instances
    trace = run.workload
    duration_ns = workload_actions(workload.carried_run).amount.astype(np.float64)
    rate = float(bytes_per_ns(np.array([_slowest(run)]))[0])
    duration_ns[trace.kind == NodeType.COMM_SEND] /= rate  # of messages, amounts are bytes
    guess = np.array([*(solution.time_ns for solution in solutions), 0], np.int64)[workload.of_instance]
    instance_ns = np.where(guess > 0, guess, (instances.size_bytes / rate).astype(np.int64) + 1)
    return duration_ns.astype(np.int64), instance_ns


def _slowest(run: Run) -> float:
    """GiB/s of the slowest link."""
    links = run.network.dimensions or run.network.links
    return min(link.bandwidth_gibps or 1.0 for link in links)
