"""`astra-tacos lint`: what would make ASTRA-sim stall, abort or compute something else; with --fix, mended."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command, typed_command
from astra_tacos.cli.shared.console import compile_ahead, echo, print_json, print_next, print_result, progress
from astra_tacos.cli.shared.options import (
    as_directory,
    backend_option,
    directory_argument,
    find_given,
    optional_files,
    output_option,
    verbose_option,
    workload_option,
)
from astra_tacos.solver.first_use import LINTING, REPAIRING
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend
    from astra_tacos.workload.repairer.reading import RepairInputs


def _explain(context: click.Context, _: click.Parameter, code: str | None) -> None:
    """Print what a code means, and end."""
    if code is None or context.resilient_parsing:
        return
    from astra_tacos.workload.lint import RULES

    check = RULES.get(code.upper())
    if check is None:
        raise click.UsageError(f"No such code: {code}. Codes are {next(iter(RULES))} to {list(RULES)[-1]}, see --list.")
    echo(f"{check.code}, {check.severity}: {check.title}\n")
    width = min(shutil.get_terminal_size().columns, 100)
    paragraphs = [
        textwrap.fill(" ".join(text.split()), width, break_on_hyphens=False) for text in check.explanation.split("\n\n")
    ]
    echo("\n\n".join(paragraphs))
    context.exit()


def _list(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print all codes and steps, and end."""
    if not wanted or context.resilient_parsing:
        return
    from astra_tacos.workload.lint import RULES
    from astra_tacos.workload.mends import MENDS

    for check in RULES.values():
        echo(f"{check.code}  {check.severity:<7}  {check.title}")
    echo("\nsteps of --fix:")
    for mend in MENDS:
        echo(f"{mend.name:<22} {mend.summary} ({', '.join(mend.codes)})")
    context.exit()


@command()
@directory_argument
@workload_option
@optional_files("with --fix, ")
@backend_option(default="by default what stock ASTRA-sim has for the network.")
@click.option("--fix", is_flag=True, help="Mend the run, and report every change.")
@output_option("With --fix: write the mended run here.")
@click.option(
    "--ranks",
    type=click.IntRange(2),
    help="With --fix: replicate the trace of a single rank over this many data-parallel ranks.",
)
@click.option("--without", multiple=True, metavar="STEP", help="With --fix: leave out this step; may be given several times.")
@verbose_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print only JSON: a list of all findings, or with --fix the content of repair.json."
)
@click.option("--explain", metavar="CODE", is_eager=True, expose_value=False, callback=_explain, help="Explain a code.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the codes, and the steps of --fix."
)
def lint(
    path: Path | None,
    workload: Path | None,
    inputs: RepairInputs,
    backend: Backend | None,
    fix: bool,
    output: Path | None,
    ranks: int | None,
    without: tuple[str, ...],
    verbose: bool,
    as_json: bool,
) -> None:
    """Find what would make ASTRA-sim stall, abort or compute something else, before it runs, and mend it.

    \b
    astra-tacos lint DIR   (also a compact run of up to 16,384 ranks)
    astra-tacos lint --workload PREFIX --system S.json --network N.yml
    astra-tacos lint --fix DIR --output MENDED
    astra-tacos lint --fix --workload PREFIX --output MENDED

    An error certainly stops or falsifies the run. A warning may do so, or names a setting without effect. If all
    faults depend on timing, the embedded replay decides: a run that stalls is an error (R01). The exit code is 1
    if there are errors.
    --json prints one list of objects: code, severity, file, rank, node, message, remedy, repair (the step of --fix that can mend
    it).

    With --fix, MENDED becomes a run: workload, comm_group.json, system.json, network.yml, run_astra_sim.sh, and
    repair.json, which lists every change by rank, node and reason. lint finds no errors in it, and its replay ends. A fault is
    refused in one line if nothing in the files says how to mend it.
    """
    from astra_tacos.run.directory import CompactInputs, Given, find_files, is_compact
    from astra_tacos.run.run import RunInputs

    start = None if inputs.directory == Path() else inputs.directory
    options_given = Given(
        workload=workload,
        system=inputs.system,
        network=inputs.network,
        groups=inputs.groups,
        remote_memory=inputs.remote_memory,
        directory=start,
    )
    path, options_given = as_directory(path, options_given)
    if path is None and workload is None:
        raise click.UsageError("Missing DIR, the directory of a run, or --workload.")
    if fix:
        if output is None:
            raise click.UsageError("Missing option '--output'.")
        if path is not None and is_compact(path):
            raise ConfigError(f"{path}: is a compact run, expected the ordinary one, which `export --format run` writes")
        given = options_given if path is None else find_files(path, typed_command(), options_given)
        inputs = replace(inputs, **{name: value for name, value in asdict(given).items() if value is not None})
        from astra_tacos.workload.repairer.repair import check_repair_output, repair

        check_repair_output(output, inputs)
        compile_ahead(*REPAIRING)
        with progress("repairing"):
            result = repair(inputs, output, backend=backend, num_ranks=ranks, without=without)
        if as_json:
            print_json(result.to_json())
        else:
            print_result(result, verbose=verbose)
            print_next(result.path)
        return
    if output is not None or ranks is not None or without:
        raise click.UsageError("--output, --ranks and --without are for --fix.")
    if path is not None:
        run = find_given(path, options_given)
    else:
        if inputs.system is None or inputs.network is None:
            raise click.UsageError(f"Missing option '--{'network' if inputs.system else 'system'}'.")
        assert workload is not None  # checked above
        run = RunInputs(workload, inputs.system, inputs.network, inputs.groups, inputs.remote_memory, inputs.directory)
    from astra_tacos.rules.inputs import compact_inputs
    from astra_tacos.workload.lint import lint as lint_run
    from astra_tacos.workload.lint import lint_inputs
    from astra_tacos.workload.mends import mending

    compile_ahead(*LINTING)
    limit = None if verbose or as_json else 1
    with progress("linting"):
        if isinstance(run, CompactInputs):
            report = lint_inputs(compact_inputs(run, backend), limit)
        else:
            report = lint_run(run, backend, limit)
    if as_json:
        print_json([asdict(finding) | {"repair": mending(finding)} for finding in report.findings])
    else:
        print_result(report if verbose else report.brief())
    if report.errors:
        raise click.exceptions.Exit(CHECK_FAILED)
