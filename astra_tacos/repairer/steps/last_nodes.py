"""Ranks that do not end with a message after CPU nodes."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step


def end_with_compute(draft: Draft, log: Log) -> None:
    """Have a rank that runs CPU nodes and may end with a message end with a compute node of 1 ns instead.

    ASTRA-sim's statistics throw at CPU nodes as the rank ends. That does no harm, unless the rank's last event is a message:
    ASTRA-sim then aborts. Which of several nodes ends last depends on timing.
    """
    ranks = {found.rank for found in draft.report().findings if found.code == "A14"}
    for rank in sorted(rank for rank in ranks if rank is not None):
        last = draft.ranks[rank].last()
        if not any(node.is_message for node in last):
            continue
        node = draft.pause(rank, "end")
        node.depend(other.id for other in last)
        draft.ranks[rank].append(node)
        log.add("ends with a compute node of 0 us (1 ns)", "ASTRA-sim's statistics abort where a message ends it", rank, node.id)


STEP = Step("last-nodes", ("A14",), end_with_compute, leaves_warnings=True)
