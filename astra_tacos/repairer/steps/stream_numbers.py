"""Collectives of all ranks that ASTRA-sim numbers alike."""

from __future__ import annotations

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.group_text import ALL_RANKS
from astra_tacos.repairer.step import Step


def group_all_ranks(draft: Draft, log: Log) -> None:
    """Give collectives of all ranks a group of all ranks, where ranks run different numbers of collectives before them.

    ASTRA-sim numbers the collectives without a group by all collectives that the rank has started, so that they never meet. Those
    of a group are numbered by themselves.
    """
    if not draft.found("C08"):
        return
    name = draft.new_group(list(range(draft.num_ranks)))
    for rank, node in draft.collectives():
        if (node.get("pg_name") or "") in ALL_RANKS:
            node.set("pg_name", name)
            log.add(
                f"became a collective of group {name}, which is all ranks",
                "ranks number them differently otherwise",
                rank,
                node.id,
            )


STEP = Step("stream-numbers", ("C08",), group_all_ranks)
