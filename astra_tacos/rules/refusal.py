"""What the replay of a run refuses: the first node or setting at which ASTRA-sim would stop, or wait for ever."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property

import numpy as np

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.rules import attributes, custom_collectives, dependencies, nodes, system
from astra_tacos.rules.inputs import TraceFiles
from astra_tacos.rules.node_facts import NodeFacts, UnknownFact
from astra_tacos.rules.rule import Found, Rule, Severity, place_of
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.system import RemoteMemory, SystemConfig
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.errors import ConfigError, ReplayError

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
_OF_SYSTEM: tuple[Rule[NodeFacts], ...] = (system.splits_absent, system.no_active_chunks, system.splits_custom)
_OF_CUSTOM: tuple[Rule[NodeFacts], ...] = (
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


def refuse_custom(trace: Trace, num_members: int, run: Run) -> None:
    """Check every node of a custom collective's trace by itself, as a group of so many ranks plays it.

    Raises
    ------
    ConfigError
        If a node is of another kind than COMM_SEND, COMM_RECV and COMP, or incomplete.
    ReplayError
        If a node waits for one that does not exist, or all wait.
    """
    _refuse(_OF_CUSTOM, _CustomFacts(run, trace, num_members))


def _refuse(rules: Iterable[Rule[NodeFacts]], facts: NodeFacts) -> None:
    """Raise the first fatal finding of some rules."""
    for rule in rules:
        with suppress(UnknownFact):
            for found in rule.find(facts):
                if not isinstance(found, Found):
                    if not len(found.rows):
                        continue
                    found = found.describe(int(found.rows[0]))
                if found.is_replayed or (found.severity or rule.severity) != Severity.ERROR:
                    continue
                waits = "deadlock: " if found.waits else ""
                error = ReplayError if found.waits else ConfigError
                raise error(f"{place_of(found.file, found.node)}: {waits}{found.message}; {found.remedy} (lint: {rule.code})")


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
    def known_network(self) -> NetworkConfig:
        return self.run.network

    @property
    def remote_memory(self) -> RemoteMemory | None:
        return self.run.remote_memory

    @property
    def queues(self) -> bool:
        return False  # a message to itself is replayed on no network model

    @property
    def num_npus(self) -> int:
        return self.run.network.num_npus

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
    def custom_names(self) -> list[str]:
        used = set(self.run.implementation.tolist()) - {NATIVE}
        return [prefix for number, prefix in enumerate(self.run.prefixes) if number in used]


class _CustomFacts(_RunFacts):
    """A custom collective of a run in memory, as a group of so many ranks plays it."""

    def __init__(self, run: Run, trace: Trace, num_members: int) -> None:
        super().__init__(run)
        if trace.owners is None and trace.num_ranks > num_members:
            trace = trace.of_ranks(np.arange(num_members))
        self._view = TraceView(TraceFiles(trace.prefix, range(num_members), trace), is_workload=False)

    @property
    def custom_views(self) -> tuple[TraceView, ...]:
        return (self._view,)

    @property
    def views(self) -> tuple[TraceView, ...]:
        return (self._view,)
