"""A point within its limits, in a process that may die."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading

import psutil
import pytest
from helpers.sweeps import collective_point, long_point, nothing_left_behind, point_processes, results, wait_for

from astra_tacos.study.sweep.evaluate import evaluate
from astra_tacos.study.sweep.guard import Guard
from astra_tacos.study.sweep.point import Conditions, Outcome


@pytest.fixture
def guard():
    with nothing_left_behind():
        guard = Guard()
        yield guard
        guard.close()


def compute(guard, point, **limits):
    return guard.compute(point.key, point, Conditions(**limits))


def test_a_guarded_point_has_the_outcome_of_an_unguarded_one_even_if_its_process_has_died(guard):
    refused = collective_point(synthesizer="themis", collective="broadcast")
    for point, status in ((collective_point(), "ok"), (refused, "refused"), (collective_point(size_bytes=3), "error")):
        outcome, expected = compute(guard, point), evaluate(point, Conditions())
        assert (outcome.status, outcome.error, results(outcome)) == (status, expected.error, results(expected))
    (process,) = point_processes()
    compute(guard, collective_point(seed=1))
    assert point_processes() == [process]  # it stays for the next point
    process.kill()
    assert compute(guard, collective_point(seed=2)).status == "ok"  # another process has computed it


def test_a_point_that_takes_too_long_is_ended(guard):
    outcome = compute(guard, long_point(), timeout_s=0.3)
    assert (outcome.status, outcome.error) == ("timeout", "took longer than 0.3 s")
    assert not point_processes()
    assert compute(guard, collective_point(), timeout_s=30).status == "ok"


def test_a_point_that_takes_too_much_memory_is_ended(guard):
    outcome = compute(guard, long_point(), memory_bytes=300 << 20)
    assert (outcome.status, outcome.error) == ("out-of-memory", "took more than 300 MiB")
    assert not point_processes()
    assert compute(guard, collective_point(), memory_bytes=300 << 20).status == "ok"
    kept = point_processes()
    assert compute(guard, collective_point(seed=1), memory_bytes=300 << 20).status == "ok"
    assert point_processes() == kept  # a tight limit is no reason to start anew for every point


def test_a_process_that_dies_is_tried_again_once(guard):
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(compute(guard, long_point(), memory_bytes=1 << 40)))
    thread.start()
    first = wait_for(point_processes, "a process")[0]
    os.kill(first.pid, signal.SIGKILL)
    second = wait_for(lambda: [each for each in point_processes() if each.pid != first.pid], "another process")[0]
    os.kill(second.pid, signal.SIGSEGV)
    thread.join(300)
    assert outcomes[0].status == "died"
    assert "ended with SIGSEGV" in (outcomes[0].error or "")
    assert compute(guard, collective_point()).status == "ok"


_NOISY = """
import os, sys
import astra_tacos.study.sweep.evaluate as room
from astra_tacos.study.sweep.point import main

quiet = room.evaluate

def noisy(point, conditions):
    print("stray")
    os.write(1, b"noise\\n")
    return quiet(point, conditions)

room.evaluate = noisy
main()
"""


def test_stray_prints_stay_off_the_protocol(tmp_path):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", _NOISY, str(tmp_path / "scratch")], **pipes) as process:
        pickle.dump((collective_point(), Conditions()), process.stdin)
        process.stdin.flush()
        assert pickle.load(process.stdout) == []
        assert pickle.load(process.stdout) == ["tacos"]  # before the time of the point begins
        assert pickle.load(process.stdout).status == "ok"
        process.stdin.close()
        assert process.stdout.read() == b""
        assert {b"stray", b"noise"} <= set(process.stderr.read().split())


def test_the_process_ends_with_the_one_that_asks(tmp_path):
    code = (
        "import sys, threading; from helpers.sweeps import long_point; from astra_tacos.study.sweep.point import Conditions\n"
        "from astra_tacos.study.sweep.guard import Guard; p = long_point()\n"
        "Guard().compute(p.key, p, Conditions())"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = os.environ | {"PYTHONPATH": paths, "TMPDIR": str(scratch)}
    asking = subprocess.Popen([sys.executable, "-c", code], env=environment)
    try:
        (process,) = wait_for(lambda: point_processes(asking.pid), "a process")
        wait_for(lambda: process.cpu_times().user > 1.5, "work")  # in the middle of a kernel
    finally:
        asking.kill()
        asking.wait()
    wait_for(lambda: not psutil.pid_exists(process.pid) or process.status() == psutil.STATUS_ZOMBIE, "its end")
    wait_for(lambda: not list(scratch.iterdir()), "its folder to go")
