"""Communicator groups that PyTorch's traces define in nodes `## process_group:init ##`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from astra_tacos.config.communicator import MAX_RANK
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import ALL_RANKS, Draft
from astra_tacos.repairer.step import Step

_NAME = "process_group:init"
_MOST_TEXT = 1 << 24


def define_groups(draft: Draft, log: Log) -> None:
    """Take communicator groups from nodes `## process_group:init ##` into comm_group.json.

    Such a node lists, for each group, its name and ranks. No ranks, or all of them, mean the group of all ranks. Groups that the
    file has already stay as they are.
    """
    for rank, node in draft.nodes(lambda node: _NAME in node.name):
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


def groups_of_text(text: str) -> Iterator[tuple[str, list[int]]]:
    """Name and ranks of each group that the text of a `process_group:init` lists."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or "pg_name" not in entry:
            continue
        ranks = entry.get("ranks", [])
        if isinstance(ranks, dict):  # older PyTorch: rank in the world to rank in the group
            ranks = [int(rank) for rank in ranks if str(rank).isdecimal()]
        if isinstance(ranks, list) and all(type(rank) is int and 0 <= rank <= MAX_RANK for rank in ranks):
            yield str(entry["pg_name"]).encode("utf-8", "replace").decode(), ranks


STEP = Step("process-groups", ("G04",), define_groups)
