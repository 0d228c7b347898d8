"""`astra-tacos plan --only-place`, `--endpoint`, and of compact runs: where ranks are, what communication takes, many ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, points_to_lint, print_json, print_result, progress
from astra_tacos.cli.shared.options import (
    backend_option,
    json_option,
    output_option,
    run_options,
)
from astra_tacos.run.backend import BACKENDS
from astra_tacos.solver.first_use import PLANNING
from astra_tacos.support.rows import Row

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend
    from astra_tacos.run.directory import CompactInputs
    from astra_tacos.run.run import RunInputs


@command()
@run_options(required=True)
@output_option("Write the placed run here.", required=True)
@backend_option()
@click.option(
    "--axes",
    metavar="AXES",
    help="Axes of parallelism like tp=2,dp=4, the fastest-varying axis first; by default found from the groups.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the search, which runs without --axes."
)
@json_option
def only_place(
    inputs: RunInputs,
    output: Path,
    backend: Backend | None,
    axes: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Place the ranks of a training run on the NPUs on which the run ends earliest, and write the placed run.

    \b
    astra-tacos plan --only-place DIR --output PLACED
    astra-tacos plan --only-place --workload PREFIX --system S.json --network N.yml [--comm-group G.json] --output PLACED

    A model scores every placement of the axes of parallelism over the dimensions of the network, and the best placements are
    replayed. If groups are no products of axes, pairs of ranks are exchanged instead. PLACED gets the run with new rank numbers,
    and place.json.
    """
    from astra_tacos.planner.place import place
    from astra_tacos.run.placement_matrix import read_axes

    named = None if axes is None else read_axes(axes)
    compile_ahead(*PLANNING)
    with points_to_lint(), progress("placing") as on_progress:
        result = place(inputs, output, axes=named, backend=backend, seed=seed, on_progress=on_progress)
    if as_json:
        print_json(result.to_json() | {"output": str(output)})
        return
    print_result(result, files=[Row("files", str(output))])


@command()
@run_options(required=True)
@output_option("Write the run here.", required=True)
@click.option(
    "--endpoint",
    "mode",
    type=click.Choice(("host", "ace", "ideal")),
    default="host",
    show_default=True,
    help="What drives communication: cores of the NPU, an engine beside the NPU (ACE), or an ideal endpoint without cost.",
)
@click.option("--cores", type=click.IntRange(1), default=80, show_default=True, help="Number of cores of an NPU.")
@click.option(
    "--core-bandwidth", type=float, default=79.68, show_default=True, metavar="GB/s", help="Bandwidth that a core can move."
)
@click.option("--npu-memory", type=float, default=900.0, show_default=True, metavar="GB/s", help="Memory bandwidth of an NPU.")
@click.option(
    "--peak", type=float, metavar="TFLOP/s", help="Peak performance of an NPU; by default peak-perf of the system file."
)
@click.option(
    "--comm-cores", type=click.IntRange(0), help="Number of cores that communicate; by default the best number is searched."
)
@click.option(
    "--comm-memory",
    type=float,
    metavar="GB/s",
    help="Memory bandwidth that communication gets; by default the best bandwidth is searched.",
)
@backend_option()
@json_option
def endpoint(
    inputs: RunInputs,
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
    astra-tacos plan --endpoint host DIR --output DIVIDED
    astra-tacos plan --endpoint host --workload PREFIX --system S.json --network N.yml [--comm-group G.json] --output DIVIDED

    Communication by the host takes cores and memory bandwidth; communication by an engine (ACE) takes memory bandwidth only. The
    remaining resources compute.
    """
    from astra_tacos.planner.endpoint.endpoint import divide_endpoint
    from astra_tacos.planner.endpoint.npu import Mode, Npu, Partition

    if mode == "ace" and comm_cores:
        raise click.UsageError("Got --comm-cores, expected --comm-memory alone: an engine (ace) takes no cores.")
    if comm_memory is None and comm_cores is not None:
        raise click.UsageError("Got --comm-cores without --comm-memory, expected both or none.")
    if mode == "host" and comm_memory is not None and comm_cores is None:
        raise click.UsageError("Got --comm-memory without --comm-cores, expected both or none.")
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
    print_result(result, files=[Row("files", str(output))])


_OF_COMPACT = ("path", "workload", "network", "output", "backend", "baseline", "effort", "verbose", "as_json")
"""Parameters of `plan` that a compact run has a use for."""


def refuse_others(inputs: CompactInputs) -> None:
    """Refuse options of `plan` that say nothing about a compact run."""
    context = click.get_current_context()
    names = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in _OF_COMPACT
        and context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE
    ]
    backend = context.params["backend"]
    names += [f"--backend {backend}"] if backend not in (None, *BACKENDS) else []
    if names:
        names_text = ", ".join(names)
        raise click.UsageError(
            f"{names_text}: {inputs.folder} is a compact run, expected --network, --backend, --baseline and --effort."
        )
