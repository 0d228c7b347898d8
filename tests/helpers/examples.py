"""How many examples property tests make: the same few in each run, or more in `make test-thorough`; tables and refusals."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings

from astra_tacos.support.errors import ConfigError

TIMES = int(os.environ.get("ASTRA_TACOS_EXAMPLES", "1"))
"""By how much the numbers of examples are multiplied."""


def examples(count: int) -> settings:
    """That many examples, times `ASTRA_TACOS_EXAMPLES`."""
    return settings(max_examples=count * TIMES)


def rows(text: str) -> list[list[str]]:
    """A table for `parametrize`: a line for each row, with `|` between its cells."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


@contextmanager
def refused(message: str, error: type[Exception] = ConfigError) -> Iterator[None]:
    """What is done here is refused in one line, which has this text, or matches it."""
    with pytest.raises(error) as caught:
        yield
    said = str(caught.value)
    assert (message in said or re.search(message, said)) and "\n" not in said, said
