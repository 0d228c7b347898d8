"""Points of sweeps, and the processes that compute them, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil

from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.study.sweep.point import CollectiveTask, Outcome, Point
from astra_tacos.synthesizer.search.search_options import SearchOptions

SMALL = NetworkConfig("small.yml", (Dimension("Ring", 4, 50.0, 500.0), Dimension("Switch", 2, 25.0, 500.0)))
LARGE = NetworkConfig("large.yml", (Dimension("Ring", 16, 50.0, 500.0), Dimension("Ring", 16, 50.0, 500.0)))
_TASK = CollectiveTask("all-reduce", None, 1 << 20, SearchOptions("tacos", 1, 1 << 24, trials=1, threads=1))


def collective_point(index: int = 0, network: NetworkConfig = SMALL, **changes: Any) -> Point:
    """An All-Reduce of 1 MiB on 8 NPUs in a few milliseconds, or what is changed of it or of the options of its search."""
    inputs = {"kind": "collective", "network": network.name, "size_bytes": changes.get("size_bytes", 1 << 20)}
    asked = {name: changes.pop(name) for name in SearchOptions.__slots__ if name in changes}
    task = replace(_TASK, options=replace(_TASK.options, **asked), **changes)
    return Point(index, network, task, inputs)


def results(outcome: Outcome) -> dict[str, Any]:
    """Figures of an outcome, but how long they took."""
    return {name: value for name, value in outcome.results.items() if not name.endswith("seconds")}


def long_point(index: int = 0) -> Point:
    """One that takes many seconds and much memory."""
    return collective_point(index, LARGE, size_bytes=1 << 34, chunks_per_npu=400, trials=50)


def point_processes(of: int | None = None) -> list[psutil.Process]:
    """Processes that compute points for this process, or another one."""
    found = []
    for child in psutil.Process(of).children(recursive=True):
        try:
            if "--multiprocessing-fork" in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 300.0) -> Any:
    """The first true value of a condition; an assertion fails if there is none."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {seconds:g} s for {what}")


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """No process of points of ours is there in the end."""
    yield
    wait_for(lambda: not point_processes(), "processes of points to end")
