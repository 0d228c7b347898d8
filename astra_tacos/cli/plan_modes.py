"""`astra-tacos plan --only-place` and `--endpoint`: where ranks sit, and what of an NPU communication takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, points_to_lint, print_json, print_rows, print_table, progress
from astra_tacos.cli.shared.options import RunFiles, backend_option, json_option, network_option, output_option, run_options
from astra_tacos.solver.first_use import PLANNING

if TYPE_CHECKING:
    from astra_tacos.planner.endpoint.endpoint import Divided, EndpointResult
    from astra_tacos.planner.place import PlaceResult
    from astra_tacos.run.backend import Backend

_path = click.Path(path_type=Path)
_MOST_PLACED = 10
_MOST_ROWS = 12


@command()
@run_options(required=True)
@network_option
@output_option("Write the placed run here.", required=True)
@backend_option()
@click.option(
    "--axes",
    metavar="AXES",
    help="Axes of parallelism like tp=2,dp=4, from the one that varies fastest with the rank; by default found from the groups.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the search without axes.")
@json_option
def only_place(
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
    astra-tacos plan --only-place --workload PREFIX --system S.json --network N.yml [--comm-group G.json] --output DIR

    All matrices that place the axes of parallelism over the dimensions of the network are scored by a model, and the best ones
    replayed; where groups are no products of axes, ranks are exchanged. DIR gets the run with other rank numbers and place.json.
    """
    from astra_tacos.planner.place import place
    from astra_tacos.planner.run_files import RunInputs
    from astra_tacos.run.placement_matrix import read_axes

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    named = None if axes is None else read_axes(axes)
    inputs = RunInputs(files.workload, files.system, network_path, files.comm_group, files.remote_memory, files.directory)
    compile_ahead(*PLANNING)
    with points_to_lint(), progress("placing") as on_progress:
        result = place(inputs, output, axes=named, backend=backend, seed=seed, on_progress=on_progress)
    if as_json:
        print_json(result.to_json() | {"output": str(output)})
        return
    _print_placed(result, output)


def _print_placed(result: PlaceResult, output: Path) -> None:
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
        for each in result.tried[:_MOST_PLACED]
    ]
    title = f"the best of {len(result.tried):,} placements by score (parts of each axis within each level, outermost first)"
    print_table(title, ("placement", "score ns", "end of the run ns"), shown)


@command()
@run_options(required=True)
@network_option
@output_option("Write the run here.", required=True)
@click.option(
    "--endpoint",
    "mode",
    type=click.Choice(("host", "ace", "ideal")),
    default="host",
    show_default=True,
    help="Who drives communication: cores of the NPU, an engine beside it (ACE), or nobody that takes anything.",
)
@click.option("--cores", type=click.IntRange(1), default=80, show_default=True, help="Cores of an NPU.")
@click.option("--core-bandwidth", type=float, default=79.68, show_default=True, metavar="GB/s", help="What a core moves.")
@click.option("--npu-memory", type=float, default=900.0, show_default=True, metavar="GB/s", help="Memory bandwidth of an NPU.")
@click.option("--peak", type=float, metavar="TFLOP/s", help="Peak performance of an NPU; by default that of the system file.")
@click.option("--comm-cores", type=click.IntRange(0), help="Cores that communicate; by default the best number of those tried.")
@click.option("--comm-memory", type=float, metavar="GB/s", help="Memory bandwidth that communication gets; by default the best.")
@backend_option()
@json_option
def endpoint(
    files: RunFiles,
    network_path: Path | None,
    output: Path,
    mode: str,
    cores: int,
    core_bandwidth: float,
    npu_memory: float,
    peak: float | None,
    comm_cores: int | None,
    comm_memory: float | None,
    backend: Backend | None,
    as_json: bool,
) -> None:
    """Divide the NPUs of a run between compute and communication, and write the best division as ordinary inputs.

    \b
    astra-tacos plan --workload PREFIX --system S.json --network N.yml [--comm-group G.json] --endpoint host --output DIR

    Communication by the host takes cores and memory bandwidth, by an engine (ACE) memory bandwidth alone. What is left computes.
    """
    from astra_tacos.planner.endpoint.endpoint import divide_endpoint
    from astra_tacos.planner.endpoint.npu import Mode, Npu, Partition
    from astra_tacos.planner.run_files import RunInputs

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    if mode == "ace" and comm_cores:
        raise click.UsageError("Got --comm-cores, expected --comm-memory alone: an engine (ace) takes no cores.")
    if comm_memory is None and comm_cores is not None:
        raise click.UsageError("Got --comm-cores without --comm-memory, expected both or none.")
    if mode == "host" and comm_memory is not None and comm_cores is None:
        raise click.UsageError("Got --comm-memory without --comm-cores, expected both or none.")
    inputs = RunInputs(files.workload, files.system, network_path, files.comm_group, files.remote_memory, files.directory)
    partition = None if comm_memory is None else Partition(comm_cores or 0, comm_memory)
    npu = Npu(cores, core_bandwidth, npu_memory, peak)
    if partition is not None:
        npu.check(partition, Mode(mode))
    compile_ahead(*PLANNING)
    with points_to_lint(), progress("trying partitions") as on_progress:
        result = divide_endpoint(inputs, output, mode, npu, partition, backend=backend, on_progress=on_progress)
    if as_json:
        print_json({"endpoint": result.to_json(), "output": str(output)})
        return
    _print_divided(result, output)


def _print_divided(result: EndpointResult, output: Path) -> None:
    from astra_tacos.planner.endpoint.npu import Mode

    best = result.written
    ideal = result.tried[-1]
    reads = {mode: result.traffic.read_per_sent_byte(mode) for mode in (Mode.HOST, Mode.ACE)}
    print_rows(
        [
            ("written", f"{best.mode}: {best.partition}"),
            ("links of an NPU", f"{result.links_gbps:,.1f} GB/s, of which it drives {best.network_gbps:,.1f} GB/s"),
            ("reads per byte sent", ", ".join(f"{value:.3f} ({mode})" for mode, value in reads.items())),
            (
                "memory for all links",
                ", ".join(f"{value * result.links_gbps:,.1f} GB/s ({mode})" for mode, value in reads.items()),
            ),
            ("end of the run", f"{best.end_ns:,} ns, always divided; {ideal.end_ns:,} ns with an ideal endpoint"),
            ("never overlapping", f"{result.in_turn_ns:,} ns, with all resources in turn"),
            ("files", str(output)),
        ]
    )
    rows = sorted(result.tried, key=lambda one: one.end_ns)
    shown = [*rows[:_MOST_ROWS], *(one for one in rows[_MOST_ROWS:] if one is best)]
    header = ("endpoint", "cores", "memory GB/s", "network GB/s", "end ns", "exposed ns", "network use")
    print_table(f"partitions ({len(shown)} of {len(rows)}; plan.json has all)", header, map(_row, shown))


def _row(one: Divided) -> tuple[str, ...]:
    return (
        str(one.mode),
        str(one.partition.cores),
        f"{one.partition.memory_gbps:,.1f}",
        f"{one.network_gbps:,.1f}",
        f"{one.end_ns:,}",
        f"{one.exposed_ns:,}",
        f"{one.network_use:.1%}",
    )
