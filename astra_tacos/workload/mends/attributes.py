"""Values of attributes of the types that ASTRA-sim reads."""

from __future__ import annotations

from typing import Any

from astra_tacos.run.trace.schema import ATTRIBUTE_KINDS
from astra_tacos.run.trace.trace import WORKLOAD_ATTRIBUTES
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import DraftNode, accepted_fields


@mend("attribute-values", "A02", "A03")
def convert_values(draft: Draft, log: Log) -> None:
    """Convert values of types at which ASTRA-sim's reader throws, and remove attributes that have no value.

    `"4096"` and 4096.0 become the whole number 4096. A value that is no number where one is needed is refused.
    """
    for node in (node for nodes in draft.ranks for node in nodes.doubtful()):
        for name in WORKLOAD_ATTRIBUTES:
            kind = node.field(name)
            if kind == "":
                node.drop(name)
                log.add(f"{name} removed", "it has no value", node)
            elif kind is not None and kind not in accepted_fields(name):
                value = _converted(draft, node, name)
                log.add(f"{name}: {node.get(name)!r} became {value!r}", f"ASTRA-sim does not read {kind} here", node)
                node.set(name, value)


def _converted(draft: Draft, node: DraftNode, name: str) -> Any:
    value = node.get(name)
    if hasattr(value, "values"):
        value = list(value.values)
    kind = ATTRIBUTE_KINDS[name]
    if kind == "string" and not isinstance(value, (list, bytes)):
        return str(value)
    if kind == "bool_list":
        flags = value if isinstance(value, list) else [value]
        if flags and all(flag in (0, 1) for flag in flags):
            return [bool(flag) for flag in flags]
    elif isinstance(value, (bool, int, float, str)):
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if abs(number) < 1 << 53 and number == int(number):
            return bool(number) if kind == "bool" else int(number)
    raise draft.fault(node, f"{name} is {value!r}, which is no value that ASTRA-sim reads")
