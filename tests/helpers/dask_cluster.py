"""A real Dask scheduler and workers on the loopback address, for as long as a test takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from helpers.sweeps import wait_for

_LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")


class DaskCluster:
    """Processes of `dask scheduler` and `dask worker`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        paths = os.pathsep.join(path for path in sys.path if path)
        self._environment = os.environ | {"PYTHONPATH": paths, "TMPDIR": str(folder)}  # killed processes leave folders there
        about = folder / "scheduler.json"
        self._start("distributed.cli.dask_scheduler", *_LOOPBACK, "--port", "0", "--scheduler-file", str(about))
        self.address: str = json.loads(wait_for(lambda: about.exists() and about.read_text().rstrip(), "a scheduler"))["address"]

    def add_worker(self) -> subprocess.Popen[bytes]:
        """One with one thread, and no nanny that would start it again."""
        options = (*_LOOPBACK, "--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder))
        return self._start("distributed.cli.dask_worker", self.address, *options)

    def stop(self) -> None:
        """End all processes, and theirs."""
        trees = [psutil.Process(process.pid) for process in self._processes if process.poll() is None]
        trees += [child for process in trees for child in process.children(recursive=True)]
        for process in trees:
            process.kill()
        for started in self._processes:
            started.wait()
        psutil.wait_procs(trees, timeout=300)

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"log{len(self._processes)}.txt").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], stdout=log, stderr=log, env=self._environment, cwd=self._folder
            )
        self._processes.append(process)
        return process


@contextmanager
def dask_cluster(folder: Path) -> Iterator[DaskCluster]:
    """A scheduler without workers; nothing of it is there in the end."""
    folder.mkdir()
    cluster = DaskCluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()
