"""Numbers as text, where they mean the same to ASTRA-sim as here.

ASTRA-sim reads numbers by yaml-cpp: `010` is 8 where it wants a whole number and 10 where it wants another one, `0x10` only
the former. Only plain decimal numbers are numbers here.
"""

from __future__ import annotations

import math
import re
from typing import TypeGuard

WHOLE_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
NUMBER = re.compile(r"[-+]?(?!0[0-9]+\Z)(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_MAX_DIGITS = 400
"""The largest double has 309."""


def parse_whole(text: str) -> int | None:
    """A decimal whole number; None if the text is not one, or has more than 400 digits."""
    return int(text) if len(text) <= _MAX_DIGITS and WHOLE_NUMBER.match(text) else None


def short_number(text: str) -> int:
    """The whole number of up to nine digits that a text is; -1 if it is something else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


def parse_decimal(text: str) -> float | None:
    """A decimal number, infinite if it is too large for a double; None if the text is not one."""
    return float(text) if NUMBER.match(text) else None


def finite_number(value: object) -> float | None:
    """A finite number of a document, also one in quotes, which yaml-cpp does not tell from others; None for other values."""
    number = parse_decimal(str(value))
    return None if number is None or math.isinf(number) else number


def is_whole(value: object, least: int, most: float) -> TypeGuard[int]:
    """Whether a value of a document is a whole number within bounds; true and false are no numbers."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object, least: float, most: float) -> TypeGuard[float]:
    """As `is_whole`, also for fractions."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
