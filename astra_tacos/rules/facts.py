"""Facts derived from the inputs of a run, computed once when a check first asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.rules.collective_nodes import Collectives, find_collectives
from astra_tacos.rules.inputs import Inputs, TraceFiles
from astra_tacos.rules.matched_messages import MatchedMessages, match_sound_messages, sound_messages
from astra_tacos.rules.node_facts import NodeFacts, UnknownFact
from astra_tacos.rules.rule import Findings
from astra_tacos.rules.run_order import RunOrder, order_run
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.groups import NO_GROUPS, CommunicatorGroups
from astra_tacos.run.run import NATIVE, implementations
from astra_tacos.run.system import RemoteMemory, SystemConfig
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.graph import Graph
from astra_tacos.support.grouping import row_places


class Facts(NodeFacts):
    """The inputs of a run, and the facts that checks derive from them.

    Facts about nodes raise `UnknownFact` if no trace is readable, facts about messages also if the workload sends none. So do
    facts about a network or a system whose file cannot be used.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def problems(self, kind: str, remedy: str) -> Findings:
        """Faults of a kind of file, with what to do about them."""
        return (replace(finding, remedy=remedy) for finding in self.inputs.problems.get(kind, ()))

    @property
    def system(self) -> SystemConfig:
        """The system; one with ASTRA-sim's defaults if its file cannot be used."""
        return self.inputs.system or SystemConfig(str(self.inputs.system_path))

    @property
    def stated_system(self) -> SystemConfig:
        """The system as its file has it."""
        if self.inputs.system is None:
            raise UnknownFact
        return self.inputs.system

    @property
    def network(self) -> NetworkConfig:
        """The network as its file has it."""
        if self.inputs.network is None:
            raise UnknownFact
        return self.inputs.network

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Dimensions of the network; none if it is a list of links, or its file cannot be used."""
        return () if self.inputs.network is None else self.inputs.network.dimensions

    @property
    def remote_memory(self) -> RemoteMemory | None:
        """The remote memory; None if no file is given."""
        if "remote_memory" in self.inputs.problems:
            raise UnknownFact
        return self.inputs.remote_memory

    @cached_property
    def groups(self) -> CommunicatorGroups:
        """The communicator groups that can be used."""
        path, is_ignored = self.inputs.groups_path, self.inputs.groups_ignored
        return NO_GROUPS if path is None else CommunicatorGroups(str(path), self.inputs.groups, is_ignored=is_ignored)

    @property
    def listed_groups(self) -> list[int]:
        """Ids that the file of groups lists, whether or not they can be used."""
        if self.inputs.groups_ignored or "groups" in self.inputs.problems:
            raise UnknownFact
        return [*self.inputs.groups, *self.inputs.bad_groups]

    @property
    def native_rows(self) -> Ints:
        """int64[num_rows], the collective nodes that run a native algorithm, by rank and then by the order of issue."""
        rows: Ints = self.collectives.row[self.collectives.run == NATIVE]
        return rows

    @property
    def queues(self) -> bool:
        """Whether messages queue on links under the backend."""
        return self.inputs.backend.models_congestion

    @cached_property
    def num_npus(self) -> int:
        """Number of NPUs of the network; if it cannot be read, number of ranks of the workload."""
        network = self.inputs.network
        if network is not None:
            return network.num_npus
        return max(self.inputs.workload.ranks, default=-1) + 1

    @cached_property
    def workload(self) -> TraceView:
        """The workload, as far as its files are readable."""
        if self.inputs.workload.trace is None:
            raise UnknownFact
        return TraceView(self.inputs.workload, is_workload=True)

    @cached_property
    def implementations(self) -> tuple[tuple[str, ...], Ints32]:
        """Prefixes of the custom traces that nodes of the workload name, and int32[num_nodes], the entry of each node."""
        if self.inputs.workload.trace is None:
            return (), np.empty(0, np.int32)
        return implementations(self.workload.trace, self.system)

    @cached_property
    def custom_files(self) -> tuple[TraceFiles, ...]:
        """Files of these custom traces, without positions beyond the largest group that uses them, which nobody opens."""
        sizes = {number: [self.group_size(group) for group in groups] for number, groups in self.uses.items()}
        return tuple(
            self.inputs.custom(prefix, max(sizes.get(number, ()), default=None))
            for number, prefix in enumerate(self.implementations[0])
        )

    @cached_property
    def custom(self) -> dict[int, TraceView]:
        """The custom traces that have a readable file, by their place among the prefixes."""
        return {
            number: TraceView(files, is_workload=False)
            for number, files in enumerate(self.custom_files)
            if files.trace is not None
        }

    @cached_property
    def views(self) -> tuple[TraceView, ...]:
        """The workload and the custom traces, as far as they are readable."""
        return (*((self.workload,) if self.inputs.workload.trace is not None else ()), *self.custom.values())

    @property
    def custom_views(self) -> Iterable[TraceView]:
        """The custom traces that have a readable file."""
        return self.custom.values()

    @property
    def played(self) -> Iterable[tuple[TraceFiles, int]]:
        """The files of each custom collective with the id of each group that runs it."""
        return ((self.custom_files[number], group) for number, groups in self.uses.items() for group in groups)

    @property
    def custom_names(self) -> list[str]:
        """The prefixes of the custom collectives that run."""
        return [self.implementations[0][number] for number in self.uses]

    @cached_property
    def collectives(self) -> Collectives:
        """Collective nodes of the workload."""
        return find_collectives(self.communicating, self.inputs.groups, self.num_npus, self.implementations[1])

    @cached_property
    def uses(self) -> dict[int, list[int]]:
        """Ids of the groups that run each custom trace, by its place among the prefixes."""
        if self.inputs.workload.trace is None or not self.communicates:
            return {}
        collectives = self.collectives
        first, _ = row_places(collectives.run, collectives.group)
        groups_of: dict[int, list[int]] = {}
        for run, group in zip(collectives.run[first].tolist(), collectives.group[first].tolist(), strict=True):
            if run != NATIVE:
                groups_of.setdefault(run, []).append(group)
        return groups_of

    @cached_property
    def messages(self) -> MatchedMessages:
        """Point-to-point messages of the workload."""
        return match_sound_messages(self.communicating, self.num_npus)

    @cached_property
    def custom_messages(self) -> dict[int, MatchedMessages]:
        """Messages within each custom trace."""
        return {number: match_sound_messages(view, view.num_ranks) for number, view in self.custom.items()}

    @cached_property
    def order(self) -> RunOrder:
        """The order of nodes across ranks."""
        sends = sound_messages(self.workload, self.num_npus) & self.workload.rows(NodeType.COMM_SEND)
        return order_run(self.workload, self.collectives, self.messages.met, self._loose(), np.flatnonzero(sends))

    def _loose(self) -> list[int]:
        """The custom traces in which some rank does not wait, directly or indirectly, for every other one."""
        numbers = []
        for number in range(len(self.custom_files)):
            if number in self.custom:
                view, messages = self.custom[number], self.custom_messages[number].met
                graph = Graph.of(view.trace.num_ranks, view.rank[messages.send], view.rank[messages.receive])
                if graph.strong_groups()[0] == 1:
                    continue
            numbers.append(number)
        return numbers
