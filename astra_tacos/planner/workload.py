"""A run together with its collective instances, and its distinct collectives (cases), each of which is synthesized once.

ASTRA-sim simulates every message, so a run with many of them takes it long: a planned run has a limit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.planner.group_topology import REACHES, GroupTopology, fabric_views, group_topology, regular_part
from astra_tacos.rules.refusal import refuse_groups
from astra_tacos.run.backend import Backend
from astra_tacos.run.graph.instances import Instances
from astra_tacos.run.graph.run_graph import RunGraph
from astra_tacos.run.patterns import COLLECTIVE_NAMES, carrying_types
from astra_tacos.run.run import Run
from astra_tacos.run.system import COMM_KEYS
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.solver.native_configuration import native_run
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import row_places

NO_CASE = -1
"""Of a collective that is not planned."""
MOST_SENDS = 1 << 16
"""Of the traces of a case, whatever the run may have: synthesizing more takes longer than a case is worth."""
_SENDS_OF_ALL = 1 << 21
"""Of a case's traces, and of all collectives that run them; one chunk per member may make more."""
DEFAULT_FACTOR = 20
"""Without a limit, a planned run may have about so many times the messages of the run with native collectives, unsplit."""
SECONDS_PER_MESSAGE = 50e-6
"""What stock ASTRA-sim takes for a message of a custom collective, about: see benchmarks/results/plan.md."""


