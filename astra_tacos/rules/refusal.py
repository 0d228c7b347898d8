"""What the replay of a run refuses: the first node or setting at which ASTRA-sim would stop, or wait for ever."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cached_property

import numpy as np

from astra_tacos.network.network_config import Dimension
from astra_tacos.rules import attributes, custom_collectives, dependencies, files, groups, nodes, system
from astra_tacos.rules.inputs import TraceFiles
from astra_tacos.rules.node_facts import NodeFacts, UnknownFact
from astra_tacos.rules.rule import Found, Rule, place_of
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.groups import CommunicatorGroups
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.system import RemoteMemory, SystemConfig
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError, ReplayError
from astra_tacos.support.rows import Severity

_OF_NODES: tuple[Rule[NodeFacts], ...] = (
    dependencies.dangling,
    dependencies.all_wait,
    nodes.metadata_node,
    attributes.no_value,
    attributes.wrong_type,
    attributes.missing_attribute,
    attributes.size_huge,
    nodes.no_operations,
    system.roofline_of_nothing,
    nodes.cpu_communication,
    attributes.size_zero,
    attributes.peer_outside,
    attributes.peer_itself,
    attributes.negative_tag,
    attributes.other_rank,
    nodes.unsupported_pattern,
    system.memory_rates,
)
"""In the order in which a replay looks."""
_OF_GROUPS: tuple[Rule[NodeFacts], ...] = (
    files.groups_ignored,
    groups.group_name_bad,
    groups.group_unknown,
    groups.group_beyond,
    groups.rank_outside,
)
_OF_SYSTEM: tuple[Rule[NodeFacts], ...] = (
    system.splits_absent,
    system.no_active_chunks,
    system.splits_custom,
    system.no_implementation,
)
_OF_CUSTOM: tuple[Rule[NodeFacts], ...] = (
    custom_collectives.too_few_positions,
    custom_collectives.other_kinds,
    attributes.missing_attribute,
    attributes.size_huge,
    attributes.size_zero,
    attributes.peer_outside,
    attributes.peer_itself,
    attributes.negative_tag,
    dependencies.dangling,
    dependencies.all_wait,
)


def refuse_nodes(run: Run) -> None:
    """Check the nodes of a run's workload, each by itself.

    Raises
    ------
    ConfigError
        If ASTRA-sim would stop at a node.
    ReplayError
        If a node waits for ever.
    """
    _refuse(_OF_NODES, _RunFacts(run))


def refuse_groups(run: Run) -> None:
    """Check the communicator groups that the nodes of a run's workload name.

    Raises
    ------
    ConfigError
        If ASTRA-sim would stop at a name, at a group or at a rank that its group does not have.
    """
    _refuse(_OF_GROUPS, _RunFacts(run))


def refuse_left_out(run: Run) -> None:
    """Check that no native collective of all NPUs leaves dimensions out: NPUs that differ in these never exchange data.

    Such a run ends too early, so nothing can be compared with it.

    Raises
    ------
    ConfigError
        If there is one.
    """
    _refuse((system.too_few_algorithms,), _RunFacts(run))


def refuse_system(run: Run) -> None:
    """Check the settings that ASTRA-sim needs for every collective.

    Raises
    ------
    ConfigError
        If ASTRA-sim would stop at the first one.
    ReplayError
        If custom collectives never finish.
    """
    _refuse(_OF_SYSTEM, _RunFacts(run))


def refuse_custom(trace: Trace, group: int, run: Run) -> None:
    """Check a custom collective's trace, and every node by itself, as the group of an id plays it.

    Raises
    ------
    ConfigError
        If the group has more ranks than the trace, or a node is of another kind than COMM_SEND, COMM_RECV and COMP, or
        incomplete.
    ReplayError
        If a node waits for one that does not exist, or all wait.
    """
    _refuse(_OF_CUSTOM, _CustomFacts(run, trace, group))


def _refuse(rules: Iterable[Rule[NodeFacts]], facts: NodeFacts) -> None:
    """Raise the first fatal finding of some rules."""
    for rule in rules:
        with suppress(UnknownFact):
            for fault in rule.find(facts):
                if not isinstance(fault, Found):
                    if not len(fault.rows):
                        continue
                    fault = fault.describe(int(fault.rows[0]))
                if fault.is_replayed or (fault.severity or rule.severity) != Severity.ERROR:
                    continue
                waits = "deadlock: " if fault.waits else ""
                error = ReplayError if fault.waits else ConfigError
                raise error(f"{place_of(fault.file, fault.node)}: {waits}{fault.message}; {fault.remedy} (lint: {rule.code})")


class _RunFacts(NodeFacts):
    """The workload of a run in memory."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def system(self) -> SystemConfig:
        return self.run.system

    @property
    def stated_system(self) -> SystemConfig:
        return self.run.system

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return self.run.network.dimensions

    @property
    def remote_memory(self) -> RemoteMemory | None:
        return self.run.remote_memory

    @property
    def queues(self) -> bool:
        return False  # a message to itself is replayed on no network model

    @property
    def num_npus(self) -> int:
        return self.run.network.num_npus

    @property
    def groups(self) -> CommunicatorGroups:
        return self.run.groups

    @property
    def listed_groups(self) -> Collection[int]:
        if self.run.groups.is_ignored:
            raise UnknownFact
        return self.run.groups.members

    @property
    def native_rows(self) -> Ints:
        rows: Ints = self.collective_rows[self.run.implementation[self.collective_rows] == NATIVE]
        return rows

    @cached_property
    def workload(self) -> TraceView:
        trace = self.run.workload
        return TraceView(TraceFiles(trace.prefix, range(trace.num_ranks), trace), is_workload=True)

    @property
    def custom_views(self) -> tuple[TraceView, ...]:
        return ()

    @property
    def views(self) -> tuple[TraceView, ...]:
        return (self.workload, *self.custom_views)

    @property
    def played(self) -> tuple[tuple[TraceFiles, int], ...]:
        return ()

    @property
    def custom_names(self) -> list[str]:
        used = set(self.run.implementation.tolist()) - {NATIVE}
        return [prefix for number, prefix in enumerate(self.run.prefixes) if number in used]


class _CustomFacts(_RunFacts):
    """A custom collective of a run in memory, as a group plays it."""

    def __init__(self, run: Run, trace: Trace, group: int) -> None:
        super().__init__(run)
        num_members = self.group_size(group)
        # Of a compact trace only the positions that are played are there.
        files = TraceFiles(trace.prefix, range(num_members if trace.owners is not None else trace.num_ranks), trace)
        self._played = files, group
        if trace.owners is None and trace.num_ranks > num_members:
            trace = trace.of_ranks(np.arange(num_members))
        self._view = TraceView(TraceFiles(trace.prefix, range(num_members), trace), is_workload=False)

    @property
    def played(self) -> tuple[tuple[TraceFiles, int], ...]:
        return (self._played,)

    @property
    def custom_views(self) -> tuple[TraceView, ...]:
        return (self._view,)

    @property
    def views(self) -> tuple[TraceView, ...]:
        return (self._view,)
