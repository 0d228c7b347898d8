"""Fixtures for recorded ASTRA-sim runs, and an environment that is the same on every machine.

`golden/replays.tar.xz` holds a folder per run (network, system, workload, collective traces) with `expected.json`: the times
that ASTRA-sim printed. A test marked `@pytest.mark.golden_cases("pattern", ...)` runs once for each folder whose name matches
and gets its name as `golden_case`, so a new folder in the archive needs no code.
"""

from __future__ import annotations

import os
import shutil
import signal
import tarfile
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from helpers.examples import TIMES
from helpers.isolation import isolated
from hypothesis import HealthCheck, settings

from astra_tacos.support import plugins

# How long an example takes depends on what else the machine does. The same examples in each run, so that what fails fails again.
SEARCHES = TIMES > 1 or "FUZZ_SECONDS" in os.environ
settings.register_profile(
    "suite",
    max_examples=10 * TIMES,
    deadline=None,
    derandomize=not SEARCHES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

ARCHIVE = Path(__file__).parent / "golden" / "replays.tar.xz"
INPUTS_VARIABLE = "ASTRA_TACOS_INPUTS"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many workers again as there are cores: tests wait for browsers, processes and signals."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sample", type=int, default=1, help="run one test in so many, of every file: what `make check` does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    one_in = config.getoption("--sample")
    kept = [item for item in items if crc32(item.nodeid.encode()) % one_in == 0]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if crc32(item.nodeid.encode()) % one_in])
        items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "golden_cases(*patterns): run for each recorded run whose name matches")
    home = Path(tempfile.mkdtemp(prefix="astra_tacos_home."))
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    before = dict(os.environ)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of jobs in the background, and then of all that tests start
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.add_cleanup(lambda: _set_environment(before))
    _set_environment(isolated(before, home))


def _set_environment(wanted: dict[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("golden_cases")
    if marker is not None:
        matching = [name for name in _case_names() if any(fnmatch(name, pattern) for pattern in marker.args)]
        assert matching, f"no run in {ARCHIVE.name} matches {marker.args}"
        metafunc.parametrize("golden_case", matching)


@cache
def _case_names() -> tuple[str, ...]:
    with tarfile.open(ARCHIVE) as archive:
        return tuple(sorted({name.split("/")[0] for name in archive.getnames() if name.endswith("/expected.json")}))


@pytest.fixture(autouse=True)
def _plugins_of_a_test() -> Iterator[None]:
    """What a test loads, the processes of the next one's sweeps do not."""
    plugins._LOADED.clear()
    yield
    plugins._LOADED.clear()


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with a folder per recorded run."""
    directory = tmp_path_factory.mktemp("golden")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory


@pytest.fixture(scope="session")
def astra_sim_inputs() -> Path:
    """Directory with inputs that ship with ASTRA-sim; they are not part of the repository."""
    folder = Path(os.environ.get(INPUTS_VARIABLE, "")) / "astra_sim_inputs"
    if INPUTS_VARIABLE not in os.environ or not folder.is_dir():
        pytest.skip(
            f"NOT TESTED on inputs that ship with ASTRA-sim: set {INPUTS_VARIABLE} to a directory that has astra_sim_inputs"
        )
    return folder
