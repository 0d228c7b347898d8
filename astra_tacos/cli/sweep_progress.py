"""Progress of a sweep on standard error: a bar on a terminal, otherwise an occasional line for the log of a job."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from astra_tacos.cli.console import bar, echo

if TYPE_CHECKING:
    from astra_tacos.study.sweep.run_sweep import Progress

LINE_S = 30.0
"""Seconds between lines."""


@contextlib.contextmanager
def sweep_progress() -> Iterator[Callable[[Progress], None]]:
    """Show what the callback is given."""
    begin = time.monotonic()
    if not sys.stderr.isatty():
        with _lines(begin) as show:
            yield show
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}"))
    with bar(*columns) as shown:
        task = shown.add_task("", total=None, state="starting")
        yield lambda progress: shown.update(
            task, completed=progress.done, total=progress.total, state=describe(progress, time.monotonic() - begin)
        )


@contextlib.contextmanager
def _lines(begin: float) -> Iterator[Callable[[Progress], None]]:
    last = begin

    def show(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_S:
            last = now
            echo(f"{progress.done:,} of {progress.total:,} points done, {describe(progress, now - begin)}", is_error=True)

    yield show


def describe(progress: Progress, seconds: float) -> str:
    """Rate, time that is left, failures: `12.3/s, 0:04:10 left, 3 failed`."""
    if progress.threads == 0 and progress.done < progress.total:
        return "waiting for workers"
    computed = progress.done - progress.reused
    failed = f"{progress.failed:,} failed"
    if not computed or seconds <= 0:
        return failed
    rate = computed / seconds
    each = f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"
    return f"{each}, {duration((progress.total - progress.done) / rate)} left, {failed}"


def duration(seconds: float) -> str:
    """`0:04:10`, `2 days, 3:00:00`."""
    return str(timedelta(seconds=round(seconds)))
