"""A sweep on a real scheduler and workers, one of which is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_cluster import DaskCluster, dask_cluster
from sweeps import collective_point, nothing_left_behind, wait_for

from astra_tacos.errors import ConfigError
from astra_tacos.sweep.cluster import check_version, open_client
from astra_tacos.sweep.outcome import Conditions, Outcome
from astra_tacos.sweep.point import Point
from astra_tacos.sweep.run_sweep import Progress, SweepRun
from astra_tacos.sweep.store import Store


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    with nothing_left_behind(), dask_cluster(tmp_path / "dask") as cluster:
        yield cluster


def points() -> list[Point]:
    names = ("tacos", "ring", "themis", "auto")
    return [collective_point(n, seed=n, synthesizer=names[n % 4], size_bytes=1 << n % 20) for n in range(100)]


def plain(outcomes: dict[str, Outcome]) -> dict[str, tuple[object, ...]]:
    return {
        key: (each.status, each.error, {name: each.results[name] for name in each.results if not name.endswith("seconds")})
        for key, each in outcomes.items()
    }


def test_a_worker_that_is_killed_loses_nothing(cluster: DaskCluster, tmp_path: Path) -> None:
    workers = [cluster.add_worker(), cluster.add_worker()]
    seen: list[Progress] = []

    def kill_one(progress: Progress) -> None:
        seen.append(progress)
        if progress.done >= 30 and workers[0].poll() is None:
            workers[0].kill()

    store = Store(tmp_path / "sweep")
    with store.opened(b""), open_client(cluster.address, None) as client:
        wait_for(lambda: sum(client.nthreads().values()) == 2, "two workers")
        run = SweepRun(points(), store, Conditions())
        run.compute(client, kill_one)
    assert workers[0].returncode == -9
    assert (seen[0].threads, seen[-1].done, seen[-1].total) == (2, 100, 100)

    alone = Store(tmp_path / "alone")
    with alone.opened(b""), open_client(None, 2) as client:
        local = SweepRun(points(), alone, Conditions())
        local.compute(client)
    assert plain(run.outcomes) == plain(local.outcomes)
    assert {outcome.status for outcome in run.outcomes.values()} == {"ok", "error"}
    assert SweepRun(points(), store, Conditions()).missing == {}


def test_workers_may_come_later_and_the_scheduler_may_go(cluster: DaskCluster, tmp_path: Path) -> None:
    started = time.monotonic()
    has_worker = []

    def act(progress: Progress) -> None:
        if not has_worker and time.monotonic() - started > 0.5:
            assert (progress.threads, progress.done) == (0, 0)
            has_worker.append(cluster.add_worker())
        if progress.done >= 10:
            cluster.stop()

    store = Store(tmp_path / "sweep")
    with store.opened(b""), open_client(cluster.address, None) as client:
        run = SweepRun(points(), store, Conditions())
        with pytest.raises(ConfigError, match=r"tcp://127\.0\.0\.1:\d+: the scheduler was lost; what is done is kept"):
            run.compute(client, act)
    again = SweepRun(points(), store, Conditions())
    assert again.num_reused == len(run.outcomes) >= 10


def test_a_scheduler_that_is_not_there_is_an_error() -> None:
    for address, reason in (("tcp://127.0.0.1:9", "none answers in"), ("nonsense://x", "unknown address scheme")):
        with pytest.raises(ConfigError, match=rf"{address}: no Dask scheduler \({reason}"), open_client(address, None):
            pass


def test_workers_of_another_version_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"tcp://there: the worker has version 0\.0\.1 of astra-tacos, expected"):
        check_version("0.0.1", "tcp://there")
