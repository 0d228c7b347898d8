"""`astra-tacos compare --frontier`: algorithms of which none has fewer steps and fewer rounds."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.command import command
from astra_tacos.cli.console import compile_ahead, echo, print_json, print_rows, print_table, progress
from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.options import Size, json_option, network_option, output_option
from astra_tacos.cli.search_options import collective_options
from astra_tacos.collective import ROOTED
from astra_tacos.solver.first_use import CERTIFYING, CHECKING, REPLAYING, WRITING
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.files import replaced_directory

if TYPE_CHECKING:
    from astra_tacos.network.topology import Topology
    from astra_tacos.schedule.timing import LinkModel
    from astra_tacos.synthesizer.rounds.frontier import Task
    from astra_tacos.synthesizer.rounds.schedules import Algorithm

_MOST_CHUNKS = 8
_MOST_OF_PAIRS = 3
_MORE_STEPS = 2
_HEADER = ("chunks", "steps", "rounds", "rounds / chunk", "at least", "proven", "fastest from", "model ns", "schedule ns")


class Instance(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """`6,3,7`: chunks, steps and rounds."""

    name = "C,S,R"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int, int]:
        """Three whole numbers; see `click.ParamType`."""
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        if len(parts) != 3 or not all(part.strip().isdecimal() and 0 < int(part) < 1000 for part in parts):
            self.fail(f"found {value!r}, expected chunks, steps and rounds, like 6,3,7", param, ctx)
        chunks, steps, rounds = map(int, parts)
        return chunks, steps, rounds


@command()
@network_option
@collective_options
@click.option("--size", "size_bytes", type=Size(), default="1MiB", show_default=True, help="Size for the times that are shown.")
@click.option("--steps", type=click.IntRange(1), help=f"Most steps; by default {_MORE_STEPS} more than the network's diameter.")
@click.option(
    "--chunks",
    type=click.IntRange(1),
    help=f"Most chunks of an NPU that are tried; by default {_MOST_CHUNKS}, of an all-to-all {_MOST_OF_PAIRS} for each NPU.",
)
@click.option(
    "--point", type=Instance(), metavar="C,S,R", help="Only decide whether there is an algorithm of C chunks, S steps, R rounds."
)
@click.option(
    "--time-limit", "time_limit_s", type=float, default=30.0, show_default=True, metavar="SECONDS", help="For each instance."
)
@output_option("Write a run directory for each point here.")
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
    as_json: bool,
) -> None:
    """Find the algorithms of a collective of which none has fewer steps and fewer rounds per chunk, by integer programmes.

    A step takes a latency, and a round the time of a chunk on the slowest link. The relaxed programme says for each number of
    steps how many rounds per chunk any algorithm needs; a point that reaches this is proven. Links have to be direct, of equal
    latency, and of bandwidths that are multiples of the smallest one. An All-Reduce is composed of a Reduce-Scatter and an
    All-Gather. Every point becomes a schedule, which the oracle and the replay check.
    """
    from astra_tacos.network.composition import build_topology
    from astra_tacos.network.network_config import read_network
    from astra_tacos.synthesizer.rounds.frontier import Task
    from astra_tacos.synthesizer.rounds.lanes import lanes_of

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
    asked = _Asked(collective_name, root, most, steps or task.least_steps + _MORE_STEPS)
    compile_ahead(*CHECKING, *CERTIFYING, *REPLAYING, *(WRITING if output is not None else ()))
    found = _find(task, asked, topology, size_bytes, output)
    if as_json:
        print_json(found)
        return
    _print(found)


@dataclass(frozen=True, slots=True)
class _Asked:
    collective: str
    root: int | None
    most_chunks: int
    most_steps: int


def _decide(task: Task, point: tuple[int, int, int], as_json: bool) -> None:
    from astra_tacos.synthesizer.rounds.programme import Unknown

    chunks, steps, rounds = point
    if chunks % task.unit:
        raise ConfigError(f"{task.collective}: found {chunks} chunks, expected a multiple of {task.unit}, one for each NPU")
    least = task.bound(steps)
    answer, why = "feasible", "solved"
    try:
        with progress("solving"):
            if least is None or rounds < steps or rounds < least * chunks:
                answer = "infeasible"
                why = "bound" if least is not None else "too few steps to get there"
            elif task.decide(chunks, steps, rounds) is None:
                answer = "infeasible"
    except Unknown as error:
        answer, why = "undecided", str(error)
    result = {"chunks": chunks, "steps": steps, "rounds": rounds, "answer": answer, "why": why}
    result["least_rounds_per_chunk"] = None if least is None else float(least)
    if as_json:
        print_json(result)
    else:
        bound = "" if least is None else f"; {steps} steps need at least {least} rounds per chunk"
        echo(f"{chunks} chunks, {steps} steps, {rounds} rounds: {answer} ({why}){bound}")
    if answer != "feasible":
        raise click.exceptions.Exit(CHECK_FAILED)


def _find(task: Task, asked: _Asked, topology: Topology, size_bytes: int, output: Path | None) -> dict[str, Any]:
    """The frontier, its schedules and where they are written."""
    from astra_tacos.synthesizer.rounds.frontier import frontier as find_frontier
    from astra_tacos.synthesizer.rounds.programme import Unknown
    from astra_tacos.synthesizer.rounds.schedules import Algorithm, composed, crossovers

    algorithms: list[Algorithm] = []
    notes: list[str] = []
    with progress("solving"):
        for point in find_frontier(task, asked.most_chunks, asked.most_steps):
            phases: tuple[Any, ...] | None = (point,)
            if asked.collective == "all-reduce":
                try:
                    phases = composed(task, point)
                except Unknown:
                    phases = None
                if phases is None:
                    notes.append(f"no reduce-scatter was found like the all-gather of {point.steps} steps")
                    continue
            assert phases is not None
            algorithms.append(Algorithm(asked.collective, asked.root, phases))
    if not algorithms:
        raise SynthesisError(f"{asked.collective} on {topology.name}: no algorithm of up to {asked.most_steps} steps was found")
    least_ratio = task.bound(topology.num_npus)
    sizes = crossovers(algorithms, task.lanes)
    with replaced_directory(output) if output is not None else nullcontext() as folder:
        rows = [
            _row(algorithm, topology, task, size, size_bytes, folder) for algorithm, size in zip(algorithms, sizes, strict=True)
        ]
    for row in rows:
        notes += [f"{c} chunks, {row['steps']} steps, {r} rounds: not decided in time" for c, r in row["undecided"]]
    return {
        "network": topology.name,
        "collective": asked.collective,
        "root": asked.root,
        "num_npus": topology.num_npus,
        "size_bytes": size_bytes,
        "least_rounds_per_chunk": None if least_ratio is None else float(least_ratio * len(algorithms[0].points)),
        "most_chunks": asked.most_chunks * task.unit,
        "points": rows,
        "notes": notes,
        "output": None if output is None else str(output),
    }


def _row(
    algorithm: Algorithm, topology: Topology, task: Task, fastest_from: float, size_bytes: int, folder: Path | None
) -> dict[str, Any]:
    from astra_tacos.export.run_directory import write_run_directory
    from astra_tacos.solver.synthesize import check_schedule

    model: LinkModel = "pipelined"  # as in rounds, a chunk holds a link while it serialises
    try:
        schedule = algorithm.schedule(topology, size_bytes, model)
    except SynthesisError:
        model = "blocking"
        schedule = algorithm.schedule(topology, size_bytes, model)
    check_schedule(schedule)
    name = algorithm.name.replace(" ", "_").replace(",", "_")
    if folder is not None:
        write_run_directory(schedule, folder / name, check=False)
    last = algorithm.points[-1]
    return {
        "chunks": algorithm.chunks,
        "steps": algorithm.steps,
        "rounds": algorithm.rounds,
        "rounds_per_chunk": algorithm.rounds / algorithm.chunks,
        "least_rounds_per_chunk": float(last.least * len(algorithm.points)),
        "proven": last.is_proven,
        "undecided": [list(pair) for pair in last.undecided],
        "fastest_from_bytes": fastest_from,
        "model_ns": algorithm.time_ns(task.lanes, size_bytes),
        "predicted_ns": schedule.collective_time_ns,
        "link_model": model,
        "directory": name if folder is not None else None,
    }


def _print(found: dict[str, Any]) -> None:
    from astra_tacos.support.units import format_size

    least = found["least_rounds_per_chunk"]
    rows = [("network", f"{found['network']}, {found['num_npus']} NPUs"), ("collective", str(found["collective"]))]
    if least is not None:
        rows.append(("rounds per chunk", f"at least {least:.4g} in any number of steps"))
    rows += [("note", note) for note in found["notes"]]
    print_rows(rows)
    composed = found["collective"] == "all-reduce"
    table = []
    for row in found["points"]:
        proven = ("of compositions" if composed else "yes") if row["proven"] else f"up to {found['most_chunks']} chunks"
        proven = "no" if row["undecided"] else proven
        table.append(
            (
                str(row["chunks"]),
                str(row["steps"]),
                str(row["rounds"]),
                f"{row['rounds_per_chunk']:.4g}",
                f"{row['least_rounds_per_chunk']:.4g}",
                proven,
                format_size(round(row["fastest_from_bytes"])) if row["fastest_from_bytes"] else "0 B",
                f"{row['model_ns']:,.0f}",
                f"{row['predicted_ns']:,}",
            )
        )
    print_table(f"frontier (times of {format_size(found['size_bytes'])})", _HEADER, table)
    echo("\nmodel: rounds are synchronous; schedules start sends before their round where they can")
    if found["output"] is not None:
        echo(f"written: {found['output']}")
