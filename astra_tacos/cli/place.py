"""`astra-tacos place`: which rank of a training run sits on which NPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.console import compile_ahead, points_to_lint, print_json, print_rows, print_table, progress
from astra_tacos.cli.options import RunFiles, backend_option, json_option, network_option, run_options
from astra_tacos.solver.first_use import PLANNING

if TYPE_CHECKING:
    from astra_tacos.planner.place import PlaceResult
    from astra_tacos.run.backend import Backend

_path = click.Path(path_type=Path)
_SHOWN = 10


@click.command()
@run_options(required=True)
@network_option
@click.option("--output", type=_path, required=True, metavar="DIR", help="Write the placed run here.")
@backend_option()
@click.option(
    "--axes",
    metavar="AXES",
    help="Axes of parallelism like tp=2,dp=4, from the one that varies fastest with the rank; by default found from the groups.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the search without axes.")
@json_option
def place(
    files: RunFiles,
    network_path: Path | None,
    output: Path,
    backend: Backend | None,
    axes: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Put the ranks of a training run where it ends earliest, and write the run with its ranks there.

    \b
    astra-tacos place --workload PREFIX --system S.json --network N.yml [--comm-group G.json] --output DIR

    All matrices that place the axes of parallelism over the dimensions of the network are scored by a model, and the best ones
    replayed; where groups are no products of axes, ranks are exchanged. DIR gets the run with other rank numbers and place.json.
    """
    from astra_tacos.planner.place import place as find_place
    from astra_tacos.planner.run_files import RunInputs
    from astra_tacos.run.placement_matrix import read_axes

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    named = None if axes is None else read_axes(axes)
    inputs = RunInputs(files.workload, files.system, network_path, files.comm_group, files.remote_memory, files.directory)
    compile_ahead(*PLANNING)
    with points_to_lint(), progress("placing") as on_progress:
        result = find_place(inputs, output, axes=named, backend=backend, seed=seed, on_progress=on_progress)
    if as_json:
        print_json(result.to_json() | {"output": str(output)})
        return
    _print(result, output)


def _print(result: PlaceResult, output: Path) -> None:
    from astra_tacos.planner.place import describe

    axes = ", ".join(f"{axis.name} {axis.size}" for axis in result.axes)
    levels = " x ".join(map(str, result.levels))
    rows = [("axes", axes or "none: the groups are no products of axes"), ("levels", f"{levels}, outermost first")]
    ends = ["does not end" if each.end_ns is None else f"{each.end_ns:,} ns" for each in (result.own, result.best)]
    rows.append(("end of the run", f"{ends[0]} -> {ends[1]} ({result.backend}, the run's own collectives)"))
    rows.append(("placement", result.name))
    if result.speed_up is not None:
        rows.append(("speed-up", f"{result.speed_up:.3f}"))
    rows.append(("files", str(output)))
    print_rows(rows)
    shown = [
        (describe(each.matrix, result.axes), f"{each.score_ns:,.0f}", "-" if each.end_ns is None else f"{each.end_ns:,}")
        for each in result.tried[:_SHOWN]
    ]
    title = f"the best of {len(result.tried):,} placements by score (parts of each axis within each level, outermost first)"
    print_table(title, ("placement", "score ns", "end of the run ns"), shown)