@dataclass(frozen=True, slots=True, eq=False)
class DistinctCollective:
    """A collective over one or more groups for which the network looks the same.

    Parameters
    ----------
    collective
        Name of its pattern, a key of `COLLECTIVES` if that has it.
    pattern
        Its `CommType`.
    size_bytes
        `comm_size` of its nodes.
    root
        Position of its root in the group, None for patterns without.
    groups
        The groups that run it, each its ranks in ascending order.
    views
        What the first of them sees of the network, by reach, or by the views of a fabric; equal ones are left out.
    fabric
        The whole network, if it has devices that forward; else None.
    most_messages
        About how many messages each of them may take, as the whole run may have so many only.
    """

    collective: str
    pattern: int
    size_bytes: int
    root: int | None
    groups: tuple[tuple[int, ...], ...]
    count: int
    views: Mapping[str, GroupTopology]
    shape: str
    fabric: Topology | None = None
    most_messages: int = MOST_SENDS

    @property
    def num_members(self) -> int:
        """Number of NPUs of each group."""
        return len(self.groups[0])

    @property
    def has_routed_links(self) -> bool:
        """Whether a view has routed links, so that predictions are estimates."""
        return any(view.num_routed for view in self.views.values())

    def needs_replay(self, backend: Backend) -> bool:
        """Whether predictions are estimates on a network model, so that its replay says what a schedule takes."""
        return self.has_routed_links or not backend.is_analytical

    @property
    def max_sends(self) -> int:
        """Limit on the sends of its traces, so that a simulation of the whole run stays short.

        It is a power of two, except on a fabric: where devices store and forward, more and smaller messages gain much.
        """
        room = self.most_messages if self.fabric is not None else 1 << (self.most_messages.bit_length() - 1)
        return min(self.most_sends, room)

    @property
    def most_sends(self) -> int:
        """The same, however many messages the run may have."""
        room = min(max(_SENDS_OF_ALL // self.count, 1), MOST_SENDS)
        return 1 << (room.bit_length() - 1)

    @property
    def name(self) -> str:
        """The name of its traces: all_reduce_1048576B_of_8_3f2a91bc."""
        root = "" if self.root is None else f"_root{self.root}"
        return f"{self.collective.replace('-', '_')}_{self.size_bytes}B_of_{self.num_members}{root}_{self.shape[:8]}"

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that determines the result of a synthesis, except its options."""
        identity: dict[str, Any] = {
            "collective": self.collective,
            "size_bytes": self.size_bytes,
            "root": self.root,
            "shape": self.shape,
        }
        if self.has_routed_links:
            identity["groups"] = self.groups  # routes of theirs may share links
        return identity


def find_distinct_collectives(
    instances: Instances, network: Topology, config: NetworkConfig
) -> tuple[tuple[DistinctCollective, ...], Ints]:
    """Distinct cases, and int64[num_instances], the case of each instance; NO_CASE for groups of one and unknown patterns.

    Raises
    ------
    ConfigError
        If members of a group cannot reach one another.
    """
    views: dict[tuple[int, ...], tuple[str, dict[str, GroupTopology]]] = {}
    of_parts: dict[tuple[tuple[Dimension, ...] | None, ...], tuple[str, dict[str, GroupTopology]]] = {}
    fabric = network if network.forwarding else None
    case_numbers: dict[tuple[Any, ...], int] = {}
    groups: list[dict[tuple[int, ...], None]] = []
    columns = instances.group, instances.pattern, instances.size_bytes, instances.root
    first, place = row_places(*columns)
    case_of = np.full(len(first), NO_CASE, np.int64)
    for number in np.argsort(first).tolist():  # in the order in which the run has them
        group, pattern, size_bytes, root = (int(column[first[number]]) for column in columns)
        members = tuple(sorted(instances.nodes.members[group]))
        if len(members) < 2 or pattern not in COLLECTIVE_NAMES or size_bytes < 1:
            continue
        if members not in views:
            parts = tuple(None if fabric else regular_part(config, members, reach) for reach in REACHES)
            known = None if None in parts else of_parts.get(parts)  # groups that are the same parts of dimensions look the same
            views[members] = of_parts[parts] = known or _views(network, config, members)
        position = members.index(root) if root >= 0 else None
        case = case_numbers.setdefault((pattern, size_bytes, position, views[members][0]), len(case_numbers))
        if case == len(groups):
            groups.append({})
        groups[case][members] = None
        case_of[number] = case
    of_instance: Ints = case_of[place]
    counts = np.bincount(of_instance[of_instance >= 0], minlength=len(case_numbers)).tolist()
    cases = []
    for (pattern, size_bytes, position, shape), of_case, count in zip(case_numbers, groups, counts, strict=True):
        collective, alike = COLLECTIVE_NAMES[pattern], tuple(of_case)
        cases.append(
            DistinctCollective(collective, pattern, size_bytes, position, alike, count, views[alike[0]][1], shape, fabric)
        )
    return tuple(cases), of_instance


def _views(network: Topology, config: NetworkConfig, members: tuple[int, ...]) -> tuple[str, dict[str, GroupTopology]]:
    """The views of the network that a group has, by name, without those that add nothing; and a hash of them all."""
    views: dict[str, GroupTopology] = {}
    hashes: list[str] = []
    seen: Iterator[tuple[str, GroupTopology]]
    if network.forwarding:
        # Every link of such a view stands for a route, which others may use, too.
        seen = ((name, GroupTopology(view, view.num_links)) for name, view in fabric_views(network, members).items())
    else:
        seen = ((reach, group_topology(network, config, members, reach)) for reach in REACHES)
    for name, view in seen:
        text = _hash(view.topology)
        if text not in hashes:
            views[name] = view
            hashes.append(text)
    return hashlib.sha256("".join(hashes).encode()).hexdigest(), views


def _hash(topology: Topology) -> str:
    """Hash of a topology's links, in the order of their ends."""
    digest = hashlib.sha256(json.dumps([topology.num_npus, topology.num_switches]).encode())
    order = np.lexsort((topology.link_dst, topology.link_src))
    for column in (topology.link_src, topology.link_dst, topology.link_bandwidth_gibps, topology.link_latency_ns):
        digest.update(np.ascontiguousarray(column[order]).tobytes())
    digest.update(json.dumps([asdict(dimension) for dimension in topology.dimensions]).encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A run and the collective instances in it.

    Parameters
    ----------
    graph
        The graph of the run: what belongs together, and what waits for what.
    cases, of_instance
        Distinct cases, and int64[num_instances], which one each is, NO_CASE for none.
    """

    graph: RunGraph
    cases: tuple[DistinctCollective, ...]
    of_instance: Ints

    @property
    def run(self) -> Run:
        """The run."""
        return self.graph.run

    @property
    def instances(self) -> Instances:
        """Its collectives."""
        return self.graph.instances

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
        group[nodes.row[moved]] = [place[str(name)] for name in nodes.group[moved].tolist()]
        columns = replace(columns, group=group, group_names=tuple(names))
        return replace(self.run, workload=replace(self.run.workload, workload=columns))

    @property
    def carried_run(self) -> Run:
        """The run with patterns that ASTRA-sim lacks as those that carry them."""
        comm_type, nodes = self.run.columns.comm_type.copy(), self.instances.nodes
        comm_type[nodes.row] = carrying_types(nodes.pattern, nodes.size_bytes)
        columns = replace(self.run.columns, comm_type=comm_type)
        return replace(self.run, workload=replace(self.run.workload, workload=columns))


def find_workload(run: Run) -> Workload:
    """The collectives of a run.

    Raises
    ------
    ConfigError
        If ranks disagree on their collectives, or there is nothing to plan.
    """
    if run.system.replay_only:
        raise ConfigError(
            f"{run.system.source}: replay-only is on: collectives take their recorded duration, so a plan changes nothing"
        )
    if run.workload.num_ranks != run.network.num_npus:
        raise ConfigError(
            f"{run.workload.prefix}: traces of {run.workload.num_ranks} ranks, expected {run.network.num_npus}, "
            f"as many as {run.network.source} has NPUs"
        )
    if run.network.reducing:
        raise ConfigError(
            f"{run.network.source}: astra_tacos.reducing: runs cannot use devices that add, expected none: "
            "messages of a run go from NPU to NPU"
        )
    refuse_groups(run)
    graph = RunGraph(run)
    cases, of_instance = find_distinct_collectives(graph.instances, build_topology(run.network, may_forward=True), run.network)
    return Workload(graph, cases, of_instance)


def baseline_run(run: Run, own_run: Run, baseline: str | None) -> Run:
    """The run to compare with; with one native algorithm for all collectives, if it is named.

    Parameters
    ----------
    own_run
        The run in which nodes name their own groups, as native collectives need it.
    """
    if baseline is None:
        return run
    native = {key: (baseline,) * max(1, len(run.network.dimensions)) for key in COMM_KEYS}
    splits = run.system.preferred_dataset_splits or 1
    return native_run(own_run, replace(run.system, native=native, preferred_dataset_splits=splits))


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """How many messages a run has.

    Parameters
    ----------
    limit
        How many the planned one may have; None for any number.
    before, after
        How many the run has, and the planned one; None where that was not replayed.
    """

    limit: int | None
    before: int | None
    after: int

    @property
    def after_s(self) -> float:
        """About how long ASTRA-sim takes for the planned run, on one core of today."""
        return self.after * SECONDS_PER_MESSAGE

    def to_json(self) -> dict[str, Any]:
        """Keys of `plan.json`."""
        return {
            "max_messages": self.limit,
            "messages_before": self.before,
            "messages_after": self.after,
            "astra_sim_s": round(self.after_s, 3),
        }


def native_messages(workload: Workload) -> Ints:
    """int64[num_instances], about how many messages each collective takes as an unsplit native one."""
    steps = [dimension.size - 1 for dimension in workload.run.network.dimensions]
    instances, members = workload.instances, workload.instances.num_members
    per_member = (members - 1).clip(0, sum(steps) if steps else None)
    twice = 1 + (instances.pattern == CommType.ALL_REDUCE)
    messages: Ints = members * per_member * twice
    return messages


def limit_messages(workload: Workload, most_messages: int | None) -> tuple[Workload, int]:
    """The workload with a limit on the messages of each distinct collective, and the limit of the run.

    Every collective gets the share that it has of the messages of native collectives, unsplit, but at least as many messages as
    those take. The limit does not depend on what the run's nodes run now, so that a plan of a plan has the same.

    Parameters
    ----------
    most_messages
        About how many messages the planned run may have; None for `DEFAULT_FACTOR` times what native collectives take.
    """
    trace, native = workload.run.workload, native_messages(workload)
    num_sends = int(np.count_nonzero((trace.kind == NodeType.COMM_SEND) & workload.graph.issue.runs))
    total = max(int(native.sum()), 1)
    limit = num_sends + DEFAULT_FACTOR * total if most_messages is None else most_messages
    factor = max((limit - num_sends) / total, 1.0)
    most = np.zeros(len(workload.cases), np.int64)
    planned = workload.of_instance != NO_CASE
    np.maximum.at(most, workload.of_instance[planned], native[planned])
    cases = tuple(
        replace(case, most_messages=max(math.floor(factor * most_messages_of_case), 1))
        for case, most_messages_of_case in zip(workload.cases, most.tolist(), strict=True)
    )
    return replace(workload, cases=cases), limit
