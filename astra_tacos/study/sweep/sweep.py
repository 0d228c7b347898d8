"""`sweep`: from a sweep file to the table of all results."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.solver.first_use import ALL_SEARCHING, CHECKING, PLANNING, ROOTED, Progress, compile_ahead, silent
from astra_tacos.study.sweep.point import Conditions
from astra_tacos.study.sweep.run_sweep import Progress as State
from astra_tacos.study.sweep.run_sweep import SweepRun, num_threads_at, open_client
from astra_tacos.study.sweep.store import Store
from astra_tacos.study.sweep.sweep_file import Sweep, read_sweep_file
from astra_tacos.study.sweep.table import answer, read_sweep, remarks, write_results
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.installation import require
from astra_tacos.support.interrupts import Interrupts, interruptible
from astra_tacos.support.rows import Result, Row, Table, data_frame

if TYPE_CHECKING:
    from distributed import Client

Shown = Callable[[Interrupts], AbstractContextManager[Callable[[State], None]]]
"""Entered before points are computed; gives a function that takes how many are done."""


@contextlib.contextmanager
def _unseen(interrupts: Interrupts) -> Iterator[Callable[[State], None]]:
    yield lambda state: interrupts.check()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Swept(Result):
    """The results of a sweep.

    Parameters
    ----------
    figures
        The object that `sweep --json` prints: counts, the best points, and the first errors.
    output
        The directory with the table, `sweep.parquet`.
    warnings
        Messages of points, each once.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import sweep
    >>> point = "{network: configs/network/torus_4x4.yml, collective: all-gather, size: 64KiB, synthesizer: direct}"
    >>> written = Path("sweep.yml").write_text(f"point: {point}")
    >>> sweep("sweep.yml", "swept").figures["points"]
    1
    """

    figures: dict[str, Any]
    output: Path
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        return self.figures

    def title(self) -> str:
        """The path of the table."""
        return answer(self.figures).title()

    def rows(self) -> list[Row]:
        """Points by their status, and the time."""
        return answer(self.figures).rows()

    def tables(self) -> list[Table]:
        """The best points."""
        return answer(self.figures).tables()

    def remarks(self) -> list[str]:
        """Lines on points that failed."""
        return list(remarks(self.figures))

    def to_pandas(self) -> Any:
        """The table as a data frame, a row for each point that has a result.

        Raises
        ------
        ConfigError
            If pandas is not installed, or no point has a result.
        """
        columns = read_sweep(self.output).columns
        return data_frame(tuple(columns), zip(*columns.values(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class SweepJob:
    """A sweep whose points are known, and the results that its directory has already.

    Parameters
    ----------
    asked, store, run
        The points, the directory, and what is computed and missing.
    address, workers
        The Dask scheduler, None for this machine; and how many points it computes at a time, None for one per core.
    """

    asked: Sweep
    store: Store
    run: SweepRun
    address: str | None
    workers: int | None

    @property
    def num_workers(self) -> int:
        """How many points are computed at a time."""
        return num_threads_at(self.address) or self.workers or os.cpu_count() or 1

    def compute(self, interrupts: Interrupts, shown: Shown = _unseen, progress: Progress = silent) -> Swept:
        """Compute the points that are missing, and write the table, also after an interruption."""
        begin = time.monotonic()
        with interrupts.finished(), contextlib.ExitStack() as stack:
            with interrupts.raised():
                # A scheduler that is not there is told before anything is written.
                remote = None
                if self.address is not None and self.run.missing:
                    remote = stack.enter_context(open_client(self.address, None))
            with self.store.opened(self.asked.path.read_bytes()):
                try:
                    with interrupts.raised():
                        self._compute(remote, interrupts, shown, progress)
                except KeyboardInterrupt:
                    pass
                finally:
                    result = write_results(self.asked, self.run.results(), self.store.directory)
        run_figures = {"reused": self.run.num_reused, "seconds": time.monotonic() - begin, "interrupted": bool(interrupts.came)}
        return Swept(result | run_figures, self.store.directory, tuple(self.run.warnings))

    def _compute(self, remote: Client | None, interrupts: Interrupts, shown: Shown, progress: Progress) -> None:
        """Compute what is missing, by a scheduler that is there or one of our own."""
        if not self.run.missing:
            return
        if remote is None:
            compile_ahead(*ALL_SEARCHING, *ROOTED, *CHECKING, *PLANNING, progress=progress)
        threads = min(self.workers or os.cpu_count() or 1, len(self.run.missing))
        with contextlib.ExitStack() as stack:
            client = remote or stack.enter_context(open_client(None, threads))
            self.run.compute(client, stack.enter_context(shown(interrupts)))


def sweep_job(
    sweep_file: str | Path,
    output: str | Path,
    *,
    workers: int | None = None,
    dask: str | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    cache: str | Path | None = None,
    backend: Backend | str | None = None,
    checks: bool = True,
    retry_failed: bool = False,
    progress: Progress = silent,
) -> SweepJob:
    """The job of `sweep`, which takes the same."""
    require("sweep")
    if timeout is not None and not 0 < timeout < math.inf:
        raise ConfigError(f"timeout: found {timeout}, expected a number of seconds above 0")
    if dask is not None and workers is not None:
        raise ConfigError("workers: found a number beside a Dask scheduler, which has workers of its own; expected one of both")
    with progress("reading"):
        sweep = read_sweep_file(sweep_file, None if backend is None else choose_backend(backend).name)
    store = Store(Path(output))
    store.check()
    conditions = Conditions(timeout, memory, checks, None if cache is None else str(Path(cache).absolute()))
    return SweepJob(sweep, store, SweepRun(sweep.points, store, conditions, retry_failed), dask, workers)


def sweep(
    sweep_file: str | Path,
    output: str | Path,
    *,
    workers: int | None = None,
    dask: str | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    cache: str | Path | None = None,
    backend: Backend | str | None = None,
    checks: bool = True,
    retry_failed: bool = False,
) -> Swept:
    r"""Run a grid of networks, collectives and algorithms, or of training runs to plan, and make a table of the results.

    A point that fails becomes a row with the reason. A sweep that was interrupted resumes when it is called again.

    Parameters
    ----------
    sweep_file
        The grid, as docs/sweep.md describes it.
    output
        Directory of rows and table; rows that are there are not computed again.
    workers
        Points at a time on this machine; None for one per core.
    dask
        The address of a Dask scheduler, such as `tcp://host:8786`; None for this machine.
    timeout, memory
        Longest time of a point in seconds, and its most memory in bytes; None for no limit.
    cache
        Directory of schedules that sweeps share; None for none.
    backend
        The network model of all points; None for that of the file.
    checks
        Whether schedules are verified and replayed.
    retry_failed
        Whether points that ended with an error or at a limit are computed again.

    Returns
    -------
    swept
        `to_pandas` gives the table, a row for each point.

    Raises
    ------
    ConfigError
        If the file is not what it should be, the directory holds something else, or no scheduler answers.
    MissingExtraError
        If the packages of the extra `sweep` are not installed.
    KeyboardInterrupt
        If a signal came; finished points are kept.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import sweep
    >>> point = "{network: ring.yml, collective: all-gather, size: 64KiB, synthesizer: ring}"
    >>> _ = Path("ring.yml").write_text("topology: [Ring]\nnpus_count: [4]\nbandwidth: [50.0]\nlatency: [500.0]\n")
    >>> _ = Path("sweep.yml").write_text(f"point: {point}\naxes: {{chunks_per_npu: [1, 2]}}\n")
    >>> swept = sweep("sweep.yml", "swept")
    >>> [str(status) for status in swept.to_pandas()["status"]]
    ['ok', 'ok']
    """
    job = sweep_job(
        sweep_file,
        output,
        workers=workers,
        dask=dask,
        timeout=timeout,
        memory=memory,
        cache=cache,
        backend=backend,
        checks=checks,
        retry_failed=retry_failed,
    )
    with interruptible() as interrupts:
        swept = job.compute(interrupts)
    interrupts.check()
    return swept
