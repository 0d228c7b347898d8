"""`astra-tacos export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.shared.command import Command, command
from astra_tacos.cli.shared.console import print_answer, print_json, print_notes, progress
from astra_tacos.cli.shared.inputs import Kind, identify
from astra_tacos.cli.shared.options import json_option, output_option, verbose_option
from astra_tacos.export import EXPORTERS
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.schedule.schedule import Schedule


class _CommandWithFormats(Command):
    """Lists the formats and their options in its help, for which it imports them."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Formats"):
            formatter.write_dl([(name, f"{exporter.summary} (a {exporter.writes})") for name, exporter in EXPORTERS.items()])
        with formatter.section("Their options"):
            formatter.write_dl(
                [
                    (f"{name}: {key}={option.example}", f"{option.help}: {option.values}")
                    for name, exporter in EXPORTERS.items()
                    for key, option in exporter.options.items()
                ]
            )


@command(cls=_CommandWithFormats)
@click.argument("schedule", type=click.Path(path_type=Path))
@click.option("--format", "name", type=click.Choice(list(EXPORTERS)), required=True, help="Format to write; see below.")
@output_option("File or directory to write; by default a new one in the current directory, named after the collective.", "PATH")
@click.option("--option", "-O", "options", multiple=True, metavar="NAME=VALUE", help="An option of the format; may be repeated.")
@verbose_option
@json_option
def export(schedule: Path, name: str, output: Path | None, options: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """Write a saved SCHEDULE in another format, without synthesizing again.

    SCHEDULE is a run directory or a schedule.npz. The oracle checks it first; an illegal one is not written. The output appears
    as a whole or not at all.
    """
    exporter = EXPORTERS[name]
    chosen = dict(exporter.read_option(text) for text in options)
    made = _load(schedule)
    if output is None:
        output = Path(f"{made.collective.name.replace('-', '_')}{exporter.suffix}")
        if output.exists():
            raise ConfigError(f"{output}: exists: choose where to write with --output")
    with progress("exporting"):
        written = exporter.export(made, output, **chosen)
    if as_json:
        about = {"schedule": str(schedule), "format": name, "output": str(written.path)}
        print_json(about | written.figures | {"notes": list(written.notes)})
        return
    rows: list[tuple[str, ...]] = [("files", str(written.path)), *([("start", written.command)] if written.command else [])]
    print_answer(f"{schedule} as {exporter.summary}", rows)
    print_notes(written.notes, verbose=verbose)


def _load(path: Path) -> Schedule:
    from astra_tacos.schedule.symmetric_schedule import load_rows

    kind, target = identify(path)
    if kind not in (Kind.RUN_DIRECTORY, Kind.SCHEDULE, Kind.SYMMETRIC):
        raise ConfigError(f"{path}: a {kind}, expected a run directory or a schedule (.npz)")
    return load_rows(target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target)
