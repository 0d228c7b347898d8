"""One browser for the pages of all reports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.browser import Browser, browser


@pytest.fixture(scope="session")
def running() -> Iterator[Browser]:
    with browser() as started:
        yield started
