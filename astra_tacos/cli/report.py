"""`astra-tacos report`: a page or a figure of what another command wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.shared.command import command, typed_command
from astra_tacos.cli.shared.console import echo, print_json, progress
from astra_tacos.cli.shared.options import OUTPUT, PATH, json_option, network_option
from astra_tacos.pages.style import FORMATS, WIDTHS, check_figure
from astra_tacos.pages.sweep_choice import CONDITION
from astra_tacos.study.reporter.figure import KINDS
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size

_PAGE = ".html"
_PAGE_OPTIONS = {
    "title": click.option("--title", help="Heading of the page."),
    "compare": click.option(
        "--compare/--no-compare",
        default=True,
        help="Compare a schedule with the predefined algorithms (takes seconds).",
    ),
    "network_path": network_option,
}
_FIGURE_OPTIONS = {
    "kind": click.option("--kind", type=click.Choice(KINDS), help="Kind of figure; by default the kind that fits INPUT."),
    "width": click.option(
        "--width",
        type=click.Choice(WIDTHS),
        default="double",
        show_default=True,
        help="Width of the figure: one or two columns of a paper.",
    ),
    "chunk": click.option(
        "--chunk",
        type=int,
        metavar="N",
        help="timeline: highlight the sends of this chunk; tree: draw this chunk of NPU 0, by default 0.",
    ),
    "most": click.option("--most", type=click.IntRange(2, 60), default=12, show_default=True, help="policies: number of bars."),
    "x": click.option("--x", metavar="COLUMN", help="Sweep: column along the x axis."),
    "y": click.option("--y", metavar="COLUMN", help="Sweep: column along the y axis."),
    "value": click.option("--value", metavar="COLUMN", help="heatmap: column that the colours show."),
    "by": click.option("--by", metavar="COLUMN", help="lines, pareto: column that distinguishes lines or colours."),
}
_COMMON_OPTIONS = {
    "where": click.option(
        "--where", metavar="EXPR", help=f"Sweep: show only points for which this expression is true: {CONDITION} (bytes)."
    ),
}


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((_PAGE_OPTIONS | _FIGURE_OPTIONS | _COMMON_OPTIONS).values()):
        command = option(command)
    return command


class _Output(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A page or a figure to write; a figure is checked before anything is read."""

    name = "file"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path of a file whose name ends as one that is known; see `click.ParamType`."""
        path = OUTPUT.convert(value, param, ctx)
        if path.suffix.lower() in FORMATS:
            check_figure(path)
        elif path.suffix.lower() != _PAGE:
            raise ConfigError(f"{path}: expected a name that ends in {', '.join((_PAGE, *FORMATS))}")
        return path


@command()
@click.argument("path", type=PATH, metavar="INPUT")
@click.option(
    "-o",
    "--output",
    type=_Output(),
    metavar="FILE",
    default="report.html",
    show_default=True,
    help=f"File to write: {_PAGE}, {', '.join(FORMATS)}.",
)
@_options
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
