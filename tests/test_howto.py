"""The commands of some pages, run in the order of the page, each of which prints one screen, and the program of README.md."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from astra_tacos.cli.main import cli
from astra_tacos.synthesizer import SYNTHESIZERS

ROOT = Path(__file__).parents[1]
PAGES = {"docs/howto": 11, "docs/custom-collectives": 3, "docs/calibrate": 3, "README": 3}
"""Pages, and the fewest commands that each has."""
ELSEWHERE = ("PREFIX", "splits", "CSV", "TIMES", "RUN_DIR")
"""In commands: files of a user, and a sweep that takes long."""
LINES, WIDTH = 14, 100
TABLES = ("plan", "compare", "calibrate")
"""Commands that also print a table, of more lines."""
PROGRAM = re.compile(r" {4,6}(astra-tacos .*)")
QUICKER = {
    "plan": ("--synthesizer", "tacos", "--trials", "1"),
    "synthesize": ("--budget", "1M"),
    "compare": ("--trials", "1", "--max-sends", "5000"),
}
"""Options with which a search ends sooner, or is left out: `make demo` plans the same run, and reports on it, without them."""
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
OWN_FILE = re.compile(r"# (\w+\.py)\n")
"""How a program of a page begins that the reader saves under this name."""


@pytest.fixture(autouse=True)
def _registry():
    before = dict(SYNTHESIZERS)
    yield
    SYNTHESIZERS.clear()
    SYNTHESIZERS.update(before)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_runs_and_prints_one_screen(page, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    for program in PYTHON.findall(text):
        if name := OWN_FILE.match(program):
            (tmp_path / name[1]).write_text(program, encoding="utf-8")
    lines = [found[1] for line in text.splitlines() if (found := PROGRAM.fullmatch(line))]
    lines = [line for line in lines if not any(word in line for word in ELSEWHERE)]
    assert len(lines) >= PAGES[page]
    with contextlib.chdir(tmp_path):
        for line in lines:
            arguments = shlex.split(line)[1:]
            quicker = ("--no-compare",) if arguments[0] == "report" and line.endswith(".html") else QUICKER.get(arguments[0], ())
            done = CliRunner().invoke(cli, [*arguments, *quicker])
            assert done.exit_code == 0, (line, done.output, done.exception)
            printed = done.output.splitlines()
            assert len(printed) <= LINES or arguments[0] in TABLES, (line, done.output)
            own = [word for word in arguments if "/" in word]  # a name is as long as its user wants
            assert all(len(row) <= WIDTH or any(name in row for name in own) for row in printed), (line, done.output)


def test_custom_collectives_are_where_the_page_says(tmp_path):
    """The traces that its second command writes have the name that the page gives the system file."""
    page = (ROOT / "docs" / "custom-collectives.md").read_text(encoding="utf-8")
    (export,) = (shlex.split(line)[1:] for line in page.splitlines() if line.startswith("    astra-tacos export"))
    (prefix,) = re.findall(r'"all-reduce-implementation-custom": \["(.*)"\]', page)
    assert prefix == f"{export[-1]}/all_reduce" and len(page.split()) <= 400


def test_the_program_of_the_readme_runs(tmp_path):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    programs = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    (program,) = (each for each in programs if not OWN_FILE.match(each))
    with contextlib.chdir(tmp_path):
        exec(compile(program, "README.md", "exec"), {})
    assert (tmp_path / "run" / "run_astra_sim.sh").is_file()
