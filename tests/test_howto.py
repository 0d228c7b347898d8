"""The commands of docs/howto.md and docs/custom-collectives.md, run in the order of the page, and the program of README.md."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from astra_tacos.cli.main import cli

ROOT = Path(__file__).parents[1]
PAGES = {"howto": 11, "custom-collectives": 3}
"""Pages of `docs`, and the fewest commands that each has."""
PROGRAM = "    astra-tacos "
QUICKER = {
    "plan": ("--synthesizer", "tacos", "--trials", "1"),
    "synthesize": ("--budget", "1M"),
    "report": ("--no-compare",),
    "compare": ("--trials", "1", "--max-sends", "5000"),
}
"""Options with which a search ends sooner, or is left out: `make demo` plans the same run, and reports on it, without them."""
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    lines = [line for line in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").splitlines() if line.startswith(PROGRAM)]
    assert len(lines) >= PAGES[page]
    with contextlib.chdir(tmp_path):
        for line in lines:
            arguments = shlex.split(line)[1:]
            is_figure = arguments[0] == "report" and arguments[-1].endswith((".svg", ".pdf", ".png"))
            done = CliRunner().invoke(cli, [*arguments, *(() if is_figure else QUICKER.get(arguments[0], ()))])
            assert done.exit_code == 0, (line, done.output, done.exception)


def test_custom_collectives_are_where_the_page_says(tmp_path: Path) -> None:
    """The traces that its second command writes have the name that the page gives the system file."""
    page = (ROOT / "docs" / "custom-collectives.md").read_text(encoding="utf-8")
    (export,) = (shlex.split(line)[1:] for line in page.splitlines() if line.startswith(f"{PROGRAM}export"))
    (prefix,) = re.findall(r'"all-reduce-implementation-custom": \["(.*)"\]', page)
    assert prefix == f"{export[-1]}/all_reduce" and len(page.split()) <= 400


def test_the_program_of_the_readme_runs(tmp_path: Path) -> None:
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (program,) = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    with contextlib.chdir(tmp_path):
        exec(compile(program, "README.md", "exec"), {})
    assert (tmp_path / "run" / "run_astra_sim.sh").is_file()
