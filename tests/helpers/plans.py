"""Planned runs for tests: files in a folder, planned, and looked at node by node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from helpers.lint_runs import RunFiles

from astra_tacos import Device, LayeredStep, ModelLayer, Step, generate, replay_run
from astra_tacos.planner.plan import plan
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.request import PLAN_OPTIONS, PlanRequest
from astra_tacos.planner.retime.candidates import Candidates
from astra_tacos.planner.retime.collectives import SynthesizedCollectives
from astra_tacos.planner.retime.request import parse_schedule
from astra_tacos.planner.retime.schedule_run import ScheduleResult, schedule
from astra_tacos.planner.retime.written import scheduled_run
from astra_tacos.planner.run_files import planned_inputs
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.backend import choose_backend
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.node_bytes import load_rank, node_at
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.verifier.run_oracle import verify_run
from astra_tacos.workload.lint import LintReport, lint

QUICK = replace(PLAN_OPTIONS, synthesizer="tacos", trials=1)
PLANNED = ("workload", "collective", "comm_group.json", "per_node.yml", "system.json", "network.yml", "run_astra_sim.sh")
"""What a plan of a plan leaves as it is: all but plan.json and replay.npz, which tell what changed."""


def written(folder: Path, files: RunFiles) -> RunInputs:
    """The inputs of a run, written to a folder."""
    return RunInputs(**files.write(folder))


def put_on_links(inputs: RunInputs, links: dict[tuple[int, int], float]) -> RunInputs:
    """Replace the network of a run by a list of links of these bandwidths."""
    rows = [f"{src},{dst},{bandwidth},500" for (src, dst), bandwidth in links.items()]
    inputs.network.with_name("links.csv").write_text("\n".join(["src,dst,bandwidth,latency", *rows]))
    inputs.network.write_text("astra_tacos: {links: links.csv}\n")
    return inputs


def generated_run(folder: Path, step: Step | LayeredStep, network: Path, device: Device | None = None) -> RunInputs:
    """A generated run in `folder / "run"`, on a network elsewhere."""
    made = generate(step, folder / "run", device or Device(peak_tflops=20), network)
    return replace(RunInputs.in_folder(made.path, "w"), network=network)


def timed_layer(values: int, *times_us: float) -> ModelLayer:
    """A layer of so many values, with the times of its forward pass and of both its gradients."""
    names = ("forward_us", "input_gradient_us", "weight_gradient_us")
    return ModelLayer("layer", (values,), **dict(zip(names, times_us, strict=True)))


def candidates_of(inputs: RunInputs, **options: Any) -> Candidates:
    """What schedules of communication make of a run."""
    workload = find_workload(read_run(inputs))
    before = replay_run(workload.run)
    return Candidates(workload, before, before.backend, **options)


def write_candidate(candidates: Candidates, schedule: str, inputs: RunInputs, folder: Path) -> None:
    """Write what a schedule makes of a run: the files are legal and take what was found."""
    candidate = candidates.make(parse_schedule(schedule) or ())
    folder.mkdir()
    scheduled_run(candidates.workload, candidate.new).write(folder, inputs.workload.name)
    after = planned_inputs(folder, inputs)
    assert verify_run(read_run(after), {}, candidates.workload.run).violations == ()
    assert replay_run(read_run(after)).end_ns == candidate.end_ns


def schedule_run(request: PlanRequest, folder: Path, cache: SynthesisCache | None = None) -> ScheduleResult:
    """Schedule a run, and write it: it does what the run before did."""
    run = read_run(request.inputs)
    workload = find_workload(run)
    model = choose_backend(request.backend)
    collectives = None if cache is None else SynthesizedCollectives(workload, model, cache=cache)
    found = schedule(request, workload, collectives)
    folder.mkdir(exist_ok=True)
    written = found.run.write(folder, request.inputs.workload.name)
    assert not verify_run(written, {}, run).violations
    return found.result


def options_of(inputs: RunInputs) -> tuple[str, ...]:
    """The files of a run as options of a command."""
    files = {"workload": inputs.workload, "system": inputs.system, "network": inputs.network, "comm-group": inputs.groups}
    return tuple(text for name, path in files.items() if path is not None for text in (f"--{name}", str(path)))


def golden_inputs(folder: Path) -> RunInputs:
    """The inputs in a folder laid out like those of `golden`."""
    return RunInputs.in_folder(folder, "w")


def planned(inputs: RunInputs, output: Path, **options: Any) -> tuple[PlanResult, RunInputs]:
    """A plan, and the files of the run that it wrote."""
    return plan(PlanRequest(inputs, **options), output).result, planned_inputs(output, inputs)


def same_or_faster(first: PlanResult, after: RunInputs, folder: Path, options: SearchOptions) -> None:
    """A plan of the plan in `folder / "plan"` is the same, unless native collectives are faster in its order."""
    again, _ = planned(after, folder / "again", options=options)
    assert again.time_ns <= first.time_ns
    if again.time_ns == first.time_ns:
        assert contents(folder / "again") == contents(folder / "plan")


def quickly_planned(inputs: RunInputs, output: Path, **options: Any) -> tuple[PlanResult, RunInputs]:
    """The same by one synthesizer, for tests of all else than what a search finds."""
    return planned(inputs, output, **{"options": QUICK} | options)


def lint_plan(inputs: RunInputs) -> LintReport:
    """Findings in a run."""
    return lint(replace(inputs, ns3=None))


def contents(folder: Path, names: tuple[str, ...] = PLANNED) -> dict[str, bytes]:
    """Bytes of some files, by their path in a folder."""
    files = [
        path for name in names for path in sorted((folder / name).rglob("*") if (folder / name).is_dir() else [folder / name])
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.is_file()}


def messages(inputs: RunInputs) -> list[list[Any]]:
    """The nodes of every rank as protobuf messages, in the order of their files."""
    run = read_run(inputs)
    trace = read_trace(inputs.workload, chunks=False, workload=True)
    ranks = []
    for rank in range(trace.num_ranks):
        data = load_rank(trace, rank)
        rows = range(int(trace.rank_first[rank]), int(trace.rank_first[rank + 1]))
        ranks.append([node_at(data, int(run.columns.byte_offset[row])) for row in rows])
    return ranks


def attributes(node: Any) -> dict[str, Any]:
    """Values of a node's attributes by name."""
    return {entry.name: getattr(entry, entry.WhichOneof("value")) for entry in node.attr if entry.WhichOneof("value")}
