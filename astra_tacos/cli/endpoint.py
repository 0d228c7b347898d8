"""`astra-tacos endpoint`: a run whose NPUs give cores and memory bandwidth to communication."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.console import compile_ahead, points_to_lint, print_json, print_rows, print_table, progress
from astra_tacos.cli.options import RunFiles, backend_option, json_option, network_option, run_options
from astra_tacos.solver.first_use import PLANNING

if TYPE_CHECKING:
    from astra_tacos.planner.endpoint.endpoint import Divided, EndpointResult
    from astra_tacos.run.backend import Backend

_path = click.Path(path_type=Path)
_MOST_ROWS = 12


@click.command()
@run_options(required=True)
@network_option
@click.option("--output", type=_path, required=True, metavar="DIR", help="Write the run here.")
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
    astra-tacos endpoint --workload PREFIX --system S.json --network N.yml [--comm-group G.json] --endpoint host --output DIR

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
    _print(result, output)


def _print(result: EndpointResult, output: Path) -> None:
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
