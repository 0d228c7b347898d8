"""Takes the pictures of report.md by running its commands and opening the pages: python docs/site/take_screenshots.py

Needs Chromium (`ASTRA_TACOS_CHROMIUM`, or on PATH) and the packages of the extra `test`.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from draw_pictures import commands
from PIL import Image
from playwright.sync_api import sync_playwright

from astra_tacos.cli.main import cli

HERE = Path(__file__).parents[1]
SECTIONS = {
    "synthesis": ("run", "network", "timeline"),
    "plan": ("planned", "summary", "ranks"),
    "sweep": ("split", "front", "heatmap"),
}
"""By picture: the page, and the first and the last section that is seen."""
WIDTH, MOST_HEIGHT = 1160, 1550
PHONE = {"width": 390, "height": 844}
CHUNK = "77"


def take(page: Any, first: str, last: str) -> Image.Image:
    """From the top of one section to the end of another."""
    page.wait_for_selector("html[data-ready]")
    if first == "network":
        page.locator("#chunk input").fill(CHUNK)
        page.locator("#chunk input").press("Enter")
    page.add_style_tag(content="nav.contents { display: none }")
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(1000)
    boxes = [page.locator(f"section#{name}").bounding_box() for name in (first, last)]
    top, end = boxes[0]["y"], boxes[1]["y"] + boxes[1]["height"]
    clip = {"x": 0, "y": top, "width": WIDTH, "height": min(end - top, MOST_HEIGHT)}
    return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))


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
        for picture, (report, first, last) in SECTIONS.items():
            page = chromium.new_page(viewport={"width": WIDTH, "height": 900})
            page.goto((folder / f"{report}.html").as_uri())
            shot = take(page, first, last).convert("RGB")
            shot.save(HERE / "images" / f"report_{picture}.png", optimize=True)
        page = chromium.new_page(viewport=PHONE, device_scale_factor=2, is_mobile=True)
        page.goto((folder / "planned.html").as_uri())
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(1000)
        page.screenshot(path=HERE / "images" / "report_phone.png")
        chromium.close()


if __name__ == "__main__":
    main()
