"""At least one node per rank."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.step import Step
from astra_tacos.trace.schema import NodeType


def fill_empty(draft: Draft, log: Log) -> None:
    """Give ranks without nodes one compute node of 0 us, which takes 1 ns.

    ASTRA-sim throws at a trace without nodes.
    """
    for rank, nodes in enumerate(draft.ranks):
        if not len(nodes):
            nodes.append(DraftNode.make(0, "nothing", NodeType.COMP, is_cpu_op=False))
            log.add("a compute node of 0 us (1 ns) added", "ASTRA-sim throws at a trace without nodes", rank, 0)


STEP = Step("empty-ranks", ("F08",), fill_empty)
