"""What commands print: answers, tables, notes and warnings; and progress on standard error, for work of more than a second.

Names of files, networks and collectives come from other people. What a terminal would obey instead of showing (escape
sequences, carriage returns, marks that turn the direction of writing, characters without width) is printed as an escape, as in
a string of Python. Colours are added here, after that.

Progress is shown on a terminal only; that of a sweep is otherwise an occasional line for the log of a job.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import logging
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from astra_tacos.support.errors import ConfigError, MissingFileError, OutputError, ReplayError
from astra_tacos.support.rows import Importance, Row, Severity
from astra_tacos.support.units import duration

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from astra_tacos.study.sweep.run_sweep import Progress as SweepState
    from astra_tacos.support.rows import Result, Table


T = TypeVar("T")
LINT_SAYS_MORE = "for details, run `astra-tacos lint` on the same files"
WIDTH = 100
"""Columns of what a command prints by default; names of files may be longer."""
LINE_S = 30.0
"""Seconds between lines."""
_COLOURS = {Severity.ERROR: "1;31", Severity.WARNING: "33"}
_INDENT = 12
"""Columns before the text of a finding."""


def make_streams_lenient() -> None:
    """Print characters that the encoding of standard output lacks as escapes, too; a closed stream takes everything."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        print_warning(record.getMessage())


def print_warning(text: str) -> None:
    """Print a line on standard error."""
    echo(f"astra-tacos: warning: {' '.join(text.split())}", is_error=True)


def print_warnings() -> None:
    """Print what the package logs as warnings on standard error, a line each."""
    log = logging.getLogger("astra_tacos")
    if not any(isinstance(handler, _Warnings) for handler in log.handlers):
        log.addHandler(_Warnings(logging.WARNING))


