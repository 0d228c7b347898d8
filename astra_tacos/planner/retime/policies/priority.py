"""Priority: of collectives and sends that could start, the one whose first consumer has to start first.

That is the layer nearest the input in P3 and ByteScheduler, where consumers are the layers of the next forward pass, and the
critical path in TicTac (Hashemi et al. 2019, arXiv:1803.03288). With `first=all-to-all` All-to-Alls go before all others
(Lina). ByteScheduler's credit is how many bytes are committed, in order, before a more urgent collective can still go first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astra_tacos.planner.retime.list_schedule import levels
from astra_tacos.planner.retime.policy import Option, Policy, Setting
from astra_tacos.planner.retime.tasks import TaskGraph, Vertex, relations
from astra_tacos.run.trace.schema import CommType, NodeType


def _apply(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
    level = levels(graph, setting.duration_of)
    after = relations(graph)[0]

    def consumers_ns(vertex: Vertex) -> int:
        """The longest way from a consumer's start to the end; the longer, the earlier it has to start."""
        return max((level[later] for later in after.get(vertex, ())), default=0)

    known = 0
    for operation in graph.operations:
        is_first = values["first"] == "all-to-all" and operation.pattern == CommType.ALL_TO_ALL
        needed = consumers_ns(operation)
        known += needed > 0
        operation.urgency = (0 if is_first else 1, -needed)
    for task in graph.tasks():
        if task.kind == NodeType.COMM_SEND:
            task.urgency = (1, -(consumers_ns(task) if task.sends_to is None else consumers_ns(task.sends_to)))
    graph.credit_bytes = values["credit"]
    lacking = len(graph.operations) - known
    return (
        [f"priority: nothing waits for {lacking:,} of {len(graph.operations):,} collectives; these collectives go last"]
        if lacking
        else []
    )


POLICY = Policy(
    "priority",
    "the collective whose first consumer has to start first goes first",
    _apply,
    {
        "first": Option(("none", "all-to-all"), "none", "what goes before all others"),
        "credit": Option("size", 0, "bytes that are committed ahead of a decision; by default what could start at once"),
    },
    lambda graph: ({"first": "all-to-all"},) if graph.has(CommType.ALL_TO_ALL) else (),
    begins_search=True,
)
