"""One custom collective per group and pattern."""

from __future__ import annotations

from astra_tacos.config.system import COMM_KEYS
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.group_text import ALL_RANKS
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.step import Step
from astra_tacos.run.run import PATTERN_KEYS

_INT32 = 1 << 32


def separate_plans(draft: Draft, log: Log) -> None:
    """Copy a group for each further custom collective that its nodes of one pattern name.

    ASTRA-sim remembers one plan per group and pattern: that of the first node.
    """
    if not draft.per_node or not draft.found("G09"):
        return
    first: dict[tuple[str, int], str | None] = {}
    copies: dict[tuple[str, int, str | None], str] = {}
    for rank, node in draft.collectives():
        group, pattern = node.get("pg_name") or "", node.number("comm_type") or 0
        if group in ALL_RANKS:
            continue
        program = _program(draft, node, pattern)
        if first.setdefault((group, pattern), program) == program:
            continue
        key = group, pattern, program
        if key not in copies:
            copies[key] = draft.new_group(list(draft.groups[group]))
            log.add(f"group {copies[key]}: a copy of group {group}", f"for {program or 'the native algorithm'}")
        log.add(f"group {group} became {copies[key]}", "a group remembers one custom collective per pattern", rank, node.id)
        node.set("pg_name", copies[key])


def _program(draft: Draft, node: DraftNode, pattern: int) -> str | None:
    """The prefix of the custom collective that a node names."""
    if node.id % _INT32 in draft.per_node:
        return draft.per_node[node.id % _INT32]
    key = next((key for known, key in PATTERN_KEYS.items() if known == pattern), COMM_KEYS[0])
    entry = draft.system.get(f"{key}-implementation-custom")
    return str(entry[0]) if entry else None


STEP = Step("one-plan-per-group", ("G09",), separate_plans)
