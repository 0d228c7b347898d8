"""The command of `lint --fix` on the page about `lint` does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.command import run
from helpers.lint_runs import RunFiles

DOCS = Path(__file__).parents[3] / "docs/lint.md"


def test_the_command_of_the_page_does_what_the_page_says(tmp_path):
    """With every file given and with none: DIR has what the page lists, `lint` finds no errors, and the inputs are as before."""
    page = DOCS.read_text(encoding="utf-8")
    run_files = RunFiles("coll 1 group=7; comp 2 [9] | coll 1 group=7; comp 2 [1]", groups={})
    given = run_files.write(tmp_path / "in")
    before = {path: path.read_bytes() for path in (tmp_path / "in").rglob("*") if path.is_file()}
    command = (
        next(part for part in page.split("\n\n") if "lint --fix --workload" in part).replace("\n", " ").split("astra-tacos")[1]
    )
    options = [word.strip("[]") for word in command.split() if word.strip("[]").startswith("--")]
    options_of = {"groups": "comm-group", "remote_memory": "remote-memory"}
    files = {f"--{options_of.get(name, name)}": str(path) for name, path in given.items() if name != "directory"}
    assert set(files) <= set(options)
    listed = next(line for line in page.splitlines() if line.startswith("- DIR becomes"))
    listed += page.split(listed)[1].split("\n- ")[0]
    names = {name.rstrip("/") for name in re.findall(r"`([\w.]+/?)`", listed)}
    for number, taken in enumerate((files, {"--workload": files["--workload"]})):
        output = tmp_path / f"out{number}"
        done = run("lint --fix", *(word for pair in taken.items() for word in pair), "--output", str(output), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert names == {path.name for path in output.iterdir()}
        linted = {"workload": "workload/w", "system": "system.json", "network": "network.yml", "comm-group": "comm_group.json"}
        words = [word for option, file in linted.items() for word in (f"--{option}", str(output / file))]
        assert run("lint", *words, cwd=tmp_path).returncode == 0
    assert before == {path: path.read_bytes() for path in before}
