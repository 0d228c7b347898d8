"""`astra-tacos export`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.shared.command import Command, command
from astra_tacos.cli.shared.console import file_rows, print_json, print_result, progress
from astra_tacos.cli.shared.options import PATH, find_given, json_option, network_option, output_option, verbose_option
from astra_tacos.export import EXPORTERS
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.rows import Answer, Row, notes_of
from astra_tacos.workload.path_kind import Kind, identify

if TYPE_CHECKING:
    from astra_tacos.schedule.schedule import Schedule


_RUN = "run"
"""The format of ordinary runs, which only compact ones are written in."""


class _CommandWithFormats(Command):
    """Lists the formats and their options in its help, for which it imports them."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Formats"):
            listed = [(name, f"{exporter.summary} (a {exporter.writes})") for name, exporter in EXPORTERS.items()]
            formatter.write_dl([*listed, (_RUN, "the ordinary run that a compact run stands for (a directory)")])
        with formatter.section("Their options"):
            formatter.write_dl(
                [
                    (f"{name}: {key}={option.example}", f"{option.help}: {option.values}")
                    for name, exporter in EXPORTERS.items()
                    for key, option in exporter.options.items()
                ]
            )


@command(cls=_CommandWithFormats)
@click.argument("schedule", type=PATH)
@click.option("--format", "name", type=click.Choice([*EXPORTERS, _RUN]), required=True, help="Format to write; see below.")
@output_option("File or directory to write; by default a new name in the current directory, after the collective.", "PATH")
@network_option
@click.option("--option", "-O", "options", multiple=True, metavar="NAME=VALUE", help="An option of the format; may be repeated.")
@verbose_option
@json_option
def export(
    schedule: Path,
    name: str,
    output: Path | None,
    network_path: Path | None,
    options: tuple[str, ...],
    verbose: bool,
    as_json: bool,
) -> None:
    """Write a saved SCHEDULE in another format, without synthesizing again.

    SCHEDULE is a run directory or a schedule.npz. The oracle checks the schedule first and refuses an
    illegal schedule. The output appears as a whole or not at all.

    With --format run, SCHEDULE is the directory of a compact run, which may need --network. The output is the ordinary run of up
    to 16,384 ranks, which ASTRA-sim and the other commands take.
    """
    if name == _RUN:
        if options:
            raise click.UsageError("Got --option, expected none: the format run has no options.")
        _export_run(schedule, output, network_path, as_json)
        return
    if network_path is not None:
        raise click.UsageError("Got --network, expected --format run with it: a schedule has its own network.")
    exporter = EXPORTERS[name]
    chosen = dict(exporter.read_option(text) for text in options)
    loaded = _load(schedule)
    if output is None:
        output = Path(f"{loaded.collective.name.replace('-', '_')}{exporter.suffix}")
        if output.exists():
            raise ConfigError(f"{output}: exists: choose where to write with --output")
    with progress("exporting"):
        written = exporter.export(loaded, output, **chosen)
    if as_json:
        document = {"schedule": str(schedule), "format": name, "output": str(written.path)}
        print_json(document | written.figures | {"notes": list(written.notes)})
        return
    title = f"{schedule} as {exporter.summary.partition(':')[0]}"
    files = file_rows(written.path, written.command, written.exactness)
    print_result(Answer(title, [*files, *notes_of(written.notes)]), verbose=verbose)


def _export_run(folder: Path, output: Path | None, network_path: Path | None, as_json: bool) -> None:
    """Write the ordinary run of a compact one."""
    from astra_tacos.export.run_directory import SCRIPT
    from astra_tacos.network.network_config import read_network
    from astra_tacos.planner.classes.ordinary_run import export_ordinary
    from astra_tacos.run.compact_run import read_compact
    from astra_tacos.run.directory import CompactInputs, Given, next_command
    from astra_tacos.run.run import NAME, WORKLOAD

    kind, target = identify(folder)
    inputs = find_given(target, Given(network=network_path)) if kind is Kind.COMPACT_RUN else None
    if not isinstance(inputs, CompactInputs):
        raise ConfigError(f"{folder}: a {kind}, expected a compact run, as 'generate' and 'plan' write")
    if output is None:
        raise click.UsageError("Missing option '--output'.")
    with progress("exporting"):
        run = read_compact(inputs.folder, read_network(inputs.network))
        export_ordinary(run, output)
    if as_json:
        print_json({"schedule": str(folder), "format": _RUN, "output": str(output), "num_ranks": run.lattice.num_ranks})
        return
    start = f"ASTRA_SIM_BIN=... {shlex.quote(str(output / SCRIPT))}"
    rows = [Row("workload", str(output / WORKLOAD / NAME)), *file_rows(output, start), Row("next", next_command(output))]
    print_result(Answer(f"{folder}: {run.lattice.num_ranks:,} ranks", rows))


def _load(path: Path) -> Schedule:
    from astra_tacos.schedule.symmetric_schedule import load_rows

    kind, target = identify(path)
    if kind not in (Kind.RUN_DIRECTORY, Kind.SCHEDULE, Kind.SYMMETRIC):
        raise ConfigError(f"{path}: a {kind}, expected a run directory or a schedule (.npz)")
    return load_rows(target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target)