def printable(text: str) -> str:
    r"""A line with `\x1b`, `\n`, `\u202e` and the like instead of the characters that are not shown."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def shown(text: str, stream: TextIO) -> str:
    """A line as a stream shows it: with escapes instead of characters that are not shown, or that its encoding lacks."""
    encoding = stream.encoding or "utf-8"
    return printable(text).encode(encoding, "backslashreplace").decode(encoding)


def echo(text: str = "", *, is_error: bool = False) -> None:
    """Print lines on standard output, or on standard error."""
    click.echo("\n".join(map(printable, text.split("\n"))), err=is_error)


def print_json(result: object) -> None:
    """One object or list on standard output."""
    click.echo(json.dumps(result, indent=2))


def emphasized(text: str, style: str = "1") -> str:
    """A text, bold or coloured (by an ANSI code) where a terminal has colours and NO_COLOR is not set."""
    shown = printable(text)
    return f"\x1b[{style}m{shown}\x1b[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else shown


def wrapped(text: str, indent: int = 0) -> str:
    """A text in lines of at most `WIDTH` columns, of which all but the first begin with blanks."""
    space = max(WIDTH - indent, 30)
    paragraphs = (
        textwrap.wrap(printable(line), space, break_long_words=False, break_on_hyphens=False) or [""] for line in text.split("\n")
    )
    return f"\n{' ' * indent}".join(itertools.chain.from_iterable(paragraphs))


def print_result(
    result: Result, *, verbose: bool = False, error: float | None = None, more: Sequence[Row] = (), files: Sequence[Row] = ()
) -> None:
    """Print a result: its answer in one screen, or with `verbose` everything; what has no title is listed in full.

    Findings stand above the title, which counts them.

    Parameters
    ----------
    error
        The error that the times carry, which stands beside the first figure, or else below; None for none.
    more
        Rows that the command knows of beside the result.
    files
        Where the files of the result are, and what to do with them.
    """
    title, tables = result.title(), result.tables()
    rows, details, notes = [*result.rows(), *more], [], []
    if any(isinstance(row.value, Severity) for row in rows):
        _print_findings(rows)
        echo(wrapped(title))
    elif title:
        notes = [row for row in rows if row.importance is Importance.NOTE]
        details = [row for row in rows if row.importance is Importance.DETAIL]
        details += [*notes, *(row for row in files if row.importance is Importance.DETAIL)]
        answer = [row for row in (*rows, *files) if row.importance is Importance.ANSWER]
        _print_answer(title, with_error([(row.name, row.figure, row.note) for row in answer], error))
    else:
        _print_rows((row.name, row.text) for row in rows)
    if verbose:
        _print_tables(table for table in tables if table.importance is Importance.ANSWER)
        if details:
            _print_rows([("", ""), *((row.name, row.text) for row in details)])
        _print_tables(table for table in tables if table.importance is Importance.DETAIL)
    else:
        _print_tables(table.short or table for table in tables if table.short or table.importance is Importance.ANSWER)
        if notes:
            echo(f"\nadd --verbose to read {len(notes)} note{'s' if len(notes) > 1 else ''}")
    if not title:
        _print_rows((row.name, row.text) for row in files)
        if error is not None:
            echo(f"times of the network: {plus_or_minus(error)}")


def _print_tables(tables: Iterable[Table]) -> None:
    """Print titled tables: the first column and those of texts to the left, numbers to the right."""
    for table in tables:
        cells = [tuple(map(printable, row)) for row in (table.columns, *table.texts())]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        sides = ["<" if name in table.left or at == 0 else ">" for at, name in enumerate(table.columns)]
        echo(f"\n{table.title}" if table.title else "")
        for row in cells:
            shown = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
            click.echo("  ".join(shown).rstrip())
        for line in table.remarks:
            echo(line)


def _print_findings(rows: Sequence[Row]) -> None:
    """Print findings with their marks in colours, the texts beside them, and what is left to say of them."""
    for row in rows:
        if isinstance(row.value, Severity):
            mark = f"{row.name} {row.value:<7}"
            click.echo(f"{emphasized(mark, _COLOURS[row.value])} {wrapped(row.note, len(mark) + 1)}")
        else:
            echo(wrapped(f"{row.name}: {row.text}") if row.name else f"{'':{_INDENT}}{row.text}")
    echo()


def _print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Print label and value pairs, aligned, one line each: all details, for `--verbose`."""
    listed = [(printable(label), printable(value)) for label, value in rows]
    first = max((len(label) for label, _ in listed), default=0)
    for label, value in listed:
        click.echo(f"{label:{first}}  {value}".rstrip())


def _print_answer(title: str, rows: Iterable[tuple[str, ...]]) -> None:
    """Print a title, then labels, figures and perhaps remarks in columns; the first figure is the answer."""
    listed = [(label, figure, "".join(remark)) for label, figure, *remark in rows]
    first = max((len(label) for label, _, _ in listed), default=0)
    second = max((len(figure) for _, figure, remark in listed if figure and remark), default=0)
    echo(wrapped(title) + ("\n" if listed else ""))
    for number, (label, figure, remark) in enumerate(listed):
        shown = printable(figure)
        space = " " * (second - len(shown) + 2) if figure and remark else ""
        shown = emphasized(figure) if number == 0 else shown
        text = wrapped(remark, first + 4 + (second + 2 if figure else 0))
        click.echo(f"  {printable(label):{first}}  {shown}{space}{text}".rstrip())


def with_error(rows: Sequence[tuple[str, ...]], error: float | None) -> list[tuple[str, ...]]:
    """Rows of an answer whose first figure is a time, with the error that its network file carries (None: no error)."""
    if error is None:
        return list(rows)
    (label, figure, *remark), *others = rows
    return [(label, figure, ", ".join([plus_or_minus(error), *filter(None, remark)])), *others]


def plus_or_minus(error: float) -> str:
    """An error as times carry it: half of the measured times are nearer."""
    return f"plus or minus {error:.1%}"


