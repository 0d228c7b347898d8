"""The script that starts ASTRA-sim: any shell runs it, and no name in it is a command."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from dataclasses import replace

import pytest
from helpers.networks import topology
from helpers.schedules import schedule
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astra_tacos.export.run_directory import SCRIPT, write_run_directory, write_run_script
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.run.backend import binaries_for
from astra_tacos.support.errors import ConfigError

SHELLS = [path for name in ("sh", "bash", "dash") if (path := shutil.which(name))]
HOSTILE = 'it\'s; $(touch injected) `touch injected` "${HOME}" \\\\ * ! #'
WORKLOADS = ["workload/all_reduce", f"workload/{HOSTILE}"]


def network_of(*sizes):
    return NetworkConfig("network.yml", tuple(Dimension("Ring", size, 50.0, 500.0) for size in sizes))


RING, TORUS, SMALL = network_of(4), network_of(4, 4), network_of(2)


def fake_binary(folder, name="fake sim", says=""):
    """Prints where it was started, and with what."""
    path = folder / name
    path.write_text(f'#!/bin/sh\n# {says}\npwd\nprintf "%s\\\\n" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("network", [RING, TORUS], ids=["ring", "torus"])
def test_any_shell_runs_it(tmp_path, shell, workload, network):
    folder = tmp_path / "a run's folder"
    folder.mkdir()
    write_run_script(folder, workload, network, "Runs", f"note\ntouch injected\r\x1b[2J {HOSTILE}", has_groups=True)
    script = folder / SCRIPT
    assert subprocess.run([shell, "-n", script], capture_output=True, check=True).stderr == b""
    assert all(line.isprintable() for line in script.read_text(encoding="utf-8").split("\n"))
    unset = subprocess.run([shell, script], cwd=tmp_path, env={}, capture_output=True, text=True)
    assert unset.returncode != 0 and "a program that this script names" in unset.stderr and len(unset.stderr.splitlines()) == 1
    environment = {"ASTRA_SIM_BIN": str(fake_binary(tmp_path)), "PATH": "/usr/bin:/bin", "CDPATH": "/"}
    for command in ([shell, script], [shell, script.relative_to(tmp_path)]):
        done = subprocess.run([*command, "--more"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        assert lines[:2] == [str(folder), f"--workload-configuration={workload}"] and lines[-1] == "--more"
    assert not list(tmp_path.rglob("injected"))


@pytest.mark.parametrize(
    ("network", "name", "says", "reason"),
    [
        (
            TORUS,
            "AstraSim_Analytical_Congestion_Aware",
            "only support 1-dim topology",
            "queues in one dimension, network.yml has 2",
        ),
        (SMALL, "AstraSim_Analytical_Congestion_Aware", "", "its congestion-aware model aborts on a Ring of 2"),
        (RING, "AstraSimNetwork-Default", "", "a directory made with --backend packet"),
        (TORUS, "AstraSim_Analytical_Congestion_Aware", "a branch", None),
        (RING, "AstraSim_Analytical_Congestion_Aware", "only support 1-dim topology", None),
        (SMALL, "AstraSim_Analytical_Congestion_Unaware", "", None),
        (TORUS, "AstraSim_Analytical_Congestion_Unaware", "", None),
    ],
)
def test_programs_that_cannot_run_the_network_are_refused(tmp_path, network, name, says, reason):
    write_run_script(tmp_path, "workload/x", network, "Runs")
    binary = fake_binary(tmp_path, name, says)
    for program, path in ((str(binary), "/usr/bin:/bin"), (name, f"{tmp_path}:/usr/bin:/bin")):
        environment = {"ASTRA_SIM_BIN": program, "PATH": path}
        done = subprocess.run(["sh", tmp_path / SCRIPT], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == (0 if reason is None else 2), done.stderr
        assert (reason or "") in done.stderr and len(done.stderr.splitlines()) == (reason is not None)


def test_the_script_names_each_program_and_what_it_prints(tmp_path):
    stock, branch = binaries_for(TORUS)
    write_run_script(tmp_path, "workload/x", TORUS, "Runs", prints={stock: 1234, branch: 5678})
    text = (tmp_path / SCRIPT).read_text()
    assert "_Unaware (stock ASTRA-sim; messages do not queue) prints 1,234 ns" in text
    assert "messages queue) prints 5,678 ns" in text
    write_run_script(tmp_path, "workload/x", replace(TORUS, failed_links=((0, 1),)), "Runs")
    assert "none: no version of ASTRA-sim has this network" in (tmp_path / SCRIPT).read_text()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(note=st.text(max_size=40))
def test_a_note_stays_a_comment(tmp_path, note):
    write_run_script(tmp_path, "workload/x", RING, "Runs", "x")
    plain = (tmp_path / SCRIPT).read_text().splitlines()
    write_run_script(tmp_path, "workload/x", RING, "Runs", f"x{note}")
    noted = (tmp_path / SCRIPT).read_text(encoding="utf-8").split("\n")
    assert [line for line in noted[:-1] if not line.startswith("# x")] == [line for line in plain if line != "# x"]
    assert subprocess.run(["sh", "-n", tmp_path / SCRIPT], capture_output=True, check=True).stderr == b""


@pytest.mark.parametrize("shell", SHELLS)
def test_lines_of_ranks_are_printed_at_once(tmp_path, shell):
    """ASTRA-sim prints in a second thread, which an abort stops, unless a logging configuration has a logger of that name."""
    folder = tmp_path / "run"
    folder.mkdir()
    write_run_script(folder, "workload/x", RING, "Runs")
    program = tmp_path / "reads its logging configuration"
    program.write_text('#!/bin/sh\nfor each; do case $each in --logging-configuration=*) cat "${each#*=}" ;; esac; done\n')
    program.chmod(0o755)
    environment = {"ASTRA_SIM_BIN": str(program), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([shell, folder / SCRIPT], env=environment, capture_output=True, text=True, check=True)
    configuration = tomllib.loads(done.stdout)
    (logger,) = (each for each in configuration["logger"] if each["name"] == "workload")
    assert logger["level"] == "info" and logger.get("type", "sync") == "sync"
    assert set(logger["sinks"]) <= {sink["name"] for sink in configuration["sink"]}


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
        write_run_script(tmp_path, "workload/a\nb", RING, "Runs")
    assert not list(tmp_path.iterdir())
