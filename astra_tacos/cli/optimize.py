"""`astra-tacos optimize`: the best split of bandwidth over the dimensions of a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import print_json, print_result, progress
from astra_tacos.cli.shared.options import (
    PATH,
    as_directory,
    backend_option,
    directory_argument,
    find_given,
    json_option,
    network_option,
    output_option,
    verbose_option,
)
from astra_tacos.support.files import check_apart
from astra_tacos.support.rows import Row

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend
    from astra_tacos.study.optimizer.problem import ProblemFiles


_OF_FILES = ("libra_network", "communicator", "workload", "system", "groups", "remote_memory", "directory", "latency_ns")


@command()
@directory_argument
@click.option("--libra-network", type=PATH, metavar="FILE", help="LIBRA's network YAML: shape and tiers, no bandwidths.")
@click.option("--communicator", type=PATH, metavar="FILE", help="LIBRA's communicator YAML: members per dimension.")
@network_option
@click.option(
    "--workload",
    type=PATH,
    metavar="FILE|PREFIX",
    help="LIBRA's workload text, or traces (PREFIX.0.et, ...).",
)
@click.option("--system", type=PATH, metavar="FILE", help="System JSON of a run.")
@click.option("--comm-group", "groups", type=PATH, metavar="FILE", help="Communicator group JSON of a run.")
@click.option("--remote-memory", type=PATH, metavar="FILE", help="Remote memory JSON of a run.")
@click.option(
    "--directory",
    type=PATH,
    metavar="DIR",
    help="Directory in which ASTRA-sim is started; by default DIR, or with --workload the current directory.",
)
@click.option("--cost-model", type=PATH, metavar="FILE", help="Cost model YAML: dollars per GB/s of each tier's parts.")
@click.option(
    "--objective", type=click.Choice(("time", "time-cost")), default="time", show_default=True, help="Quantity to minimise."
)
@click.option(
    "--total-bandwidth",
    type=float,
    metavar="GB/s",
    help="Total bandwidth of an NPU over all dimensions, which is used up; 10^9 bytes/s.",
)
@click.option("--budget-cost", type=float, metavar="$", help="Highest cost of the network.")
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="EXPR",
    help='Linear constraint: "B1 + B2 <= 300", "B0 >= B1"; may be given several times.',
)
@click.option(
    "--min-bandwidth", type=float, default=0.1, show_default=True, metavar="GB/s", help="Least bandwidth of every dimension."
)
@click.option(
    "--latency",
    "latency_ns",
    type=float,
    default=500.0,
    show_default=True,
    metavar="NS",
    help="Latency of a link in LIBRA's networks.",
)
@click.option(
    "--refine",
    type=click.Choice(("schedules", "replays")),
    is_flag=False,
    flag_value="schedules",
    help="Refine the split by times of synthesized schedules (the default) or by replays of the whole step, with overlap.",
)
@click.option("--refine-steps", type=click.IntRange(1, 1000), default=10, show_default=True, help="Most splits to try.")
@click.option(
    "--refine-max-npus",
    type=click.IntRange(2, 4096),
    default=256,
    show_default=True,
    help="Time groups of more NPUs dimension by dimension.",
)
@click.option(
    "--synthesizer",
    "synthesizers",
    multiple=True,
    default=("tacos", "themis"),
    show_default=True,
    help="Synthesizer for --refine; may be given several times, the fastest schedule counts.",
)
@click.option(
    "--chunks-per-npu",
    type=click.IntRange(1, 1024),
    help="Chunks per NPU for --refine; by default 1 to 16, chosen by the group's size.",
)
@click.option("--trials", type=click.IntRange(1), default=1, show_default=True, help="Seeds to try for each schedule.")
@click.option("--seed", type=click.IntRange(0, (1 << 62) - 1), default=0, show_default=True, help="First seed.")
@backend_option(default="by default congestion-aware. Only for --refine replays.")
@output_option("Write the network with the best split, as ASTRA-sim reads it.", "FILE")
@verbose_option
@json_option
def optimize(
    path: Path | None,
    network_path: Path | None,
    cost_model: Path | None,
    backend: Backend | None,
    output: Path | None,
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the best bandwidth of each dimension of a network, for a workload and a budget.

    \b
    LIBRA's files:  astra-tacos optimize --libra-network N.yml --communicator C.yml --workload W.txt --cost-model M.yml \\
                      --total-bandwidth 500
    ASTRA-sim's:    astra-tacos optimize DIR
                    astra-tacos optimize --network N.yml --workload PREFIX --system S.json --comm-group G.json

    Bandwidths are decimal GB/s that an NPU sends into a dimension; B0 is the first. Without a budget, --network splits its own
    total again. The time is that of a step without overlap: compute, then one collective after the other.
    """
    from astra_tacos.study.optimizer.optimize import optimize as best_split

    if backend is not None and options["refine"] != "replays":
        raise click.UsageError("--backend is for --refine replays.")
    files = _files(path, network_path, **{name: options.pop(name) for name in _OF_FILES})
    if options["refine"] == "replays" and files.libra_network is not None:
        raise click.UsageError("--refine replays needs a run: LIBRA's files have no traces.")
    check_apart([output], [cost_model, *files.inputs])
    optimum = best_split(files, cost_model=cost_model, backend=backend, progress=progress, **options)
    wrote = {} if output is None else {"output": str(optimum.write(output))}
    if as_json:
        print_json(optimum.figures | wrote)
    else:
        print_result(optimum, verbose=verbose, files=[Row("files", path) for path in wrote.values()])


def _files(
    path: Path | None,
    network: Path | None,
    *,
    workload: Path | None,
    system: Path | None,
    groups: Path | None,
    remote_memory: Path | None,
    directory: Path | None,
    **of_libra: Any,
) -> ProblemFiles:
    """The files of the problem: LIBRA's, or those of a run."""
    from astra_tacos.run.directory import Given
    from astra_tacos.study.optimizer.problem import ProblemFiles

    given = Given(
        workload=workload, system=system, network=network, groups=groups, remote_memory=remote_memory, directory=directory
    )
    path, given = as_directory(path, given)
    if path is not None:
        if of_libra["libra_network"] is not None:
            raise click.UsageError("--libra-network is for LIBRA's workload texts (--workload FILE): a run has --network.")
        return ProblemFiles.of_run(find_given(path, given), **of_libra)
    if workload is None:
        raise click.UsageError("Missing DIR, the directory of a run, or --workload.")
    return ProblemFiles(
        workload,
        network=network,
        system=system,
        groups=groups,
        remote_memory=remote_memory,
        directory=directory or Path(),
        **of_libra,
    )