def file_rows(output: Path | None, start: str, exactness: str = "", *, importance: Importance = Importance.ANSWER) -> list[Row]:
    """Rows of an answer that say where its files are, and how to start ASTRA-sim on them, if it can run them.

    `exactness` says of a stand-in run whether ASTRA-sim takes the predicted time.
    """
    if output is None:
        return [Row("files", "none", note="--output DIR writes the traces")]
    run = [("start", start), *([("times", exactness)] if exactness else [])]
    return [Row(name, text, importance=importance) for name, text in (("files", str(output)), *(run if start else []))]


def print_next(directory: Path) -> None:
    """Print, as the last line of an answer, the command that goes on with the run of a directory."""
    from astra_tacos.run.directory import next_command

    echo(f"\n  next  {next_command(directory)}")


@contextlib.contextmanager
def points_to_lint() -> Iterator[None]:
    """Errors that come from the files of a run, not from its output, end with where to learn more about them."""
    try:
        yield
    except (MissingFileError, OutputError):
        raise
    except (ConfigError, ReplayError) as error:
        raise type(error)(f"{error}; {LINT_SAYS_MORE}") from None


@contextlib.contextmanager
def progress(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work of more than a second that a callback (done, total) moves; silent where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    begin = time.monotonic()
    times = (TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with bar(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *times) as shown:
        task = shown.add_task(description, total=None, left="")

        def update(done: int, total: int) -> None:
            left = f"about {duration((time.monotonic() - begin) * (total - done) / done)} left" if done else ""
            shown.update(task, completed=done, total=total, left=left)

        yield update


def collected(description: str, rows: Iterable[T], total: int) -> list[T]:
    """`solver.first_use.collected`, with a bar."""
    from astra_tacos.solver import first_use

    return first_use.collected(description, rows, total, progress)


@contextlib.contextmanager
def progress_to_lint(description: str) -> Iterator[Callable[[int, int], None]]:
    """Both of the above."""
    with points_to_lint(), progress(description) as shown:
        yield shown


def bar(*columns: ProgressColumn) -> Progress:
    """A bar of these columns on standard error; it vanishes in the end."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)


def compile_ahead(*names: str, later: Iterable[str] = ()) -> None:
    """`solver.first_use.compile_ahead`, with a line that says so."""
    from astra_tacos.solver import first_use

    first_use.compile_ahead(*names, later=later, progress=progress)


@contextlib.contextmanager
def sweep_progress(check: Callable[[], None]) -> Iterator[Callable[[SweepState], None]]:
    """Show what the callback is given, once `check` has raised nothing."""
    begin = time.monotonic()
    if not sys.stderr.isatty():
        with _lines(begin, check) as show:
            yield show
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}"))
    with bar(*columns) as shown:
        task = shown.add_task("", total=None, state="starting")

        def update(progress: SweepState) -> None:
            check()
            state = describe(progress, time.monotonic() - begin)
            shown.update(task, completed=progress.done, total=progress.total, state=state)

        yield update


@contextlib.contextmanager
def _lines(begin: float, check: Callable[[], None]) -> Iterator[Callable[[SweepState], None]]:
    last = begin

    def show(progress: SweepState) -> None:
        nonlocal last
        check()
        now = time.monotonic()
        if now - last >= LINE_S:
            last = now
            echo(f"{progress.done:,} of {progress.total:,} points done, {describe(progress, now - begin)}", is_error=True)

    yield show


def describe(progress: SweepState, seconds: float) -> str:
    """Rate, time that is left, failures: `12.3/s, 0:04:10 left, 3 failed`."""
    if progress.threads == 0 and progress.done < progress.total:
        return "waiting for workers"
    computed = progress.done - progress.reused
    failed = f"{progress.failed:,} failed"
    if not computed or seconds <= 0:
        return failed
    rate = computed / seconds
    rate_text = f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"
    return f"{rate_text}, {duration((progress.total - progress.done) / rate)} left, {failed}"
