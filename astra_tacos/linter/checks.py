"""All checks by their codes. A new check is a function, a line in its family's CHECKS, and a test."""

from __future__ import annotations

from astra_tacos.linter import (
    algorithm_checks,
    attribute_checks,
    custom_checks,
    dependency_checks,
    file_checks,
    group_checks,
    message_checks,
    network_checks,
    node_checks,
    order_checks,
    system_checks,
)
from astra_tacos.linter.check import Check

_FAMILIES = (
    file_checks,
    network_checks,
    system_checks,
    algorithm_checks,
    group_checks,
    attribute_checks,
    node_checks,
    dependency_checks,
    message_checks,
    custom_checks,
    order_checks,
)
_LETTERS = "FNSGADMTC"
"""Letters of the families, in the order in which their codes are listed."""
_ALL = [check for family in _FAMILIES for check in family.CHECKS]
CHECKS: dict[str, Check] = {
    check.code: check for check in sorted(_ALL, key=lambda check: (_LETTERS.index(check.code[0]), check.code))
}
if len(CHECKS) != len(_ALL):
    raise ValueError("two checks have one code")
