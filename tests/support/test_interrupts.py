"""Signals: whatever the main thread does, the process ends soon, with the exit code of the signal, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest
from helpers.sweeps import wait_for

CHILD = """
import ctypes, hashlib, sys, threading, types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import click
from astra_tacos.cli import main as room
from astra_tacos.support.files import replaced_directory, replaced_file
from astra_tacos.support.temporaries import scratch_directory

def work(seconds=60):
    \"\"\"In C, without the interpreter's lock, as kernels do.\"\"\"
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000 * seconds)

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(one, other):
    for _ in range(20_000):  # the handler runs in here; what it raises is lost, as in a compiler's callback
        pass
    return 0

def call_back():
    values = (ctypes.c_int * 4000)()
    sort = ctypes.CDLL(None).qsort
    while True:
        sort(values, 4000, 4, compare)

def swallow():
    while True:
        try:
            while True:
                pass
        except KeyboardInterrupt:
            pass

def pool():
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: work(), range(4)))

def wait():
    threading.Event().wait()

class Failing:
    def __del__(self):
        raise ValueError("lost")

def load():  # as libraries that are interrupted while they are loaded: they print, and raise something else
    try:
        while True:
            pass
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        Failing()
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        raise ImportError("initialization failed")

def fail():
    from astra_tacos.support.errors import ConfigError
    try:
        while True:
            pass
    except KeyboardInterrupt:
        raise ConfigError("a file cannot be read")

@click.command()
@click.argument("how")
def fake(how):
    with replaced_directory(Path("out")) as folder, replaced_file(Path("file")) as file, scratch_directory() as scratch:
        for place in (folder / "part", file, scratch / "part"):
            place.write_text("half")
        print("ready", flush=True)
        globals()[how]()

sys.modules["astra_tacos.cli.fake"] = types.SimpleNamespace(fake=fake)
room.COMMANDS["fake"] = ""
room.main(["fake", sys.argv[1]])
"""


def ended_by(number, how, folder):
    """Exit code, seconds of CPU after the signal and standard error of a command that is interrupted while it does something."""
    (folder / "scratch").mkdir()
    (folder / "cwd/out").mkdir(parents=True)
    (folder / "cwd/out/old").touch()
    environment = os.environ | {"TMPDIR": str(folder / "scratch"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, how],
        cwd=folder / "cwd",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        assert len(list((folder / "cwd").iterdir())) == 3
        times, begin = psutil.Process(process.pid).cpu_times, psutil.Process(process.pid).cpu_times().user
        wait_for(lambda: how == "wait" or times().user > begin + 0.2, "work")
        before = times()
        process.send_signal(number)
        errors = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime - before.user - before.system, errors


BEFORE = ["cwd", "cwd/out", "cwd/out/old", "scratch"]


def everything(folder):
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]


@pytest.mark.parametrize("how", ["work", "pool", "swallow", "call_back", "wait", "load", "fail"])
def test_ctrl_c_always_ends_the_command_and_leaves_nothing(tmp_path, how):
    code, cpu_s, errors = ended_by(signal.SIGINT, how, tmp_path)
    assert code == 130
    assert errors.strip() == ""
    assert cpu_s < 3  # 2 of them until it is ended, and some for ending
    assert everything(tmp_path) == BEFORE


@pytest.mark.parametrize("how", ["work", "wait"])
def test_sigterm_does_the_same(tmp_path, how):
    code, _, errors = ended_by(signal.SIGTERM, how, tmp_path)
    assert (code, errors.strip()) == (143, "")
    assert everything(tmp_path) == BEFORE
