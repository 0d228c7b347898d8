"""A point within its limits, in a process that may die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from multiprocessing import util

import psutil
import pytest
from helpers.sweeps import collective_point, long_point, nothing_left_behind, point_processes, results, wait_for

from astra_tacos.study.sweep.evaluate import evaluate
from astra_tacos.study.sweep.limits import PointProcess
from astra_tacos.study.sweep.point import Conditions, Outcome

RUN = "this"


@pytest.fixture
def process():
    with nothing_left_behind():
        process = PointProcess()
        yield process
        process.close(RUN)


def compute(process, point, **limits):
    return process.compute(RUN, point, Conditions(**limits))


def test_a_point_in_a_process_has_the_outcome_of_one_without_even_if_the_process_has_died(process):
    refused = collective_point(synthesizer="themis", collective="broadcast")
    for point, status in ((collective_point(), "ok"), (refused, "refused"), (collective_point(size_bytes=3), "error")):
        outcome, expected = compute(process, point), evaluate(point, Conditions())
        assert (outcome.status, outcome.error, results(outcome)) == (status, expected.error, results(expected))
    (child,) = point_processes()
    compute(process, collective_point(seed=1))
    assert point_processes() == [child]  # it stays for the next point
    child.kill()
    assert compute(process, collective_point(seed=2)).status == "ok"  # another process has computed it


def test_a_point_that_takes_too_long_is_ended(process):
    outcome = compute(process, long_point(), timeout_s=0.3)
    assert (outcome.status, outcome.error) == ("timeout", "took longer than 0.3 s")
    assert not point_processes()
    assert compute(process, collective_point(), timeout_s=30).status == "ok"


def test_a_point_that_takes_too_much_memory_is_ended(process):
    outcome = compute(process, long_point(), memory_bytes=300 << 20)
    assert (outcome.status, outcome.error) == ("out-of-memory", "took more than 300 MiB")
    assert not point_processes()
    assert compute(process, collective_point(), memory_bytes=300 << 20).status == "ok"
    kept = point_processes()
    assert compute(process, collective_point(seed=1), memory_bytes=300 << 20).status == "ok"
    assert point_processes() == kept  # a tight limit is no reason to start anew for every point


def test_a_process_that_dies_is_tried_again_once(process):
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(compute(process, long_point(), memory_bytes=1 << 40)))
    thread.start()
    first = wait_for(point_processes, "a process")[0]
    os.kill(first.pid, signal.SIGKILL)
    second = wait_for(lambda: [each for each in point_processes() if each.pid != first.pid], "another process")[0]
    wait_for(lambda: second.cpu_times().user > 3, "work")  # in the middle of a kernel
    os.kill(second.pid, signal.SIGSEGV)
    thread.join(300)
    assert outcomes[0].status == "died"
    assert "ended with SIGSEGV" in (outcomes[0].error or "")
    assert compute(process, collective_point()).status == "ok"


def test_a_process_that_dies_while_it_is_started_is_replaced(process, monkeypatch):
    start, pids = util.spawnv_passfds, []

    def start_and_kill_the_first(path, arguments, descriptors):
        pid = start(path, arguments, descriptors)
        if b"spawn_main" in b" ".join(os.fsencode(argument) for argument in arguments):
            pids.append(pid)
            if len(pids) == 1:
                os.kill(pid, signal.SIGKILL)
                wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "its end")
        return pid

    monkeypatch.setattr(util, "spawnv_passfds", start_and_kill_the_first)
    assert compute(process, collective_point()).status == "ok"
    assert len(pids) == 2


_ALONE = """
import signal
import sys
from helpers.sweeps import collective_point, long_point
from astra_tacos.study.sweep import limits, point_process
from astra_tacos.study.sweep.point import Conditions

if __name__ == "__main__":
    process = limits.PointProcess()
    print(process.compute("this", eval(sys.argv[1]), Conditions()).status, end=" ")
    print(list(process._result(signal.pthread_sigmask, (signal.SIG_BLOCK, ()))))  # blocked since the process began
    process.close("this")
"""


def started(tmp_path, point):
    """A script that computes a point in a process of its own, and has its scratch directories in `tmp_path / "scratch"`."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "script.py").write_text(_ALONE)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TMPDIR": str(tmp_path / "scratch"),
    }
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), point], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_what_libraries_print_stays_off_standard_output(process, capfd, tmp_path):
    from astra_tacos.study.sweep import limits

    compute(process, collective_point())
    process._result(os.write, (1, b"noise\n"))
    process._result(print, ("stray",))
    with pytest.raises(limits.ProcessExpired) as died:
        process._result(_fail, ())
    assert process._cause(died.value) == "ended with SIGABRT (terminate called)"
    process._close()
    captured = capfd.readouterr()
    assert "noise" not in captured.out + captured.err and "stray" not in captured.out


def _fail():
    os.write(2, b"terminate called\n")
    os.abort()


def test_an_interrupt_of_the_terminal_does_not_reach_the_process(process):
    compute(process, collective_point())
    (child,) = point_processes()
    child.send_signal(signal.SIGINT)
    compute(process, collective_point(seed=1))
    assert point_processes() == [child]


def test_a_script_may_compute_points(tmp_path):
    output, _ = started(tmp_path, "collective_point()").communicate(timeout=300)
    assert output == "ok [<Signals.SIGINT: 2>]\n"
    assert not list((tmp_path / "scratch").iterdir())


def test_the_process_ends_with_the_one_that_asks(tmp_path):
    asking = started(tmp_path, "long_point()")
    try:
        (process,) = wait_for(lambda: point_processes(asking.pid), "a process")
        wait_for(lambda: process.cpu_times().user > 3, "work")  # in the middle of a kernel
    finally:
        asking.kill()
        asking.communicate()
    wait_for(lambda: not psutil.pid_exists(process.pid) or process.status() == psutil.STATUS_ZOMBIE, "its end")
    wait_for(lambda: not list((tmp_path / "scratch").iterdir()), "its folder to go")
