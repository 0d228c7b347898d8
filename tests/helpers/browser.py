"""Report pages in a real browser: headless Chromium, in which a page may neither complain nor ask for anything."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
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


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install 'astra-tacos[test]'")
    path = chromium()
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield running
        finally:
            running.close()


@contextlib.contextmanager
def opened(running: Any, path: Path, size: tuple[int, int] = DESKTOP, *, touch: bool = False) -> Iterator[Any]:
    """A page of a file, once it is drawn; at the end it has neither reported an error nor asked for anything."""
    context = running.new_context(
        viewport={"width": size[0], "height": size[1]}, has_touch=touch, is_mobile=touch, accept_downloads=True
    )
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda message: message.type in ("error", "warning") and complaints.append(f"{message.type}: {message.text}")
    )
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", lambda request: request.url.startswith(LOCAL) or complaints.append(f"request: {request.url}"))
    try:
        page.goto(path.resolve().as_uri())
        try:
            page.wait_for_selector("html[data-ready]", timeout=300_000)
        except Exception:
            notice = page.locator("#at-notice")
            complaints.append(f"not drawn: {notice.inner_text() if notice.count() else 'no notice'}")
            raise AssertionError(complaints) from None
        yield page
        assert not complaints, complaints
    finally:
        context.close()


def saved(page: Any, button: Any) -> bytes:
    """What the browser saves when a button is pressed."""
    with page.expect_download() as download:
        button.click()
    return Path(download.value.path()).read_bytes()
