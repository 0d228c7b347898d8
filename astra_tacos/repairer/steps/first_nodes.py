"""Nothing that takes less than 1 ns at time 0."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step


def delay_first(draft: Draft, log: Log) -> None:
    """Have ranks start with a compute node of 1 ns, where their first event would take less.

    ASTRA-sim asserts that its first event comes after time 0.
    """
    if not draft.found("N04"):
        return
    for rank, nodes in enumerate(draft.ranks):
        first = nodes.first()
        node = draft.pause(rank, "start")
        for other in first:
            other.depend((node.id,))
        nodes.append(node)
        log.add("starts with a compute node of 0 us (1 ns)", "ASTRA-sim aborts at less than 1 ns at time 0", rank, node.id)


STEP = Step("first-nodes", ("N04",), delay_first)
