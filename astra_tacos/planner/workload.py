"""A run together with its collective instances."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import configured
from astra_tacos.planner.collective_nodes import IssueOrder, find_collective_nodes, find_issue_order
from astra_tacos.planner.distinct_collective import DistinctCollective, find_distinct_collectives
from astra_tacos.planner.global_order import MergedGraph, has_circle, merge
from astra_tacos.planner.instances import Instances, match_instances
from astra_tacos.planner.native_configuration import native_run
from astra_tacos.planner.run_files import RunInputs
from astra_tacos.run.patterns import carrying_type
from astra_tacos.run.run import Run, read_run
from astra_tacos.run.system import COMM_KEYS
from astra_tacos.support.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A run and the collective instances in it.

    Parameters
    ----------
    run, issue, instances, graph
        The run, how ranks issue its nodes, what belongs together, and what waits for what.
    cases, of_instance
        Distinct cases, and int64[num_instances], which one each is, NO_CASE for none.
    """

    run: Run
    issue: IssueOrder
    instances: Instances
    graph: MergedGraph
    cases: tuple[DistinctCollective, ...]
    of_instance: NDArray[np.int64]

    @property
    def own_run(self) -> Run:
        """The run in which nodes of joint traces name their own groups again, as native collectives need it."""
        nodes, columns = self.instances.nodes, self.run.columns
        moved = np.flatnonzero(nodes.named_group != nodes.group)
        if not len(moved):
            return self.run
        names = [*columns.group_names, *(str(group) for group in np.unique(nodes.group[moved]).tolist())]
        place = {name: at for at, name in enumerate(names)}
        group = columns.group.copy()
        group[nodes.row[moved]] = [place[str(each)] for each in nodes.group[moved].tolist()]
        columns = replace(columns, group=group, group_names=tuple(names))
        return replace(self.run, workload=replace(self.run.workload, workload=columns))

    @property
    def carried_run(self) -> Run:
        """The run with patterns that ASTRA-sim lacks as those that carry them."""
        comm_type, nodes = self.run.columns.comm_type.copy(), self.instances.nodes
        comm_type[nodes.row] = list(map(carrying_type, nodes.pattern.tolist(), nodes.size_bytes.tolist()))
        columns = replace(self.run.columns, comm_type=comm_type)
        return replace(self.run, workload=replace(self.run.workload, workload=columns))


def find_workload(inputs: RunInputs) -> Workload:
    """Read a run and find its collectives.

    Raises
    ------
    ConfigError
        If an input is not what it should be, or ranks disagree on their collectives.
    """
    run = read_inputs(inputs)
    if run.system.replay_only:
        raise ConfigError(
            f"{run.system.source}: replay-only is on: collectives only take their duration, so there is nothing to plan"
        )
    if run.workload.num_ranks != run.network.num_npus:
        raise ConfigError(
            f"{run.workload.prefix}: traces of {run.workload.num_ranks} ranks, expected {run.network.num_npus}, "
            f"as many as {run.network.source} has NPUs"
        )
    if run.network.reducing:
        raise ConfigError(
            f"{run.network.source}: astra_tacos.reducing: devices that add are no part of runs, expected a network without: "
            "messages of a run go from NPU to NPU"
        )
    issue = find_issue_order(run.workload)
    nodes = find_collective_nodes(run, issue)
    instances = match_instances(run.workload, nodes, by_name=True)
    graph = merge(run.workload, issue, instances)
    if has_circle(graph):
        instances = match_instances(run.workload, nodes, by_name=False)
        graph = merge(run.workload, issue, instances)
    cases, of_instance = find_distinct_collectives(instances, build_topology(run.network, may_forward=True), run.network)
    return Workload(run, issue, instances, graph, cases, of_instance)


def baseline_run(workload: Workload, baseline: str | None) -> Run:
    """The run to compare with; with one native algorithm for all collectives, if it is named."""
    if baseline is None:
        return workload.run
    run = workload.own_run
    native = {key: (baseline,) * max(1, len(run.network.dimensions)) for key in COMM_KEYS}
    splits = run.system.preferred_dataset_splits or 1
    return native_run(run, replace(run.system, native=native, preferred_dataset_splits=splits))


def read_inputs(inputs: RunInputs) -> Run:
    """The run that some files describe."""
    run = read_run(inputs.workload, inputs.system, inputs.network, inputs.groups, inputs.remote_memory, inputs.directory)
    return replace(run, network=configured(run.network, inputs.ns3))
