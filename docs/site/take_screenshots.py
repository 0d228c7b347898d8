"""Takes the pictures of report.md by running its commands and opening the pages: python docs/site/take_screenshots.py

Needs Chromium (`ASTRA_TACOS_CHROMIUM`, or on PATH) and the packages of the extra `test`.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from draw_pictures import commands
from PIL import Image
from playwright.sync_api import sync_playwright

from astra_tacos.cli.main import cli

HERE = Path(__file__).parents[1]
FIGURES = {
    "synthesis": ("run", "topology", "links-over-time"),
    "plan": ("planned", "over-time", "timeline"),
    "sweep": ("split", "front-chart", "heat-chart"),
}
"""By picture: the page, and its figures that are seen, one above the other."""
WIDTH = 640
"""A page as narrow as this can be read where the picture is shrunk to a phone's width."""
PHONE = {"width": 390, "height": 844}
CHUNK = "77"


def take(page: Any, figures: Sequence[str]) -> Image.Image:
    """Figures of a page, one above the other."""
    page.wait_for_selector("html[data-ready]")
    if page.locator("#chunk input").count():
        page.locator("#chunk input").fill(CHUNK)
        page.locator("#chunk input").press("Enter")
    page.add_style_tag(content="nav.contents, .figure details { display: none }")
    page.wait_for_timeout(1000)
    shots = [Image.open(io.BytesIO(page.locator(f"#{name}").screenshot())).convert("RGB") for name in figures]
    stacked = Image.new("RGB", (max(shot.width for shot in shots), sum(shot.height for shot in shots)), "white")
    for number, shot in enumerate(shots):
        stacked.paste(shot, (0, sum(above.height for above in shots[:number])))
    return stacked


def main() -> None:
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = os.environ.get("ASTRA_TACOS_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "configs").symlink_to(HERE.parent / "configs")
        with contextlib.chdir(folder):
            for arguments in commands(HERE / "report.md"):
                if "DIR" not in arguments:
                    CliRunner().invoke(cli, arguments, catch_exceptions=False)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        for picture, (report, *figures) in FIGURES.items():
            page = chromium.new_page(viewport={"width": WIDTH, "height": 900}, device_scale_factor=2)
            page.goto((folder / f"{report}.html").as_uri())
            take(page, figures).save(HERE / "images" / f"report_{picture}.png", optimize=True)
        page = chromium.new_page(viewport=PHONE, device_scale_factor=2, is_mobile=True)
        page.goto((folder / "planned.html").as_uri())
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(1000)
        page.screenshot(path=HERE / "images" / "report_phone.png")
        chromium.close()


if __name__ == "__main__":
    main()
