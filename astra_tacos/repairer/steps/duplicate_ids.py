"""Ids that are unique within a rank."""

from __future__ import annotations

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.step import Step


def renumber(draft: Draft, log: Log) -> None:
    """Give the later ones of several nodes with one id an id of their own.

    ASTRA-sim keeps the last one of them, with the dependencies of all. A dependency on such an id may mean any of the nodes:
    the run is refused.
    """
    for rank, nodes in enumerate(draft.ranks):
        if nodes.has_unique_ids:
            continue
        seen: set[int] = set()
        twice = [node for node in nodes if node.id in seen or seen.add(node.id)]  # type: ignore[func-returns-value]
        if not twice:
            continue
        needed = {dep for node in nodes for dep in node.deps}
        free = draft.new_id(rank)
        for number, node in enumerate(twice, free):
            if node.id in needed:
                raise ConfigError(
                    f"{draft.name}.{rank}.et: several nodes have the id {node.id}, and others depend on it: which one they mean "
                    "is not known"
                )
            log.add(f"id {node.id} became {number}", "an earlier node has the same id", rank, node.id)
            node.message.id = number


STEP = Step("duplicate-ids", ("F08",), renumber)
