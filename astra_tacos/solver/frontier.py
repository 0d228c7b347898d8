"""Frontiers of steps and rounds as verified schedules: the product of `compare --frontier`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.support.files import replaced_directory
from astra_tacos.support.rows import Answer, Row, Table, detail, notes_of
from astra_tacos.support.units import format_size
from astra_tacos.synthesizer.parts.frontier import Algorithm, Task, composed, crossovers, frontier
from astra_tacos.synthesizer.parts.rounds import Unknown

if TYPE_CHECKING:
    from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import LinkModel

FEASIBLE = "feasible"
_COLUMNS = ("chunks", "steps", "rounds", "rounds / chunk", "at least", "proven", "fastest from", "model ns", "schedule ns")


def decide(task: Task, chunks: int, steps: int, rounds: int) -> dict[str, Any]:
    """Whether there is an algorithm of so many chunks, steps and rounds (`answer`), and why one knows."""
    if chunks % task.unit:
        raise ConfigError(f"{task.collective}: found {chunks} chunks, expected a multiple of {task.unit}, one for each NPU")
    least = task.bound(steps)
    answer, why = FEASIBLE, "solved"
    try:
        if least is None or rounds < steps or rounds < least * chunks:
            answer = "infeasible"
            why = "bound" if least is not None else "too few steps to get there"
        elif task.decide(chunks, steps, rounds) is None:
            answer = "infeasible"
    except Unknown as error:
        answer, why = "undecided", str(error)
    result = {"chunks": chunks, "steps": steps, "rounds": rounds, "answer": answer, "why": why}
    return result | {"least_rounds_per_chunk": None if least is None else float(least)}


def find_frontier(
    task: Task, topology: Topology, collective: str, size_bytes: int, most_chunks: int, most_steps: int, output: Path | None
) -> dict[str, Any]:
    """The frontier, its schedules and where they are written; see docs/compare.md for what it finds.

    Parameters
    ----------
    task, most_chunks, most_steps
        As `frontier` takes them.
    topology, collective, size_bytes
        What the schedules are for: an All-Reduce is composed of an All-Gather and what is like it.
    output
        Where the schedules are written; None for nowhere.
    """
    algorithms: list[Algorithm] = []
    notes: list[str] = []
    for point in frontier(task, most_chunks, most_steps):
        phases: tuple[Any, ...] | None = (point,)
        if collective == "all-reduce":
            try:
                phases = composed(task, point)
            except Unknown:
                phases = None
            if phases is None:
                notes.append(f"no reduce-scatter was found like the all-gather of {point.steps} steps")
                continue
        assert phases is not None
        algorithms.append(Algorithm(collective, task.root, phases))
    if not algorithms:
        raise SynthesisError(f"{collective} on {topology.name}: no algorithm of up to {most_steps} steps was found")
    least_ratio = task.bound(topology.num_npus)
    sizes = crossovers(algorithms, task.lanes)
    with replaced_directory(output) if output is not None else nullcontext() as folder:
        rows = [
            _row(algorithm, topology, size_bytes, task, size, folder) for algorithm, size in zip(algorithms, sizes, strict=True)
        ]
    for row in rows:
        notes += [f"{c} chunks, {row['steps']} steps, {r} rounds: not decided in time" for c, r in row["undecided"]]
    return {
        "network": topology.name,
        "collective": collective,
        "root": task.root,
        "num_npus": topology.num_npus,
        "size_bytes": size_bytes,
        "least_rounds_per_chunk": None if least_ratio is None else float(least_ratio * len(algorithms[0].points)),
        "most_chunks": most_chunks * task.unit,
        "points": rows,
        "notes": notes,
        "output": None if output is None else str(output),
    }


def _row(
    algorithm: Algorithm, topology: Topology, size_bytes: int, task: Task, fastest_from: float, folder: Path | None
) -> dict[str, Any]:
    from astra_tacos.export.run_directory import write_run_directory
    from astra_tacos.schedule.settle import exact_time_ns
    from astra_tacos.solver.solve import check_schedule

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
        "time_ns": round(exact_time_ns(schedule), 3),
        "predicted_ns": schedule.collective_time_ns,
        "link_model": model,
        "directory": name if folder is not None else None,
    }


def frontier_answer(document: dict[str, Any]) -> Answer:
    """The frontier that `find_frontier` found: how many algorithms there are, and the figures of each."""
    least = document["least_rounds_per_chunk"]
    rows = [Row("algorithms", len(document["points"]), note="none beats another in both steps and rounds")]
    if least is not None:
        rows.append(Row("rounds per chunk", f"{least:.4g}", note="at least, in any number of steps"))
    rows += [Row("files", document["output"])] if document["output"] is not None else []
    rows.append(detail("model", "rounds are synchronous; schedules start sends before their round where they can"))
    composed = document["collective"] == "all-reduce"
    table = []
    for row in document["points"]:
        proven = ("of compositions" if composed else "yes") if row["proven"] else f"up to {document['most_chunks']} chunks"
        proven = "no" if row["undecided"] else proven
        table.append(
            (
                row["chunks"],
                row["steps"],
                row["rounds"],
                f"{row['rounds_per_chunk']:.4g}",
                f"{row['least_rounds_per_chunk']:.4g}",
                proven,
                format_size(round(row["fastest_from_bytes"])) if row["fastest_from_bytes"] else "0 B",
                f"{row['model_ns']:,.0f}",
                f"{row['time_ns']:,.0f}",
            )
        )
    title = f"frontier (times of {format_size(document['size_bytes'])})"
    of = f"{document['collective']} on {document['network']}, {document['num_npus']} NPUs"
    return Answer(of, [*rows, *notes_of(document["notes"])], [Table(title, _COLUMNS, table)])
