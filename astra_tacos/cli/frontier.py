"""`astra-tacos compare --frontier`: algorithms that no other beats in both steps and rounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import (
    compile_ahead,
    echo,
    print_json,
    print_result,
    progress,
)
from astra_tacos.cli.shared.options import INSTANCE, SIZE, json_option, network_option, output_option, verbose_option
from astra_tacos.cli.shared.search_options import collective_options
from astra_tacos.collective import ROOTED
from astra_tacos.solver.first_use import CERTIFYING, CHECKING, REPLAYING, WRITING
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.synthesizer.parts.frontier import Task

_MOST_CHUNKS = 8
"""Of an NPU, by default; --chunks allows more."""
_MOST_OF_PAIRS = 3
"""Of each pair of an all-to-all, by default."""
_MORE_STEPS = 2
"""Than the diameter, by default."""


@command()
@network_option
@collective_options
@click.option(
    "--size",
    "size_bytes",
    type=SIZE,
    default="1MiB",
    show_default=True,
    help="Size of the collective, for the times in the table.",
)
@click.option("--steps", type=click.IntRange(1), help=f"Most steps; by default {_MORE_STEPS} more than the network's diameter.")
@click.option(
    "--chunks",
    type=click.IntRange(1, 1024),
    help=f"Most chunks per NPU to try; by default {_MOST_CHUNKS}, of an all-to-all {_MOST_OF_PAIRS} for each NPU.",
)
@click.option(
    "--point", type=INSTANCE, metavar="C,S,R", help="Only decide whether an algorithm of C chunks, S steps and R rounds exists."
)
@click.option(
    "--time-limit", "time_limit_s", type=float, default=30.0, show_default=True, metavar="SECONDS", help="For each instance."
)
@output_option("Write a run directory for each point here.")
@verbose_option
@json_option
def frontier(
    network_path: Path | None,
    collective_name: str,
    root: int | None,
    size_bytes: int,
    steps: int | None,
    chunks: int | None,
    point: tuple[int, int, int] | None,
    time_limit_s: float,
    output: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Find the algorithms of a collective that trade steps against rounds per chunk best, by integer programmes.

    A step takes a latency, and a round the time of a chunk on the slowest link. For each number of steps, the relaxed programme
    bounds the rounds per chunk of every algorithm; a point that reaches this bound is proven optimal. Links must be direct, of
    equal latency, and of bandwidths that are multiples of the smallest bandwidth. An All-Reduce is composed of a Reduce-Scatter
    and an All-Gather. Every point becomes a schedule, which the oracle and the replay check.
    """
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import read_network
    from astra_tacos.solver.frontier import find_frontier, frontier_answer
    from astra_tacos.synthesizer.parts.frontier import Task
    from astra_tacos.synthesizer.parts.lanes import lanes_of

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    if not time_limit_s > 0:
        raise click.UsageError(f"--time-limit: found {time_limit_s:g}, expected more than 0 seconds.")
    topology = build_topology(read_network(network_path))
    lanes = lanes_of(topology)
    if topology.num_npus < 2:
        raise ConfigError(f"{topology.name}: has {topology.num_npus} NPUs, expected at least 2")
    if collective_name in ROOTED:
        root = root or 0
        if root >= topology.num_npus:
            raise ConfigError(f"{collective_name}: found root {root}, expected an NPU, 0 to {topology.num_npus - 1}")
    if collective_name == "all-reduce" and point is not None:
        raise click.UsageError("--point: an all-reduce is a reduce-scatter and an all-gather: ask for those.")
    task = Task(lanes, "all-gather" if collective_name == "all-reduce" else collective_name, root, time_limit_s)
    if point is not None:
        _decide(task, point, as_json)
        return
    if output is not None and output.exists():
        raise ConfigError(f"{output}: exists, expected a directory to be made")
    most = chunks or (_MOST_CHUNKS if task.unit == 1 else _MOST_OF_PAIRS)
    most_steps = steps or task.least_steps + _MORE_STEPS
    compile_ahead(*CHECKING, *CERTIFYING, *REPLAYING, *(WRITING if output is not None else ()))
    with progress("solving"):
        document = find_frontier(task, topology, collective_name, size_bytes, most, most_steps, output)
    if as_json:
        print_json(document)
        return
    print_result(frontier_answer(document), verbose=verbose)


def _decide(task: Task, point: tuple[int, int, int], as_json: bool) -> None:
    from astra_tacos.solver.frontier import FEASIBLE, decide

    with progress("solving"):
        result = decide(task, *point)
    if as_json:
        print_json(result)
    else:
        least, steps = result["least_rounds_per_chunk"], result["steps"]
        bound = "" if least is None else f"; {steps} steps need at least {task.bound(steps)} rounds per chunk"
        echo(f"{result['chunks']} chunks, {steps} steps, {result['rounds']} rounds: {result['answer']} ({result['why']}){bound}")
    if result["answer"] != FEASIBLE:
        raise click.exceptions.Exit(CHECK_FAILED)
