"""`astra-tacos report`: a page or a figure of what another command wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.shared.command import command, typed_command
from astra_tacos.cli.shared.console import echo, print_json, progress
from astra_tacos.cli.shared.options import OUTPUT, PATH, json_option, network_option
from astra_tacos.pages.style import FORMATS, WIDTHS
from astra_tacos.pages.sweep_choice import CONDITION
from astra_tacos.study.reporter.figure import DEFAULTS, KINDS, PAGE
from astra_tacos.support.units import format_size


@command()
@click.argument("path", type=PATH, metavar="INPUT")
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    metavar="FILE",
    default="report.html",
    show_default=True,
    help=f"File to write: {PAGE}, {', '.join(FORMATS)}.",
)
@click.option("--title", help="Heading of the page.")
@click.option("--compare/--no-compare", default=True, help="Compare a schedule with the predefined algorithms (takes seconds).")
@network_option
@click.option("--kind", type=click.Choice(KINDS), help="Kind of figure; by default the kind that fits INPUT.")
@click.option(
    "--width",
    type=click.Choice(WIDTHS),
    default=DEFAULTS["width"],
    show_default=True,
    help="Width of the figure: one or two columns of a paper.",
)
@click.option(
    "--chunk",
    type=int,
    metavar="N",
    help="timeline: highlight the sends of this chunk; tree: draw this chunk of NPU 0, by default 0.",
)
@click.option("--most", type=click.IntRange(2, 60), default=DEFAULTS["most"], show_default=True, help="policies: number of bars.")
@click.option("--x", metavar="COLUMN", help="Sweep: column along the x axis.")
@click.option("--y", metavar="COLUMN", help="Sweep: column along the y axis.")
@click.option("--value", metavar="COLUMN", help="heatmap: column that the colours show.")
@click.option("--by", metavar="COLUMN", help="lines, pareto: column that distinguishes lines or colours.")
@click.option("--where", metavar="EXPR", help=f"Sweep: show only points for which this expression is true: {CONDITION} (bytes).")
@json_option
@click.pass_context
def report(ctx: click.Context, /, path: Path, output: Path, as_json: bool, **options: Any) -> None:
    """Make a page to read, or a figure for a paper, of INPUT: what another command wrote. The name of FILE decides.

    A page (.html) shows the directory of `synthesize`, `plan`, `replay`, `compare` or `sweep`, or that of any run, which is
    replayed first. It is one file, and needs no server.

    A figure (.svg, .pdf, .png) is one picture (--kind). topology: a network (.yml), or a schedule with the use of its links.
    timeline: links of a schedule (.npz, directory), or ranks of a run before and after. tree: how a chunk of a symmetric schedule
    spreads. policies: what `plan --schedule` tried. compare: a table of `compare`. lines, heatmap, pareto: a sweep, with a panel
    for every task; where points share a place, the best one is drawn.

    The same INPUT gives the same bytes. Large inputs are aggregated, and the picture says how.
    """
    from astra_tacos.study.reporter.report import report as written

    is_default = click.core.ParameterSource.DEFAULT
    given = {name: value for name, value in options.items() if ctx.get_parameter_source(name) is not is_default}
    network = given.pop("network_path", None)
    reported = written(path, output, network=network, typed=typed_command(), progress=progress, **given)
    if as_json:
        print_json({"kind": reported.kind, "path": str(output), "size_bytes": reported.size_bytes})
    else:
        echo(f"written: {output} ({reported.kind}, {format_size(reported.size_bytes)})")
