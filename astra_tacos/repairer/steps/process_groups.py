"""Communicator groups that PyTorch's traces define in nodes `## process_group:init ##`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.group_text import ALL_RANKS, groups_of_text
from astra_tacos.repairer.step import Step

_NAME = "process_group:init"
_MOST_TEXT = 1 << 24


def define_groups(draft: Draft, log: Log) -> None:
    """Take communicator groups from nodes `## process_group:init ##` into comm_group.json.

    Such a node lists, for each group, its name and ranks. No ranks, or all of them, mean the group of all ranks. Groups that the
    file has already stay as they are.
    """
    for rank, node in ((rank, node) for rank, nodes in enumerate(draft.ranks) for node in nodes.named(_NAME)):
        for name, ranks in _groups(node.texts()):
            if name in draft.groups or name in ALL_RANKS:
                continue
            members = sorted(set(ranks)) or list(range(draft.num_ranks))
            draft.groups[name] = members
            log.add(f"group {name!r} of ranks {members} added to comm_group.json", "the node defines it", rank, node.id)


def _groups(values: list[Any]) -> Iterator[tuple[str, list[int]]]:
    for value in values:
        if not isinstance(value, str) or len(value) > _MOST_TEXT:
            continue
        yield from groups_of_text(value)


STEP = Step("process-groups", ("G04",), define_groups)
