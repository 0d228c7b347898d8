"""The command line: inside the test's own process, which starts nothing, and in a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from astra_tacos.cli.main import main

PROGRAM = (sys.executable, "-c", "from astra_tacos.cli.main import main; main()")


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process of `astra-tacos` would leave: exit code and both streams. A single argument has all words of the command.

    The test process has loaded modules and kernels before, which costs a new process more than most commands take.
    """
    printed, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name, value in environment.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as left:
            main(shlex.split(*arguments) if len(arguments) == 1 else list(arguments))
    return subprocess.CompletedProcess(arguments, int(left.value.code or 0), printed.getvalue(), errors.getvalue())


def run_process(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same, in a process."""
    command = [*PROGRAM, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | environment)
