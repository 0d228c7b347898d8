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
    duration,
    echo,
    print_json,
    print_rows,
    print_table,
    print_warning,
    progress,
    sweep_progress,
)
from astra_tacos.cli.shared.options import Size, backend_option, json_option, output_option
from astra_tacos.solver.first_use import ALL_SEARCHING, CHECKING, PLANNING, ROOTED
from astra_tacos.support.installation import require
from astra_tacos.support.interrupts import Interrupts, interruptible
from astra_tacos.support.units import format_size

if TYPE_CHECKING:
    from distributed import Client

    from astra_tacos.run.backend import Backend
    from astra_tacos.study.sweep.outcome import Conditions
    from astra_tacos.study.sweep.run_sweep import Progress, SweepRun
    from astra_tacos.study.sweep.store import Store
    from astra_tacos.study.sweep.sweep_file import Sweep

_LEAST_MEMORY = 256 << 20
_path = click.Path(path_type=Path)


@command()
@click.argument("sweep_file", metavar="SWEEP.yml", type=_path)
@output_option("Directory of rows and table; existing rows are not computed again.", required=True)
@click.option(
    "--dask", "address", metavar="ADDRESS", help="Dask scheduler, tcp://host:port; by default this machine computes everything."
)
@click.option("--workers", type=click.IntRange(1), help="Number of points at a time on this machine; by default one per core.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Longest time of a point.")
@click.option(
    "--memory", type=Size(), metavar="SIZE", help="Most memory of a point, for example 4GiB. Python and kernels take 0.2 GiB."
)
@click.option("--cache", type=_path, metavar="DIR", help="Directory of schedules that sweeps share.")
@backend_option(of_schedules=True)
@click.option("--verify/--no-verify", "with_checks", default=True, help="Check each schedule by the oracle and the replay.")
@click.option("--retry-failed", is_flag=True, help="Recompute points that ended with an error or at a limit.")
@click.option("--dry-run", is_flag=True, help="Count the points, try a few to estimate the time, and write nothing.")
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
    from astra_tacos.study.sweep.cluster import open_client
    from astra_tacos.study.sweep.outcome import Conditions
    from astra_tacos.study.sweep.run_sweep import SweepRun
    from astra_tacos.study.sweep.store import Store
    from astra_tacos.study.sweep.sweep_file import read_sweep_file

    require("sweep")
    if timeout is not None and not 0 < timeout < math.inf:
        raise click.BadParameter(f"{timeout} is not a number of seconds above 0.", param_hint="'--timeout'")
    if address is not None and workers is not None:
        raise click.UsageError("Got --dask and --workers: the scheduler at that address has workers of its own.")
    if memory is not None and memory < _LEAST_MEMORY:
        least = f"{format_size(_LEAST_MEMORY)} or more: Python and kernels take most of that"
        raise click.BadParameter(f"{format_size(memory)} is too little, expected {least}.", param_hint="'--memory'")
    with progress("reading"):
        asked = read_sweep_file(sweep_file, None if backend is None else backend.name)
    conditions = Conditions(timeout, memory, with_checks, None if cache is None else str(cache.absolute()))
    store = Store(output)
    store.check()
    if dry_run:
        _estimate(SweepRun(asked.points, store, conditions, retry_failed), conditions, asked, address, workers, as_json)
        return
    begin = time.monotonic()
    with interruptible() as interrupts, interrupts.finished(), contextlib.ExitStack() as stack:
        with interrupts.raised():
            run = SweepRun(asked.points, store, conditions, retry_failed)
            is_remote = address is not None and run.missing
            # A scheduler that is not there is told before anything is written.
            remote = stack.enter_context(open_client(address, None)) if is_remote else None
        with store.opened(sweep_file.read_bytes()):
            try:
                with interrupts.raised():
                    _compute(run, remote, workers, interrupts)
            except KeyboardInterrupt:
                pass
            finally:
                result = _write(run, asked, store)
        is_interrupted = bool(interrupts.came)
        result |= {"reused": run.num_reused, "seconds": time.monotonic() - begin, "interrupted": is_interrupted}
        print_json(result) if as_json else _print(result)
        for text in run.warnings:
            print_warning(text)
        if is_interrupted:
            echo("\ninterrupted: finished points are kept, and the same command resumes the sweep", is_error=True)
            raise click.exceptions.Exit(interrupts.exit_code)


