"""Attributes whose values ASTRA-sim's readers accept."""

from __future__ import annotations

from typing import Any

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import FIELDS, DraftNode
from astra_tacos.repairer.step import Step

_TEXT, _FLAGS, _FLAG = ("pg_name",), ("involved_dim",), ("is_cpu_op",)


def convert_values(draft: Draft, log: Log) -> None:
    """Convert values of types at which ASTRA-sim's reader throws, and remove attributes that have no value.

    `"4096"` and 4096.0 become the whole number 4096. A value that is no number where one is needed is refused.
    """
    for rank, node in ((rank, node) for rank, nodes in enumerate(draft.ranks) for node in nodes.doubtful()):
        for name in FIELDS:
            kind = node.field(name)
            if kind == "":
                node.drop(name)
                log.add(f"{name} removed", "it has no value", rank, node.id)
            elif kind is not None and not _is_accepted(name, kind):
                value = _converted(draft, rank, node, name)
                log.add(f"{name}: {node.get(name)!r} became {value!r}", f"ASTRA-sim does not read {kind} here", rank, node.id)
                node.set(name, value)


def _is_accepted(name: str, kind: str) -> bool:
    if name in _TEXT:
        return kind == "string_val"
    if name in _FLAGS:
        return kind == "bool_list"
    if name in _FLAG:
        return kind == "bool_val"
    return kind.endswith("_val") and any(word in kind for word in ("int", "fixed"))


def _converted(draft: Draft, rank: int, node: DraftNode, name: str) -> Any:
    value = node.get(name)
    if hasattr(value, "values"):
        value = list(value.values)
    if name in _TEXT and not isinstance(value, (list, bytes)):
        return str(value)
    if name in _FLAGS:
        flags = value if isinstance(value, list) else [value]
        if flags and all(flag in (0, 1) for flag in flags):
            return [bool(flag) for flag in flags]
    elif isinstance(value, (bool, int, float, str)):
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if number == number and abs(number) < 1 << 53 and number == int(number):
            return bool(number) if name in _FLAG else int(number)
    raise ConfigError(f"{draft.name}.{rank}.et node {node.id}: {name} is {value!r}, which is no value that ASTRA-sim reads")


STEP = Step("attribute-values", ("A02", "A03"), convert_values)
