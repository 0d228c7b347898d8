"""What rules of nodes ask: the traces of a run, its system and its network, without a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from functools import cached_property

import numpy as np

from astra_tacos.network.network_config import Dimension
from astra_tacos.rules.inputs import TraceFiles
from astra_tacos.rules.trace_view import TraceView
from astra_tacos.run.groups import ALL_RANKS, CommunicatorGroups
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.system import RemoteMemory, SystemConfig
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Bools, Ints


class UnknownFact(Exception):
    """No file that could be read says what a rule asks for: the rule has no more to find."""


class NodeFacts(ABC):
    """The traces of a run, its system and its network."""

    @property
    @abstractmethod
    def system(self) -> SystemConfig:
        """The system; one with ASTRA-sim's defaults if its file cannot be used."""

    @property
    @abstractmethod
    def stated_system(self) -> SystemConfig:
        """The system as its file has it."""

    @property
    @abstractmethod
    def dimensions(self) -> tuple[Dimension, ...]:
        """Dimensions of the network; none if it is a list of links, or its file cannot be used."""

    @property
    @abstractmethod
    def remote_memory(self) -> RemoteMemory | None:
        """The remote memory; None if no file is given.

        Raises
        ------
        UnknownFact
            If its file cannot be used.
        """

    @property
    @abstractmethod
    def queues(self) -> bool:
        """Whether messages queue on links under the backend."""

    @property
    @abstractmethod
    def num_npus(self) -> int:
        """Number of NPUs of the network; if it cannot be read, number of ranks of the workload."""

    @property
    @abstractmethod
    def workload(self) -> TraceView:
        """The workload, as far as its files are readable."""

    @property
    @abstractmethod
    def custom_views(self) -> Iterable[TraceView]:
        """The traces of custom collectives, as far as they are readable."""

    @property
    @abstractmethod
    def views(self) -> tuple[TraceView, ...]:
        """The workload and the custom traces, as far as they are readable."""

    @property
    @abstractmethod
    def played(self) -> Iterable[tuple[TraceFiles, int]]:
        """The files of each custom collective with the id of each group that runs it."""

    @property
    @abstractmethod
    def custom_names(self) -> list[str]:
        """The prefixes of the custom collectives that run."""

    @property
    @abstractmethod
    def groups(self) -> CommunicatorGroups:
        """The communicator groups that can be used."""

    @property
    @abstractmethod
    def listed_groups(self) -> Collection[int]:
        """Ids that the file of groups lists, whether or not they can be used.

        Raises
        ------
        UnknownFact
            If the file cannot be read, or ASTRA-sim does not read it.
        """

    @property
    @abstractmethod
    def native_rows(self) -> Ints:
        """int64[num_rows], the collective nodes of the workload that run a native algorithm."""

    def group_size(self, group: int) -> int:
        """Number of ranks of a group."""
        return self.num_npus if group == ALL_RANKS else len(self.groups.members[group])

    def spans_network(self, group: Ints) -> Bools:
        """bool[len(group)], whether each of these groups has as many ranks as the network."""
        numbers, which = np.unique(group, return_inverse=True)
        return np.array([self.group_size(number) == self.num_npus for number in numbers.tolist()], np.bool_)[which]

    @property
    def communicates(self) -> bool:
        """Whether communication nodes send messages; under `replay-only` they only take their duration."""
        return not self.system.replay_only

    @property
    def communicating(self) -> TraceView:
        """The workload, where it communicates."""
        if not self.communicates:
            raise UnknownFact
        return self.workload

    @property
    def communicating_views(self) -> tuple[TraceView, ...]:
        """The traces, where nodes communicate."""
        return self.views if self.communicates else ()

    @cached_property
    def collective_rows(self) -> Ints:
        """int64[num_rows], the collective nodes of the workload that ASTRA-sim can run."""
        view = self.communicating
        return np.flatnonzero(view.rows(NodeType.COMM_COLL) & np.isin(view.columns.comm_type, list(PATTERN_KEYS)))
