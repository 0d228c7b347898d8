"""How many examples property tests make: the same few in each run, or others and many more in `make test-thorough`."""

from __future__ import annotations

import os

from hypothesis import settings

TIMES = int(os.environ.get("ASTRA_TACOS_EXAMPLES", "1"))
"""By how much the numbers of examples are multiplied."""


def examples(count: int) -> settings:
    """That many examples, times `ASTRA_TACOS_EXAMPLES`."""
    return settings(max_examples=count * TIMES)


def rows(text: str) -> list[list[str]]:
    """A table for `parametrize`: a line for each row, with `|` between its cells."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]
