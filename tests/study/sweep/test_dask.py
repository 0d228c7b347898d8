"""A sweep on a real scheduler and workers, one of which is killed."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from distributed import KilledWorker
from helpers.sweeps import collective_point, nothing_left_behind, point_processes, results, wait_for

from astra_tacos import ConfigError
from astra_tacos.study.sweep.limits import compute_points, end_run
from astra_tacos.study.sweep.point import Conditions, Outcome
from astra_tacos.study.sweep.run_sweep import Progress, SweepRun, check_version, open_client
from astra_tacos.study.sweep.store import Store

_LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")


class DaskCluster:
    """Processes of `dask scheduler` and `dask worker`."""

    def __init__(self, folder):
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        paths = os.pathsep.join(path for path in sys.path if path)
        self._environment = os.environ | {"PYTHONPATH": paths, "TMPDIR": str(folder)}  # killed processes leave folders there
        about = folder / "scheduler.json"
        self._start("distributed.cli.dask_scheduler", *_LOOPBACK, "--port", "0", "--scheduler-file", str(about))
        self.address: str = json.loads(wait_for(lambda: about.exists() and about.read_text().rstrip(), "a scheduler"))["address"]

    def add_worker(self, nanny="--no-nanny"):
        """One with one thread, by default without a nanny that would start it again."""
        options = (*_LOOPBACK, "--nthreads", "1", nanny, "--local-directory", str(self._folder))
        return self._start("distributed.cli.dask_worker", self.address, *options)

    def stop(self):
        """End all processes, and theirs."""
        trees = [psutil.Process(process.pid) for process in self._processes if process.poll() is None]
        trees += [child for process in trees for child in process.children(recursive=True)]
        for process in trees:
            process.kill()
        for started in self._processes:
            started.wait()
        psutil.wait_procs(trees, timeout=300)

    def _start(self, module, *arguments):
        with (self._folder / f"log{len(self._processes)}.txt").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], stdout=log, stderr=log, env=self._environment, cwd=self._folder
            )
        self._processes.append(process)
        return process


@pytest.fixture
def cluster(tmp_path):
    """A scheduler without workers; nothing of it is there in the end."""
    folder = tmp_path / "dask"
    folder.mkdir()
    with nothing_left_behind():
        cluster = DaskCluster(folder)
        try:
            yield cluster
        finally:
            cluster.stop()


def points():
    names = ("tacos", "ring", "themis", "direct")
    return [collective_point(n, seed=n, synthesizer=names[n % 4], size_bytes=1 << n % 20) for n in range(32)]


def swept(asked, store):
    """A sweep by processes of this machine."""
    with nothing_left_behind(), store.opened(b""), open_client(None, 2) as client:
        run = SweepRun(asked, store, Conditions())
        run.compute(client)
    return run


def test_a_worker_that_is_killed_loses_nothing(cluster, tmp_path):
    workers = [cluster.add_worker(), cluster.add_worker()]
    seen: list[Progress] = []

    def kill_one(progress):
        seen.append(progress)
        if progress.done >= 8 and workers[0].poll() is None:
            workers[0].kill()

    store = Store(tmp_path / "sweep")
    with store.opened(b""), open_client(cluster.address, None) as client:
        wait_for(lambda: sum(client.nthreads().values()) == 2, "two workers")
        run = SweepRun(points(), store, Conditions())
        run.compute(client, kill_one)
    assert workers[0].returncode == -9
    assert (seen[0].threads, seen[-1].done, seen[-1].total) == (2, 32, 32)

    local = swept(points(), Store(tmp_path / "alone"))
    for key, outcome in run.outcomes.items():
        alone_too = local.outcomes[key]
        assert (outcome.status, outcome.error, results(outcome)) == (alone_too.status, alone_too.error, results(alone_too))
    assert {outcome.status for outcome in run.outcomes.values()} == {"ok", "error"}
    assert SweepRun(points(), store, Conditions()).missing == {}


def test_workers_may_come_later_and_the_scheduler_may_go(cluster, tmp_path):
    started = time.monotonic()
    has_worker = []

    def act(progress):
        if not has_worker and time.monotonic() - started > 0.5:
            assert (progress.threads, progress.done) == (0, 0)
            has_worker.append(cluster.add_worker())
        if progress.done >= 10:
            cluster.stop()

    store = Store(tmp_path / "sweep")
    with store.opened(b""), open_client(cluster.address, None) as client:
        run = SweepRun(points(), store, Conditions())
        with pytest.raises(
            ConfigError, match=r"tcp://127\.0\.0\.1:\d+: the connection to the scheduler was lost; finished points are kept"
        ):
            run.compute(client, act)
    again = SweepRun(points(), store, Conditions())
    assert again.num_reused == len(run.outcomes) >= 10


def test_a_scheduler_that_is_not_there_is_an_error():
    reasons = {
        "tcp://127.0.0.1:9": "Connection refused",
        "127.0.0.1:9": "Connection refused",
        "nonsense://x": "unknown address scheme",
    }
    for address, reason in reasons.items():
        with pytest.raises(ConfigError, match=rf"{address}: no Dask scheduler \({reason}"), open_client(address, None):
            pass


def test_what_dask_leaves_unawaited_is_not_told(caplog):
    with open_client(None, 1) as client:
        loop = client.loop.asyncio_loop
    loop.call_exception_handler({"message": "Future exception was never retrieved", "exception": TimeoutError("Timeout")})
    assert not caplog.records


def test_workers_of_another_version_are_an_error():
    with pytest.raises(ConfigError, match=r"tcp://there: the worker has version 0\.0\.1 of astra-tacos, expected"):
        check_version("0.0.1", "tcp://there")


def test_points_of_one_key_run_once(tmp_path):
    store = Store(tmp_path / "sweep")
    twins = [*map(collective_point, (0, 2)), collective_point(1, seed=1), replace(collective_point(3), error="no network")]
    assert list(SweepRun(twins, store, Conditions()).missing) == [twins[0].key, twins[2].key]
    found, outcomes = zip(*swept(twins, store).results(), strict=True)
    assert [point.index for point in found] == [0, 2, 1, 3]
    assert outcomes[0] is outcomes[1]
    assert [outcome.status for outcome in outcomes] == ["ok", "ok", "ok", "error"]
    assert outcomes[3].error == "no network"
    assert len(list((tmp_path / "sweep" / "rows").rglob("*.json"))) == 2


def test_what_dask_gives_up_is_a_row(tmp_path, monkeypatch):
    def lost(*_, **__):
        raise KilledWorker("point", SimpleNamespace(address="tcp://gone"), 3)

    monkeypatch.setattr("astra_tacos.study.sweep.run_sweep.compute_points", lost)
    store = Store(tmp_path / "sweep")
    run = swept([collective_point()], store)
    (outcome,) = run.outcomes.values()
    assert outcome.status == "died"
    assert outcome.error.startswith("KilledWorker: ")
    assert list(SweepRun([collective_point()], store, Conditions()).missing) == list(run.outcomes)


def test_a_run_that_has_ended_computes_nothing_more_and_others_go_on():
    request = pickle.dumps([collective_point()])
    with nothing_left_behind():
        end_run("over")
        with pytest.raises(CancelledError):
            compute_points(request, Conditions(), "over")
        assert not point_processes()
        compute_points(request, Conditions(), "going")
        end_run("another")
        assert len(point_processes()) == 1
        end_run("going")


def test_a_worker_that_may_not_start_processes_is_an_error(cluster, tmp_path):
    cluster.add_worker("--nanny")
    store = Store(tmp_path / "sweep")
    told = "a worker runs under a nanny of Dask, expected one that may start processes: start `dask worker` with --no-nanny"
    with store.opened(b""), open_client(cluster.address, None) as client, pytest.raises(ConfigError, match=told):
        SweepRun(points(), store, Conditions()).compute(client)


def test_the_time_that_is_left_follows_from_the_points_done(tmp_path):
    store = Store(tmp_path / "sweep")
    asked = [collective_point(seed=seed) for seed in range(6)]
    with store.opened(b""):
        assert SweepRun(asked, store, Conditions()).seconds_left(2) is None
        for point, seconds in zip(asked, (1.0, 3.0), strict=False):
            store.write(point.key, Outcome("ok", None, {"seconds": seconds, "verified": True}), Conditions())
    run = SweepRun(asked, store, Conditions())
    assert [run.seconds_left(workers) for workers in (1, 2, 4, 99)] == [8.0, 4.0, 2.0, 2.0]
    assert SweepRun(asked[:2], store, Conditions()).seconds_left(1) == 0
