"""`astra-tacos sweep`: a grid of collectives or training runs, computed into one table."""

from __future__ import annotations

import contextlib
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import (
    compile_ahead,
    echo,
    print_json,
    print_result,
    print_warning,
    progress,
    sweep_progress,
    wrapped,
)
from astra_tacos.cli.shared.options import MEMORY, PATH, backend_option, checks_option, json_option, output_option
from astra_tacos.solver.first_use import ALL_SEARCHING, CHECKING, PLANNING, ROOTED
from astra_tacos.support.installation import require
from astra_tacos.support.interrupts import Interrupts, interruptible
from astra_tacos.support.rows import Answer, Row
from astra_tacos.support.units import duration

if TYPE_CHECKING:
    from distributed import Client

    from astra_tacos.run.backend import Backend
    from astra_tacos.study.sweep.run_sweep import SweepRun
    from astra_tacos.study.sweep.sweep_file import Sweep


@command()
@click.argument("sweep_file", metavar="SWEEP.yml", type=PATH)
@output_option("Directory of rows and table; existing rows are not computed again.", required=True)
@click.option(
    "--dask", "address", metavar="ADDRESS", help="Dask scheduler, tcp://host:port; by default this machine computes everything."
)
@click.option("--workers", type=click.IntRange(1), help="Number of points at a time on this machine; by default one per core.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Longest time of a point.")
@click.option(
    "--memory", type=MEMORY, metavar="SIZE", help="Most memory of a point, for example 4GiB. Python and kernels take 0.2 GiB."
)
@click.option("--cache", type=PATH, metavar="DIR", help="Directory of schedules that sweeps share.")
@backend_option(of_schedules=True)
@checks_option
@click.option("--retry-failed", is_flag=True, help="Recompute points that ended with an error or at a limit.")
@click.option("--dry-run", is_flag=True, help="Count the points, tell the time that is left by those done, and write nothing.")
@json_option
def sweep(
    sweep_file: Path,
    output: Path,
    address: str | None,
    workers: int | None,
    timeout: float | None,
    memory: int | None,
    cache: Path | None,
    backend: Backend | None,
    with_checks: bool,
    retry_failed: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a grid of networks, collectives and algorithms, or of training runs to plan, and make a table of the results.

    DIR gets a file per result as soon as it is computed, and in the end sweep.parquet with a row per point. A sweep that was
    interrupted or killed resumes when it is started again. A point that fails becomes a row with the reason.
    """
    require("sweep")
    from astra_tacos.study.sweep.point import Conditions
    from astra_tacos.study.sweep.run_sweep import SweepRun, num_threads_at, open_client
    from astra_tacos.study.sweep.store import Store
    from astra_tacos.study.sweep.sweep_file import read_sweep_file
    from astra_tacos.study.sweep.table import write_results

    if timeout is not None and not 0 < timeout < math.inf:
        raise click.BadParameter(f"{timeout} is not a number of seconds above 0.", param_hint="'--timeout'")
    if address is not None and workers is not None:
        raise click.UsageError("Got --dask and --workers: the scheduler at that address has workers of its own.")
    with progress("reading"):
        asked = read_sweep_file(sweep_file, None if backend is None else backend.name)
    conditions = Conditions(timeout, memory, with_checks, None if cache is None else str(cache.absolute()))
    store = Store(output)
    store.check()
    if dry_run:
        run = SweepRun(asked.points, store, conditions, retry_failed)
        threads = num_threads_at(address) or workers or os.cpu_count() or 1
        figures, rows = _counts(asked, run, threads)
        print_json(figures) if as_json else print_result(Answer(str(sweep_file), rows))
        return
    begin = time.monotonic()
    with interruptible() as interrupts, interrupts.finished(), contextlib.ExitStack() as stack:
        with interrupts.raised():
            run = SweepRun(asked.points, store, conditions, retry_failed)
            # A scheduler that is not there is told before anything is written.
            remote = stack.enter_context(open_client(address, None)) if address is not None and run.missing else None
        with store.opened(sweep_file.read_bytes()):
            try:
                with interrupts.raised():
                    _compute(run, remote, workers, interrupts)
            except KeyboardInterrupt:
                pass
            finally:
                result = write_results(asked, run.results(), output)
        is_interrupted = bool(interrupts.came)
        result |= {"reused": run.num_reused, "seconds": time.monotonic() - begin, "interrupted": is_interrupted}
        print_json(result) if as_json else _print(result)
        for text in run.warnings:
            print_warning(text)
        if is_interrupted:
            echo("\ninterrupted: finished points are kept, and the same command resumes the sweep", is_error=True)
            raise click.exceptions.Exit(interrupts.exit_code)


def _counts(asked: Sweep, run: SweepRun, workers: int) -> tuple[dict[str, Any], list[Row]]:
    """What `--dry-run` prints: as an object, and as rows."""
    errors = [point.error for point in asked.points if point.error is not None]
    refused = asked.num_combinations - len(asked.points)
    num_results = len(run.outcomes) + len(run.missing)
    seconds = run.seconds_left(workers)
    figures = {
        "name": asked.name,
        "combinations": asked.num_combinations,
        "points": len(asked.points),
        "invalid": len(errors),
        "results": num_results,
        "reused": run.num_reused,
        "workers": workers,
        "seconds": seconds,
    }
    if not run.missing:
        time_left = Row("time", "none", note="everything is computed")
    elif seconds is None:
        time_left = Row("time", "unknown", note="no point is computed yet; a sweep shows the time that is left while it runs")
    else:
        where = f"{workers} worker{'s'[: workers > 1]}"
        time_left = Row("time", duration(seconds), note=f"on {where}, by the {run.num_reused:,} results already computed")
    rows = [
        time_left,
        Row("points", len(asked.points), note=f"{refused:,} more are excluded by where" if refused else ""),
        Row("results", num_results, note=f"distinct, {run.num_reused:,} of them already computed"),
        *([Row("invalid", len(errors), note=errors[0])] if errors else []),
        Row("axes", note=", ".join(asked.axes) or "none"),
    ]
    return figures, rows


def _compute(run: SweepRun, remote: Client | None, workers: int | None, interrupts: Interrupts) -> None:
    """Compute what is missing, by a scheduler that is there or one of our own."""
    from astra_tacos.study.sweep.run_sweep import open_client

    if not run.missing:
        return
    if remote is None:
        compile_ahead(*ALL_SEARCHING, *ROOTED, *CHECKING, *PLANNING)
    threads = min(workers or os.cpu_count() or 1, len(run.missing))
    with contextlib.ExitStack() as stack:
        client = remote or stack.enter_context(open_client(None, threads))
        run.compute(client, stack.enter_context(sweep_progress(interrupts.check)))


def _print(result: dict[str, Any]) -> None:
    from astra_tacos.study.sweep.table import answer, remarks

    print_result(answer(result))
    for line in remarks(result):
        echo(wrapped(line))
