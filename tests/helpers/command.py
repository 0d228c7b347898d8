"""The command line: inside the test's own process, which starts nothing, and in a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from astra_tacos.cli.main import main

PROGRAM = (sys.executable, "-c", "from astra_tacos.cli.main import main; main()")


def run(command: str, *more: str, cwd: Path = Path(), **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process of `astra-tacos` would leave: exit code and both streams. The command is a line, and more words follow.

    The test process has loaded modules and kernels before, which costs a new process more than most commands take.
    """
    printed, errors, arguments = io.StringIO(), io.StringIO(), [*shlex.split(command), *more]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name, value in environment.items():
            patch.setenv(name, value)
        # What other tests left open is no part of what a command prints.
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            warnings.simplefilter("ignore", ResourceWarning)
            with pytest.raises(SystemExit) as left:
                main(arguments)
    return subprocess.CompletedProcess(arguments, int(left.value.code or 0), printed.getvalue(), errors.getvalue())


def answer(command: str, cwd: Path = Path(), status: int = 0, **environment: str) -> Any:
    """What such a command says as JSON."""
    left = run(f"{command} --json", cwd=cwd, **environment)
    assert left.returncode == status, left.stderr
    return json.loads(left.stdout)


def invoke(command: str, cwd: Path = Path()) -> tuple[int, str, str]:
    """Exit code, output and errors of such a command."""
    left = run(command, cwd=cwd)
    return left.returncode, left.stdout, left.stderr


def run_process(command: str, *more: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same, in a process."""
    arguments = [*PROGRAM, *shlex.split(command), *more]
    return subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | environment)


def options_of(files: dict[str, Path]) -> str:
    """Files of a run as options."""
    names = {"groups": "comm-group", "remote_memory": "remote-memory"}
    return " ".join(f"--{names.get(name, name)} {file}" for name, file in files.items())


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
