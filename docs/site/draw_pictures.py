"""Draws the pictures of report.md and fabrics/ by running their commands: python docs/site/draw_pictures.py"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
from pathlib import Path

from click.testing import CliRunner

from astra_tacos.cli.main import cli

HERE = Path(__file__).parents[1]
PAGES = (HERE / "report.md", *sorted((HERE / "fabrics").glob("*.md")))
PROGRAM = "    astra-tacos "


def commands(page: Path) -> list[list[str]]:
    """Arguments of the commands on a page, in order."""
    return [shlex.split(line)[1:] for line in page.read_text().splitlines() if line.startswith(PROGRAM)]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "configs").symlink_to(HERE.parent / "configs")
        with contextlib.chdir(folder):
            for arguments in (arguments for page in PAGES for arguments in commands(page)):
                CliRunner().invoke(cli, arguments, catch_exceptions=False)
        for picture in sorted(folder.glob("*.svg")):
            shutil.copy(picture, HERE / "images" / picture.name)


if __name__ == "__main__":
    main()
