"""Report pages in a real browser: headless Chromium, in which a page may neither complain nor ask for anything."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LOCAL = ("file:", "data:", "blob:", "about:")
DESKTOP, PHONE = (1280, 900), (390, 844)
MOST_MS = 300_000
"""How long a page may take on a busy machine."""


def chromium() -> str:
    """Where the browser is; without one the test is skipped, and says what to install."""
    given = os.environ.get("ASTRA_TACOS_CHROMIUM")
    path = given or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None or not Path(path).exists():
        where = f"{given} (ASTRA_TACOS_CHROMIUM) is not there" if given else f"none of {', '.join(NAMES)} is on PATH"
        pytest.skip(
            f"no browser: {where}: install Chromium (Debian, Ubuntu: apt-get install chromium), or set ASTRA_TACOS_CHROMIUM"
        )
    return path


class Browser:
    """Headless Chromium, and pages that tests use one after another: a new one costs four times what a new file in it does."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium
        self._idle: dict[bool, list[Any]] = {False: [], True: []}

    def new_context(self, *, touch: bool = False) -> Any:
        """A profile of its own."""
        width, height = PHONE if touch else DESKTOP
        context = self._chromium.new_context(viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch)
        context.set_default_timeout(MOST_MS)
        return context

    def lend(self, touch: bool) -> Any:
        """An empty page that nobody uses."""
        return self._idle[touch].pop() if self._idle[touch] else self.new_context(touch=touch).new_page()

    def give_back(self, page: Any, touch: bool) -> None:
        """Keep a page for the next one."""
        self._idle[touch].append(page)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install 'astra-tacos[test]'")
    path = chromium()
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield Browser(running)
        finally:
            running.close()


@contextlib.contextmanager
def opened(running: Browser, path: Path, size: tuple[int, int] = DESKTOP, *, touch: bool = False) -> Iterator[Any]:
    """A page of a file, once it is drawn; at the end it has neither reported an error nor asked for anything."""
    page = running.lend(touch)
    complaints: list[str] = []
    listeners: dict[str, Callable[[Any], Any]] = {
        "console": lambda said: said.type in ("error", "warning") and complaints.append(f"{said.type}: {said.text}"),
        "pageerror": lambda error: complaints.append(f"error: {error}"),
        "request": lambda request: request.url.startswith(LOCAL) or complaints.append(f"request: {request.url}"),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    is_clean = False
    try:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.goto(path.resolve().as_uri())
        try:
            page.wait_for_selector("html[data-ready]", timeout=MOST_MS)
        except Exception:
            notice = page.locator("#at-notice")
            complaints.append(f"not drawn: {notice.inner_text() if notice.count() else 'no notice'}")
            raise AssertionError(complaints) from None
        yield page
        page.emulate_media(media="null")
        page.mouse.move(0, 0)
        page.goto("about:blank")
        assert not complaints, complaints
        is_clean = True
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        if is_clean:
            running.give_back(page, touch)
        else:
            page.context.close()


def saved(page: Any, button: Any) -> bytes:
    """What the browser saves when a button is pressed."""
    with page.expect_download() as download:
        button.click()
    return Path(download.value.path()).read_bytes()


def saved_rows(page: Any, element: str) -> list[list[str]]:
    """The rows that the CSV button of an element saves."""
    content = saved(page, page.locator(f"{element} [data-save=CSV]"))
    return list(csv.reader(io.StringIO(content.decode())))


def frames(page: Any) -> None:
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
