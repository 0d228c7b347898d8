"""How many examples property tests make: the same few in each run, or more in `make test-thorough`; tables and refusals."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import pytest
from hypothesis import settings

from astra_tacos.support.errors import ConfigError

T = TypeVar("T")
TIMES = int(os.environ.get("ASTRA_TACOS_EXAMPLES", "1"))
"""By how much the numbers of examples are multiplied."""


def examples(count: int) -> settings:
    """That many examples, times `ASTRA_TACOS_EXAMPLES`."""
    return settings(max_examples=count * TIMES)


def some_of(cases: Sequence[T], count: int) -> list[T]:
    """That many of the cases, times `ASTRA_TACOS_EXAMPLES`, the same ones in each run; others come with `make test-thorough`."""
    return [cases[number] for number in sorted(Random(0).sample(range(len(cases)), min(count * TIMES, len(cases))))]


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
