"""`astra-tacos sweep`: a grid of collectives or training runs, computed into one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import (
    echo,
    print_json,
    print_result,
    print_warning,
    progress,
    sweep_progress,
    wrapped,
)
from astra_tacos.cli.shared.options import MEMORY, PATH, backend_option, checks_option, json_option, output_option
from astra_tacos.support.installation import require
from astra_tacos.support.interrupts import interruptible
from astra_tacos.support.rows import Answer, Row
from astra_tacos.support.units import duration

if TYPE_CHECKING:
    from astra_tacos.study.sweep.sweep import SweepJob


@command()
@click.argument("sweep_file", metavar="SWEEP.yml", type=PATH)
@output_option("Directory of the results; points that have a result there are not computed again.", required=True)
@click.option(
    "--dask", "address", metavar="ADDRESS", help="Dask scheduler, tcp://host:port; by default this machine computes all points."
)
@click.option(
    "--workers", type=click.IntRange(1), help="Number of points that this machine computes at a time; by default one per core."
)
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop a point after this time.")
@click.option(
    "--memory",
    type=MEMORY,
    metavar="SIZE",
    help="Stop a point above this memory, for example 4GiB. Python and kernels take 0.2 GiB.",
)
@click.option("--cache", type=PATH, metavar="DIR", help="Directory of schedules that sweeps share.")
@backend_option(of_schedules=True)
@checks_option
@click.option("--retry-failed", is_flag=True, help="Recompute points that ended with an error or at a limit.")
@click.option(
    "--dry-run", is_flag=True, help="Count the points, estimate the remaining time from the computed points, and write nothing."
)
@json_option
def sweep(
    sweep_file: Path,
    output: Path,
    address: str | None,
    with_checks: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a grid of networks, collectives and algorithms, or of training runs to plan, and make a table of the results.

    DIR gets a file per result as soon as it is computed, and in the end sweep.parquet with a row per point. A sweep that was
    interrupted or killed resumes when it is started again. A point that fails becomes a row with the reason.
    """
    require("sweep")
    from astra_tacos.study.sweep.sweep import sweep_job

    job = sweep_job(sweep_file, output, dask=address, checks=with_checks, progress=progress, **options)
    if dry_run:
        figures, rows = _counts(job)
        print_json(figures) if as_json else print_result(Answer(str(sweep_file), rows))
        return
    with interruptible() as interrupts:
        swept = job.compute(interrupts, lambda of: sweep_progress(of.check), progress)
        print_json(swept.figures) if as_json else print_result(swept)
        for line in () if as_json else swept.remarks():
            echo(wrapped(line))
        for text in swept.warnings:
            print_warning(text)
        if interrupts.came:
            echo("\ninterrupted: finished points are kept, and the same command resumes the sweep", is_error=True)
            raise click.exceptions.Exit(interrupts.exit_code)


def _counts(job: SweepJob) -> tuple[dict[str, Any], list[Row]]:
    """What `--dry-run` prints: as an object, and as rows."""
    sweep, run, workers = job.asked, job.run, job.num_workers
    errors = [point.error for point in sweep.points if point.error is not None]
    refused = sweep.num_combinations - len(sweep.points)
    num_results = len(run.outcomes) + len(run.missing)
    seconds = run.seconds_left(workers)
    figures = {
        "name": sweep.name,
        "combinations": sweep.num_combinations,
        "points": len(sweep.points),
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
        Row("points", len(sweep.points), note=f"{refused:,} more are excluded by where" if refused else ""),
        Row("results", num_results, note=f"distinct, {run.num_reused:,} of them already computed"),
        *([Row("invalid", len(errors), note=errors[0])] if errors else []),
        Row("axes", note=", ".join(sweep.axes) or "none"),
    ]
    return figures, rows
