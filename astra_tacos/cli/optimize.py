"""`astra-tacos optimize`: the best split of bandwidth over the dimensions of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import compile_ahead, print_json, print_rows, print_table, progress
from astra_tacos.cli.shared.options import json_option, network_option, output_option
from astra_tacos.solver.first_use import ALL_SEARCHING
from astra_tacos.support.errors import ConfigError

_file = click.Path(path_type=Path)


@command()
@click.option("--libra-network", type=_file, metavar="FILE", help="LIBRA's network YAML: shape and tiers, no bandwidths.")
@click.option("--communicator", type=_file, metavar="FILE", help="LIBRA's communicator YAML: members per dimension.")
@network_option
@click.option(
    "--workload", type=_file, required=True, metavar="FILE|PREFIX", help="LIBRA's workload text, or traces: PREFIX.0.et, ..."
)
@click.option("--system", type=_file, metavar="FILE", help="System JSON of a run.")
@click.option("--comm-group", type=_file, metavar="FILE", help="Communicator group JSON of a run.")
@click.option("--remote-memory", type=_file, metavar="FILE", help="Remote memory JSON of a run.")
@click.option(
    "--directory",
    type=_file,
    default=Path(),
    metavar="DIR",
    help="Directory in which ASTRA-sim is started; by default the current one.",
)
@click.option("--cost-model", type=_file, metavar="FILE", help="Cost model YAML: dollars per GB/s of each tier's parts.")
@click.option(
    "--objective", type=click.Choice(("time", "time-cost")), default="time", show_default=True, help="Quantity to minimise."
)
@click.option("--total-bandwidth", type=float, metavar="GB/s", help="Exact total of one NPU over all dimensions; 10^9 bytes/s.")
@click.option("--budget-cost", type=float, metavar="$", help="Highest cost of the network.")
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="EXPR",
    help='Linear constraint: "B1 + B2 <= 300", "B0 >= B1"; repeatable.',
)
@click.option(
    "--min-bandwidth", type=float, default=0.1, show_default=True, metavar="GB/s", help="Least bandwidth of every dimension."
)
@click.option(
    "--latency", type=float, default=500.0, show_default=True, metavar="NS", help="Latency of a link in LIBRA's networks."
)
@click.option(
    "--refine",
    "refines",
    is_flag=True,
    help="Refine the split by times of synthesized schedules instead of bytes over bandwidth.",
)
@click.option("--refine-steps", type=click.IntRange(1, 1000), default=10, show_default=True, help="Most splits to try.")
@click.option(
    "--refine-max-npus",
    type=click.IntRange(2, 4096),
    default=256,
    show_default=True,
    help="Groups of more NPUs are timed dimension by dimension.",
)
@click.option(
    "--synthesizer",
    "synthesizers",
    multiple=True,
    default=("tacos", "themis"),
    show_default=True,
    help="Synthesizer for --refine; repeatable, the fastest schedule counts.",
)
@click.option(
    "--chunks-per-npu", type=click.IntRange(1, 1024), help="Chunks per NPU for --refine; by default 1 to 16, by the group's size."
)
@click.option("--trials", type=click.IntRange(1), default=1, show_default=True, help="Seeds to try for each schedule.")
@click.option("--seed", type=click.IntRange(0, (1 << 62) - 1), default=0, show_default=True, help="First seed.")
@output_option("Write the network with the best split, as ASTRA-sim reads it.", "FILE")
@json_option
def optimize(
    libra_network: Path | None,
    communicator: Path | None,
    network_path: Path | None,
    workload: Path,
    system: Path | None,
    comm_group: Path | None,
    remote_memory: Path | None,
    directory: Path,
    cost_model: Path | None,
    objective: str,
    total_bandwidth: float | None,
    budget_cost: float | None,
    constraints: tuple[str, ...],
    min_bandwidth: float,
    latency: float,
    refines: bool,
    refine_steps: int,
    refine_max_npus: int,
    synthesizers: tuple[str, ...],
    chunks_per_npu: int | None,
    trials: int,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find the best bandwidth of each dimension of a network, for a workload and a budget.

    \b
    LIBRA's files:  astra-tacos optimize --libra-network N.yml --communicator C.yml --workload W.txt --cost-model M.yml \\
                      --total-bandwidth 500
    ASTRA-sim's:    astra-tacos optimize --network N.yml --workload PREFIX --system S.json --comm-group G.json

    Bandwidths are decimal GB/s that an NPU sends into a dimension; B0 is the first. Without a budget, --network splits its own
    total again. The time is that of a step without overlap: compute, then one collective after the other.
    """
    from astra_tacos.study.optimizer.libra_files import read_cost_model
    from astra_tacos.study.optimizer.measure import Synthesis, check_synthesis
    from astra_tacos.study.optimizer.problem import Limits, make_problem
    from astra_tacos.study.optimizer.result import BEST, REFINED, model_result, refined
    from astra_tacos.synthesizer.search.search_options import SearchOptions

    if (libra_network is None) == (network_path is None):
        raise click.UsageError("Expected one of '--libra-network' and '--network'.")
    synthesis = Synthesis(
        synthesizers, SearchOptions(chunks_per_npu=chunks_per_npu or "auto", trials=trials, seed=seed), refine_max_npus
    )
    check_synthesis(synthesis)
    _check_output(output, (libra_network, communicator, network_path, workload, system, comm_group, remote_memory, cost_model))
    prices = None if cost_model is None else read_cost_model(cost_model)
    limits = Limits(objective, prices, total_bandwidth, budget_cost, constraints, min_bandwidth)
    current = None
    with progress("reading"):
        if libra_network is not None:
            if communicator is None:
                raise click.UsageError("Missing option '--communicator'.")
            if system or comm_group or remote_memory:
                raise click.UsageError("--system, --comm-group and --remote-memory are for traces: give --network.")
            shape, job = _read_libra(libra_network, communicator, workload, latency)
        else:
            if system is None:
                raise click.UsageError("Missing option '--system'.")
            if communicator is not None:
                raise click.UsageError("--communicator is for LIBRA's workloads: give --libra-network, or --comm-group.")
            shape, job, current = _read_run(workload, system, network_path, comm_group, remote_memory, directory)
    problem = make_problem(shape, job, limits, current)
    with progress("solving"):
        solution = problem.solve(problem.model, problem.space)
    result = model_result(problem, solution)
    split = result["splits"][BEST]["bandwidth_gbps"]
    if refines:
        compile_ahead(*ALL_SEARCHING)
        with progress("refining") as advance:
            result["refine"] = refined(problem, solution.split, synthesis, refine_steps, advance)
        split = result["refine"]["splits"][REFINED]["bandwidth_gbps"]
    if output is not None:
        from astra_tacos.support.files import replaced_file

        with replaced_file(output) as temporary:
            temporary.write_text(shape.to_yaml(split), encoding="utf-8")
        result["output"] = str(output)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _check_output(output: Path | None, inputs: tuple[Path | None, ...]) -> None:
    if output is None:
        return
    if not output.name or output.is_dir():
        raise ConfigError(f"{output}: is a directory, expected a file to write")
    if output.resolve() in {path.resolve() for path in inputs if path is not None}:
        raise click.UsageError(f"{output} is given twice: the output would replace an input.")


