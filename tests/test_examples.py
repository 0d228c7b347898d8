"""The programs of examples/ run, print something, and leave nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_runs(name, tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())


def test_the_list_has_every_program():
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in PROGRAMS)
