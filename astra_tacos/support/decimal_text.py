"""Numbers as text, where they mean the same to ASTRA-sim as here.

ASTRA-sim reads numbers by yaml-cpp: `010` is 8 where it wants a whole number and 10 where it wants another one, `0x10` only
the former; YAML 1.1 takes `190:20:30` for base 60 and `1_000` for 1000, which yaml-cpp refuses. Only plain decimal numbers are
numbers here.
"""

from __future__ import annotations

import re

WHOLE_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
NUMBER = re.compile(r"[-+]?(?!0[0-9]+\Z)(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_MAX_DIGITS = 400
"""The largest double has 309."""


def parse_whole(text: str) -> int | None:
    """A decimal whole number; None if the text is not one, or has more than 400 digits."""
    return int(text) if len(text) <= _MAX_DIGITS and WHOLE_NUMBER.match(text) else None


def parse_decimal(text: str) -> float | None:
    """A decimal number, infinite if it is too large for a double; None if the text is not one."""
    return float(text) if NUMBER.match(text) else None
