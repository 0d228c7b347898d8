"""`astra-tacos sweep`: rows, table and summary; killed, interrupted and started again."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from helpers.command import PROGRAM
from helpers.sweeps import nothing_left_behind, point_processes, wait_for

from astra_tacos.cli.main import cli
from astra_tacos.cli.shared.console import describe
from astra_tacos.study.sweep import run_sweep
from astra_tacos.study.sweep.run_sweep import Progress
from astra_tacos.study.sweep.table import read_sweep, write_table
from astra_tacos.support.errors import ConfigError

_POINT = """
point:
  network: {topology: [Ring, Switch], npus_count: [4, 2], bandwidth: [50, "= up"], latency: [500, 500]}
  collective: all-reduce
  trials: 1
  chunks_per_npu: 1
  size: 1MiB
"""
SMALL = f"name: small{_POINT}axes: [{{grid: {{up: [25, 50], synthesizer: [tacos, ring]}}}}]\n"
MANY = f"{_POINT}axes: [{{grid: {{up: [25], synthesizer: [tacos], seed: {{from: 0, to: 49, step: 1}}}}}}]\n"
MANY += 'define: {npus: "4 * 2"}\n'


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.yml").write_text(SMALL)
    Path("many.yml").write_text(MANY)
    with nothing_left_behind():
        yield


def sweep(words):
    return CliRunner().invoke(cli, f"sweep {words}")


@contextmanager
def started(words):
    """The command in a process of its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [*PROGRAM, "sweep", *words.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def row_files(folder):
    """By name, which file it is and when it was written."""
    files = {path.name: path.stat() for path in Path(folder, "rows").glob("*/*.json")}
    return {name: (about.st_ino, about.st_mtime_ns) for name, about in files.items()}


def content(folder):
    columns = read_sweep(Path(folder)).columns
    return {name: values for name, values in columns.items() if name not in ("seconds", "synthesis_seconds")}


def test_a_sweep_becomes_a_table_and_a_summary():
    done = sweep("small.yml --output out --workers 2 --cache cache")
    assert done.exit_code == 0, done.output
    for text in ("points 4 4 ok", "0 results reused", "out/sweep.parquet", "shortest times", "time_ns"):
        assert text in " ".join(done.output.split())
    table = read_sweep(Path("out"))
    assert (table.name, table.axes) == ("small", ("up", "synthesizer"))
    assert table.columns["point"] == [0, 1, 2, 3]
    assert table.columns["up"] == [25, 25, 50, 50]
    assert table.columns["made_by"] == ["tacos", "ring"] * 2
    assert table.columns["verified"] == [True] * 4
    assert Path("out/sweep.yml").read_text() == SMALL
    assert len(list(Path("cache").rglob("*.npz"))) == 4

    before = row_files("out")
    again = sweep("small.yml --output out --json")
    result = json.loads(again.stdout)
    assert {name: result[name] for name in ("points", "statuses", "reused", "interrupted", "errors")} == {
        "points": 4,
        "statuses": {"ok": 4},
        "reused": 4,
        "interrupted": False,
        "errors": [],
    }
    assert row_files("out") == before
    dry = sweep("small.yml --output out --dry-run").output
    assert "time none everything is computed points 4 results 4 distinct, 4 of them already computed" in " ".join(dry.split())
    assert result["best_time"][0]["time_ns"] == min(table.columns["time_ns"])


def test_failures_are_rows_and_told():
    Path("bad.yml").write_text(SMALL.replace("size: 1MiB", "size: '= 4 + (up - 25) * 1000'"))
    done = sweep("bad.yml --output out --workers 1")
    assert done.exit_code == 0, done.output
    assert "points 4 2 ok, 2 error" in " ".join(done.output.split())
    assert "2 x error: all-reduce: 4 bytes in 8 chunks, expected at least one byte per chunk" in done.output
    assert read_sweep(Path("out")).columns["status"] == ["error", "error", "ok", "ok"]
    before = row_files("out")
    assert "4 results reused" in sweep("bad.yml --output out").output
    assert "2 results reused" in sweep("bad.yml --output out --retry-failed --workers 1").output
    assert len(before.items() - row_files("out").items()) == 2


@pytest.mark.parametrize(("change", "what"), [("size: 4", "failed: all-reduce: 4 "), ("collective: broadcast", "was refused: ")])
def test_what_is_wrong_with_every_point_is_told_once(change, what):
    key = change.split(":")[0]
    lines = [change.rjust(len(change) + 2) if line.strip().startswith(f"{key}:") else line for line in SMALL.splitlines()]
    Path("bad.yml").write_text("\n".join(lines).replace("[tacos, ring]", "[themis]"))
    done = sweep("bad.yml --output out --workers 1")
    assert done.exit_code == 0, done.output
    assert done.output.count("every point ") == 1
    assert f"\nevery point {what}" in done.output


def test_a_dry_run_writes_nothing():
    done = sweep("many.yml --output out --dry-run --workers 2 --json")
    result = json.loads(done.stdout)
    assert (result["points"], result["results"], result["reused"], result["workers"]) == (50, 50, 0, 2)
    assert result["seconds"] is None  # no point is done by which to tell
    assert not Path("out").exists()


def test_a_killed_sweep_goes_on_where_it_was():
    whole = sweep("many.yml --output whole --workers 1")
    assert whole.exit_code == 0, whole.output
    chance = random.Random(20261121)
    kept: dict[str, tuple[int, int]] = {}
    for _ in range(2):
        with started("many.yml --output out --workers 2") as process:
            target = len(kept) + chance.randrange(1, 14)
            wait_for(lambda target=target: len(row_files("out")) >= target, f"{target} rows")
            children = point_processes(process.pid)
            process.kill()
            process.wait()
        psutil.wait_procs(children, timeout=300)
        assert not any(child.is_running() for child in children)
        found = row_files("out")
        assert kept.items() <= found.items()  # nothing was written again
        assert len(kept) < len(found) < 50
        kept = found
    done = sweep("many.yml --output out --workers 1 --json")
    assert json.loads(done.stdout)["reused"] == len(kept)
    assert kept.items() <= row_files("out").items()
    assert content("out") == content("whole")
    assert not [path for path in Path("out").rglob("*") if path.suffix == ".tmp"]


def test_nothing_listens_beyond_this_machine_and_nothing_is_left_in_its_scratch(tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    with started("many.yml --output out --workers 2") as process:
        wait_for(lambda: len(row_files("out")) >= 5, "5 rows")
        everybody = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert len(everybody) == 4  # two that compute, and multiprocessing's tracker of resources
        sockets = [one for each in everybody for one in each.net_connections("inet")]
        listening = [one.laddr.ip for one in sockets if one.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)]
        assert set(listening) <= {"127.0.0.1"}
        assert list((tmp_path / "scratch").iterdir())
        process.communicate(timeout=300)
    assert process.returncode == 0
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize("protocol", ["tcp", "ws"])
def test_an_address_without_a_scheduler_leaves_nothing(monkeypatch, protocol):
    """Somebody else listens there, and says nothing of use."""
    lost: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lost.append)
    monkeypatch.setattr(run_sweep, "CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = sweep(f"small.yml --output out --dask {protocol}://127.0.0.1:{other.getsockname()[1]}")
    assert isinstance(done.exception, ConfigError)
    assert "no Dask scheduler (" in str(done.exception) and "\n" not in str(done.exception)
    assert not Path("out").exists()
    gc.collect()
    assert not lost


@pytest.mark.parametrize(("cause", "workers"), [(signal.SIGINT, "2"), (signal.SIGTERM, "1")])
def test_an_interrupted_sweep_keeps_what_is_done(cause, workers):
    with started(f"many.yml --output out --workers {workers}") as process:
        wait_for(lambda: len(row_files("out")) >= 5, "5 rows")
        children = point_processes(process.pid)
        process.send_signal(cause)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + cause
    told = errors.strip().splitlines()  # on a busy machine also how far it was
    assert told[-1] == "interrupted: finished points are kept, and the same command resumes the sweep"
    assert all(" points done, " in line for line in told[:-1])
    assert f"points  {len(row_files('out'))} of 50  " in output
    assert len(content("out")["point"]) == len(row_files("out"))
    psutil.wait_procs(children, timeout=300)
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("cause", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_last_point_waits_for_the_summary(cause, monkeypatch):
    def write(*arguments):
        os.kill(os.getpid(), cause)
        write_table(*arguments)

    monkeypatch.setattr("astra_tacos.study.sweep.table.write_table", write)
    done = sweep("small.yml --output out --workers 1")
    assert done.exit_code == 128 + cause
    assert "points 4 4 ok" in " ".join(done.output.split()) and "shortest times" in done.output
    assert done.stderr.strip() == "interrupted: finished points are kept, and the same command resumes the sweep"
    assert content("out")["status"] == ["ok"] * 4


def test_limits_are_kept_and_lifted():
    large = SMALL.replace("npus_count: [4, 2]", "npus_count: [128, 2]").replace(
        "chunks_per_npu: 1", "chunks_per_npu: 200\n  link_model: blocking"
    )
    Path("large.yml").write_text(large.replace("[tacos, ring]", "[tacos]").replace("up: [25, 50]", "up: [25]"))
    assert "1 timeout" in sweep("large.yml --output out --workers 1 --timeout 0.2").output
    first = row_files("out")
    assert "1 timeout" in sweep("large.yml --output out --workers 1 --timeout 0.1").output
    assert row_files("out") == first
    assert "1 timeout" in sweep("large.yml --output out --workers 1 --timeout 0.3").output
    assert row_files("out") != first
    assert read_sweep(Path("out")).columns["error"] == ["took longer than 0.3 s"]


def test_what_is_wrong_ends_in_a_line(monkeypatch):
    monkeypatch.setattr(run_sweep, "CONNECT_S", 0.5)
    Path("thesis").mkdir()
    Path("thesis/chapter1.tex").touch()
    cases = {
        "none.yml --output out": "none.yml",
        "small.yml --output thesis": "thesis: exists and is not a sweep of astra_tacos",
        "small.yml --output out --memory 100MiB": "100 MiB is too little, expected 256 MiB or more",
        "small.yml --output small.yml": "small.yml: exists and is not a directory",
        "small.yml --output out --dask tcp://127.0.0.1:9": "tcp://127.0.0.1:9: no Dask scheduler",
        "small.yml --output out --timeout nan": "timeout: found nan, expected a number of seconds above 0",
        "small.yml --output out --dask tcp://127.0.0.1:9 --workers 2": "has workers of its own",
    }
    for arguments, message in cases.items():
        done = sweep(arguments)
        assert done.exit_code != 0
        assert message in (done.output + str(done.exception)), arguments


def test_progress_says_how_long_it_will_take():
    assert describe(Progress(0, 0, 0, 10, 0), 1.0) == "waiting for workers"
    assert describe(Progress(4, 4, 1, 10, 2), 1.0) == "1 failed"
    assert describe(Progress(24, 4, 1, 64, 2), 10.0) == "2.0/s, 0:00:20 left, 1 failed"
    assert describe(Progress(5, 4, 0, 6, 2), 90.0) == "0.7/min, 0:01:30 left, 0 failed"