def _read_libra(network: Path, communicator: Path, workload: Path, latency: float) -> tuple[Any, Any]:
    from astra_tacos.study.optimizer.libra_files import read_communicator, read_libra_network, read_libra_workload

    if not 0 <= latency < 1e12:
        raise ConfigError(f"latency: found {latency:g}, expected a number of ns, 0 or more")
    shape = read_libra_network(network, latency)
    return shape, read_libra_workload(workload, shape, read_communicator(communicator, shape))


def _read_run(
    workload: Path, system: Path, network: Path | None, groups: Path | None, memory: Path | None, directory: Path
) -> tuple[Any, Any, tuple[float, ...]]:
    from astra_tacos.run.run import read_run
    from astra_tacos.study.optimizer.shape import network_shape
    from astra_tacos.study.optimizer.trace_job import trace_job

    assert network is not None  # the caller has checked
    run = read_run(workload, system, network, groups, memory, directory)
    shape, current = network_shape(run.network)
    return shape, trace_job(run, shape), current


def _print(result: dict[str, Any]) -> None:
    from astra_tacos.study.optimizer.result import demand_table, split_table, summary_rows

    rows = summary_rows(result)
    if "output" in result:
        rows.append(("wrote", result["output"]))
    print_rows(rows)
    print_table("Splits by bytes over bandwidth", *split_table(result["splits"]))
    print_table("Communication at the best split", *demand_table(result))
    if "refine" in result:
        timed = result["refine"]
        made = f"{timed['num_schedules']} schedules of {', '.join(timed['synthesizers'])}"
        print_table(f"Splits by {made}", *split_table(timed["splits"]))
        print_rows([(f"refined over {name}", f"{gain:.3f} x") for name, gain in timed["gain"].items()])
