"""What each test costs: `pytest -p helpers.cpu_times --cpu-times FILE` writes a line of CSV per test, costliest first.

The seconds are CPU seconds of the test's process and of the processes that it waited for, so that they say the same on a busy
machine. Fixtures count for the first test that needs them; `setup` is their part.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", metavar="FILE", type=Path, help="write the CPU seconds of each test to FILE")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--cpu-times")
    if path is not None:
        config.pluginmanager.register(_CpuTimes(path, hasattr(config, "workerinput")), "cpu times of tests")


class _CpuTimes:
    def __init__(self, path: Path, is_worker: bool) -> None:
        self._path = path
        self._is_worker = is_worker
        self._spent: dict[str, dict[str, float]] = defaultdict(dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report = yield
        report.user_properties = [*report.user_properties, ("cpu_s", self._spent[item.nodeid].get(call.when, 0.0))]
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        return (yield from self._timed(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        return (yield from self._timed(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        return (yield from self._timed(item, "teardown"))

    def _timed(self, item: pytest.Item, phase: str) -> Iterator[None]:
        before = _cpu_seconds()
        try:
            return (yield)
        finally:
            self._spent[item.nodeid][phase] = _cpu_seconds() - before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect, in the process that has the reports of all workers."""
        self._spent[report.nodeid][report.when] = dict(report.user_properties).get("cpu_s", 0.0)

    def pytest_sessionfinish(self) -> None:
        if self._is_worker:
            return
        rows = [(sum(phases.values()), phases.get("setup", 0.0), name) for name, phases in self._spent.items()]
        with self._path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("cpu_s", "setup_s", "test"))
            writer.writerows((f"{total:.3f}", f"{setup:.3f}", name) for total, setup, name in sorted(rows, reverse=True))


def _cpu_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
