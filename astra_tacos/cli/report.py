"""`astra-tacos report`: one HTML page of a directory that another command wrote."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import click

from astra_tacos.cli.console import echo, print_json
from astra_tacos.cli.inputs import refuse_lockstep
from astra_tacos.cli.options import json_option
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_writable, replaced_file
from astra_tacos.support.input_file import note_input
from astra_tacos.support.installation import require
from astra_tacos.support.units import format_size


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of directory that there is a report of.

    Parameters
    ----------
    command
        What writes it.
    markers
        Files that tell: a directory is of this kind if it has all of them.
    module
        In `astra_tacos.cli`: its function `page(directory, title, with_comparison)` reads the directory and makes the page.
    """

    command: str
    markers: tuple[str, ...]
    module: str

    def fits(self, directory: Path) -> bool:
        """Whether the directory has all files of this kind."""
        return all((directory / marker).is_file() for marker in self.markers)


KINDS = {
    "schedule": Kind("synthesize --output", ("result.json", "schedule.npz"), "report_synthesis"),
    "plan": Kind("plan --output", ("plan.json", "replay.npz"), "report_run"),
    "replay": Kind("replay --workload ... --output", ("replay.json", "replay.npz"), "report_run"),
    "sweep": Kind("sweep --output", ("sweep.parquet",), "report_sweep"),
}
"""Kinds of directories, and who makes their pages; the first that fits counts."""


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    default=Path("report.html"),
    show_default=True,
    help="File to write.",
)
@click.option(
    "--compare/--no-compare",
    "with_comparison",
    default=True,
    help="Compare a schedule with the predefined algorithms (takes seconds).",
)
@click.option("--title", help="Heading of the page.")
@json_option
def report(directory: Path, output: Path, with_comparison: bool, title: str | None, as_json: bool) -> None:
    """Make one self-contained HTML page of DIR, the output of another command, to read, print and share.

    The page needs no network and no server. The same DIR gives the same bytes.
    """
    if directory.is_file() and any(directory.name in kind.markers for kind in KINDS.values()):
        directory = directory.parent
    kind, entry = find_kind(directory)
    require("report")
    for file in directory.rglob("*"):
        note_input(file)
    check_writable(output)
    make = importlib.import_module(f"astra_tacos.cli.{entry.module}").page
    content: bytes = make(directory, title, with_comparison)
    with replaced_file(output) as temporary:
        temporary.write_bytes(content)
    if as_json:
        print_json({"kind": kind, "path": str(output), "size_bytes": len(content)})
        return
    echo(f"written: {output} ({kind}, {format_size(len(content))})")


def find_kind(directory: Path) -> tuple[str, Kind]:
    """What a directory is, by the files in it.

    Raises
    ------
    ConfigError
        If it is nothing that there is a report of.
    """
    if not directory.is_dir():
        raise ConfigError(f"{directory}: {'is no directory' if directory.exists() else 'does not exist'}, expected a directory")
    for name, kind in KINDS.items():
        if kind.fits(directory):
            return name, kind
    refuse_lockstep(directory)
    expected = "; ".join(f"{kind.command} ({', '.join(kind.markers)})" for kind in KINDS.values())
    raise ConfigError(f"{directory}: found nothing to report on, expected the output of one of these: {expected}")
