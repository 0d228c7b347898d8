"""The script that starts ASTRA-sim: any shell runs it, and no name in it is a command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest
from helpers.networks import topology
from helpers.schedules import schedule
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_tacos.export.run_directory import SCRIPT, write_run_directory, write_run_script
from astra_tacos.run.backend import BACKENDS, CONGESTION_AWARE
from astra_tacos.support.errors import ConfigError

SHELLS = [path for name in ("sh", "bash", "dash") if (path := shutil.which(name))]
HOSTILE = 'it\'s; $(touch injected) `touch injected` "${HOME}" \\\\ * ! #'
WORKLOADS = ["workload/all_reduce", f"workload/{HOSTILE}"]


def fake_binary(folder):
    """Prints where it was started, and with what."""
    path = folder / "fake sim"
    path.write_text('#!/bin/sh\npwd\nprintf "%s\\\\n" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("backend", BACKENDS.values(), ids=str)
def test_any_shell_runs_it(tmp_path, shell, workload, backend):
    folder = tmp_path / "a run's folder"
    folder.mkdir()
    write_run_script(folder, workload, backend, "Runs", f"note\ntouch injected\r\x1b[2J {HOSTILE}", has_groups=True)
    script = folder / SCRIPT
    assert subprocess.run([shell, "-n", script], capture_output=True, check=True).stderr == b""
    assert all(line.isprintable() for line in script.read_text(encoding="utf-8").split("\n"))
    unset = subprocess.run([shell, script], cwd=tmp_path, env={}, capture_output=True, text=True)
    assert unset.returncode != 0 and backend.binary in unset.stderr and len(unset.stderr.splitlines()) == 1
    environment = {"ASTRA_SIM_BIN": str(fake_binary(tmp_path)), "PATH": "/usr/bin:/bin", "CDPATH": "/"}
    for command in ([shell, script], [shell, script.relative_to(tmp_path)]):
        done = subprocess.run([*command, "--more"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        assert lines[:2] == [str(folder), f"--workload-configuration={workload}"] and lines[-1] == "--more"
    assert not list(tmp_path.rglob("injected"))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(note=st.text(max_size=40))
def test_a_note_stays_a_comment(tmp_path, note):
    write_run_script(tmp_path, "workload/x", CONGESTION_AWARE, "Runs", "x")
    plain = (tmp_path / SCRIPT).read_text().splitlines()
    write_run_script(tmp_path, "workload/x", CONGESTION_AWARE, "Runs", f"x{note}")
    noted = (tmp_path / SCRIPT).read_text(encoding="utf-8").split("\n")
    assert [line for line in noted[:-1] if not line.startswith("# x")] == [line for line in plain if line != "# x"]
    assert subprocess.run(["sh", "-n", tmp_path / SCRIPT], capture_output=True, check=True).stderr == b""


def test_a_networks_name_is_no_command(tmp_path):
    """The note of a stand-in names the network, which may be called anything."""
    of = schedule(replace(topology("torus"), name="net\ntouch injected\n#"))
    run = write_run_directory(of, tmp_path / "run")
    assert "touch injected" in run.network.note
    subprocess.run(
        ["sh", run.path / SCRIPT], cwd=tmp_path, env={"ASTRA_SIM_BIN": "/bin/true", "PATH": "/usr/bin:/bin"}, check=True
    )
    assert not list(tmp_path.rglob("injected"))


def test_a_workload_with_control_characters_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"'workload/a\\nb': found a name with control characters"):
        write_run_script(tmp_path, "workload/a\nb", CONGESTION_AWARE, "Runs")
    assert not list(tmp_path.iterdir())