def _compute(run: SweepRun, remote: Client | None, workers: int | None, interrupts: Interrupts) -> None:
    """Compute what is missing, by a scheduler that is there or one of our own."""
    from astra_tacos.study.sweep.cluster import open_client
    from astra_tacos.study.sweep.point import synthesizers_of

    if not run.missing:
        return
    if remote is None:
        compile_ahead(*ALL_SEARCHING, *ROOTED, *CHECKING, *PLANNING)
    threads = min(workers or os.cpu_count() or 1, len(run.missing))
    with contextlib.ExitStack() as stack:
        client = remote or stack.enter_context(open_client(None, threads, synthesizers_of(run.missing.values())))
        show = stack.enter_context(sweep_progress())

        def look(progress: Progress) -> None:
            interrupts.check()
            show(progress)

        run.compute(client, look)


def _write(run: SweepRun, asked: Sweep, store: Store) -> dict[str, Any]:
    """The table of what there is, and its summary."""
    from astra_tacos.study.sweep.store import TABLE_FILE
    from astra_tacos.study.sweep.table import summarize, table_columns, table_row, write_table

    rows = [table_row(point, outcome) for point, outcome in run.results()]
    table = store.directory / TABLE_FILE
    write_table(table, asked.name, asked.axes, table_columns(asked.points), rows)
    about = {"name": asked.name, "output": str(store.directory), "table": str(table)}
    return about | summarize(rows, len(asked.points), asked.axes)


def _estimate(
    run: SweepRun, conditions: Conditions, asked: Sweep, address: str | None, workers: int | None, as_json: bool
) -> None:
    from astra_tacos.study.sweep.cluster import num_threads, open_client
    from astra_tacos.study.sweep.estimate import estimate

    threads = workers or os.cpu_count() or 1
    if address is not None:
        with open_client(address, None) as client:
            threads = max(num_threads(client), 1)
    with progress("trying a few points"):
        guess = estimate(run.missing, conditions)
    failed = sum(point.error is not None for point in asked.points)
    result: dict[str, Any] = {
        "name": asked.name,
        "combinations": asked.num_combinations,
        "points": len(asked.points),
        "invalid": failed,
        "results": len(run.outcomes) + len(run.missing),
        "reused": run.num_reused,
        "workers": threads,
        "sampled": guess.num_sampled,
        "seconds": guess.start_up_s + guess.seconds / min(threads, max(len(run.missing), 1)),
        "is_least": guess.is_least,
    }
    if as_json:
        print_json(result)
        return
    least = "at least" if guess.is_least else "about"
    where = f"{threads} worker{'s'[: threads > 1]}"
    time_text = f"{least} {duration(result['seconds'])} on {where}, estimated from {guess.num_sampled} points"
    refused = asked.num_combinations - len(asked.points)
    rows = [
        ("axes", ", ".join(asked.axes) or "none"),
        ("points", f"{len(asked.points):,}" + (f", {refused:,} more are excluded by where" if refused else "")),
        ("results", f"{result['results']:,} distinct, {run.num_reused:,} of them already computed"),
        ("time", time_text if run.missing else "none: everything is computed"),
    ]
    if failed:
        rows.insert(2, ("invalid", f"{failed:,}: {next(point.error for point in asked.points if point.error is not None)}"))
    print_rows(rows)


def _print(result: dict[str, Any]) -> None:
    from astra_tacos.study.sweep.outcome import REFUSED
    from astra_tacos.study.sweep.table import best_table

    done = sum(result["statuses"].values())
    statuses = ", ".join(f"{count:,} {status}" for status, count in result["statuses"].items()) or "none finished"
    points = f"{done:,}" if done == result["points"] else f"{done:,} of {result['points']:,}"
    print_rows(
        [
            ("points", f"{points}: {statuses}"),
            ("time", f"{duration(result['seconds'])}, {result['reused']:,} results reused"),
            ("table", result["table"]),
        ]
    )
    errors = result["errors"]
    if len(errors) == 1 and errors[0]["points"] == result["points"]:
        what = "was refused" if errors[0]["status"] == REFUSED else "failed"
        echo(f"\nevery point {what}: {errors[0]['error']}")
        return
    for title, name in (("shortest times", "best_time"), ("least time x cost", "best_time_cost")):
        if result[name]:
            print_table(title, *best_table(result[name]))
        if result[f"{name}_more"]:
            echo(f"and {result[f'{name}_more']:,} more tasks: see the table")
    if result["below_bound"]:
        echo(f"\n{result['below_bound']:,} points take less than their bound, as ASTRA-sim truncates the time of each message")
    if errors:
        echo("")
    for each in errors:
        echo(f"{each['points']:,} x {each['status']}: {each['error']}")
    if result["more_errors"]:
        echo(f"and {result['more_errors']:,} other messages: see the column `error`")
