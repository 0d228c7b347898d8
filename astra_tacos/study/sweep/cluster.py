"""Dask's distributed scheduler: a local one that is started here, or an existing one."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from astra_tacos.study.sweep.guard import start_processes, stop_all
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.installation import package_version
from astra_tacos.support.temporaries import scratch_directory

if TYPE_CHECKING:
    from distributed import Client

CONNECT_S = 10
_LEAN = {
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""What Dask does for its dashboard, which is off here, and between workers, of which there is one: a tenth of a core.

Its scheduler and workers always have an HTTP server; by default on all interfaces, without a password. Without routes, and on the
loopback address, they serve nothing to nobody.
"""
_PRIVATE = {"protocol": "inproc://", "dashboard": False, "dashboard_address": "127.0.0.1:0"}
_ADDRESS = "expected the address of one, such as tcp://host:8786"


@contextlib.contextmanager
def open_client(address: str | None, workers: int | None, names: Sequence[str] = ()) -> Iterator[Client]:
    """A client of the scheduler at `address`. With None, start one in this process with `workers` threads (None: one per core).

    Its processes load the kernels of the synthesizers `names` while it starts.

    Raises
    ------
    ConfigError
        If no scheduler answers there, or its workers have another version of this package.
    """
    with _quiet(), _local(workers or os.cpu_count() or 1, names) if address is None else _remote(address) as client:
        # Dask gives up waits of its own when it closes, and its loop would tell of that whenever they are collected.
        loop: Any = client.loop
        loop.asyncio_loop.set_exception_handler(lambda loop, context: None)
        yield client


def num_threads(client: Client) -> int:
    """Number of points that the workers compute at the same time."""
    return sum(client.nthreads().values())


def num_threads_at(address: str | None) -> int:
    """The same of a scheduler, 1 where there is none yet; 0 without an address."""
    if address is None:
        return 0
    with open_client(address, None) as client:
        return max(num_threads(client), 1)


@contextlib.contextmanager
def _local(workers: int, names: Sequence[str]) -> Iterator[Client]:
    try:
        start_processes(workers, names)
        import dask  # takes half a second, and so do they
        from distributed import Client, Scheduler, SpecCluster, Worker

        with scratch_directory() as scratch:  # Dask leaves folders there
            # Its threads only wait: the points are computed in processes of theirs, see `Guard`.
            worker = _PRIVATE | {"nthreads": workers, "memory_limit": 0, "local_directory": str(scratch)}
            with (
                dask.config.set(_LEAN | {"temporary-directory": str(scratch)}),
                SpecCluster(
                    workers={0: {"cls": Worker, "options": worker}},
                    scheduler={"cls": Scheduler, "options": {**_PRIVATE, "host": None, "port": 0}},
                    silence_logs=logging.CRITICAL,
                ) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):
                yield client
    finally:
        stop_all()


@contextlib.contextmanager
def _remote(address: str) -> Iterator[Client]:
    from distributed import Client

    class Started(Client):
        """Closes at once where it cannot be started: later its loop is gone, for which it would wait with the process."""

        def start(self, **options: Any) -> None:
            try:
                super().start(**options)  # type: ignore[no-untyped-call]
            except BaseException:
                self.close()  # type: ignore[no-untyped-call]
                raise

    try:
        _knock(address)
        client = Started(address, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise ConfigError(f"{address}: no Dask scheduler ({error.strerror}), {_ADDRESS}") from None
    except OSError:  # nobody, or somebody else, is there
        raise ConfigError(f"{address}: no Dask scheduler (none answers in {CONNECT_S} s), {_ADDRESS}") from None
    except Exception as error:  # each of Dask's protocols has errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"{address}: no Dask scheduler ({reason}), {_ADDRESS}") from None
    with client:
        _check_workers(client)
        yield client


def _knock(address: str) -> None:
    """Connect for a moment: Dask would try again for `CONNECT_S` where nobody listens, and for ever where nobody speaks.

    Raises
    ------
    OSError
        If nothing listens there, or says nothing (a scheduler speaks first), or the host is not known.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme in ("tcp", "tls") and parts.hostname and parts.port:
        with socket.create_connection((parts.hostname, parts.port), CONNECT_S) as connection:
            if parts.scheme == "tcp" and not connection.recv(1):
                raise ConnectionAbortedError


def _check_workers(client: Client) -> None:
    """Check that present workers have this version of the package; later workers are checked by the version in their results."""

    def version() -> str:  # nested, so that it is pickled by value: the package may be missing there
        try:
            from astra_tacos.support.installation import package_version
        except ImportError:
            return "none"
        return package_version()

    for worker, found in client.run(version).items():
        check_version(str(found), worker)


def check_version(found: str, worker: str) -> None:
    """Check that a worker has this version of the package.

    Raises
    ------
    ConfigError
        If it has another version.
    """
    if found != package_version():
        raise ConfigError(
            f"{worker}: the worker has version {found} of astra-tacos, expected {package_version()} as here: install that there"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Lost workers are Dask's business: what matters of it is said in rows and errors."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
