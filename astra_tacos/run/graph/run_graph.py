"""The graph of a run: what meets, what belongs together, and what waits for what across ranks.

The planner builds it, and its bound reads it. Lint calls the same functions on traces that may be damaged. Replays decide as they
run, and the oracle reads for itself: neither builds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from astra_tacos.run.graph.instances import Instances, find_collective_nodes, match_instances
from astra_tacos.run.graph.issue_order import IssueOrder, find_issue_order
from astra_tacos.run.graph.merged_graph import MergedGraph, merge
from astra_tacos.run.graph.messages import MessageQueues, Messages, awaited_sends, match_messages, queue_messages
from astra_tacos.run.run import Run
from astra_tacos.support.arrays import Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Together:
    """Instances of collectives, and the graph and the order that follow."""

    instances: Instances
    merged: MergedGraph
    order: Ints

    @property
    def has_cycle(self) -> bool:
        return len(self.order) < len(self.merged.waits)


@dataclass(frozen=True, eq=False)
class RunGraph:
    """The graph of a run, of which each part is made when it is first asked for.

    `instances` and what is made of them raise `ConfigError` if ranks disagree on their collectives.
    """

    run: Run

    @cached_property
    def issue(self) -> IssueOrder:
        """The order in which ranks issue their nodes."""
        return find_issue_order(self.run.workload)

    @cached_property
    def queues(self) -> MessageQueues:
        """The sends and the receives of each tag, source, destination and size."""
        return queue_messages(self.run.workload, self.issue, lattice=self.run.classes)

    @cached_property
    def messages(self) -> Messages:
        """Which sends and receives meet, and which of them certainly do."""
        return match_messages(self.run.workload, self.issue, self.queues)

    @cached_property
    def awaited(self) -> tuple[Ints, Ints]:
        """Rows of receives, and of sends whose messages certainly arrive before these end."""
        return awaited_sends(self.run.workload, self.issue, self.queues)

    @property
    def instances(self) -> Instances:
        """Which collective nodes of different ranks are one collective: by their names, unless that makes a cycle of waiting."""
        return self._together.instances

    @property
    def merged(self) -> MergedGraph:
        """What waits for what, across ranks."""
        return self._together.merged

    @property
    def order(self) -> Ints:
        """int64, the vertices of `merged` in an order that keeps all waiting, without those of cycles and behind them."""
        return self._together.order

    @property
    def has_cycle(self) -> bool:
        """Whether some nodes wait for one another."""
        return self._together.has_cycle

    def with_instances(self, instances: Instances) -> RunGraph:
        """The graph in which other nodes belong together; it shares the parts that do not depend on that."""
        graph = RunGraph(self.run)
        vars(graph).update(vars(self), _together=self._merge(instances))
        return graph

    @cached_property
    def _together(self) -> _Together:
        nodes = find_collective_nodes(self.run, self.issue)
        named = self._merge(match_instances(self.run.workload, self.issue, nodes, self.run.names))
        return self._merge(match_instances(self.run.workload, self.issue, nodes, None)) if named.has_cycle else named

    def _merge(self, instances: Instances) -> _Together:
        messages, collectives = self.messages, (instances.nodes.row, instances.instance)
        merged = merge(self.run.workload, self.issue.runs, collectives, (messages.send, messages.receive))
        return _Together(instances, merged, merged.order())
