"""Training steps whose communication is scheduled, by model, network and policy; rewrites results/step.md.

    python benchmarks/step.py [--no-record]

Two steps of each model on 8 NPUs of 60 TFLOP/s and 2,039 GB/s, one All-Reduce of gradients a layer. FIFO, policies and search
run the same synthesized collectives. Bandwidths are such that All-Reduces of ResNet-50 take about as long as its compute.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from results_page import machine, main

from astra_tacos.network.composition import build_topology
from astra_tacos.planner.retime.candidates import Candidate, Candidates
from astra_tacos.planner.retime.collectives import SynthesizedCollectives
from astra_tacos.planner.retime.exposure_bound import QuickestBytes, exposed_ns, least_exposed_ns
from astra_tacos.planner.retime.request import parse_schedule
from astra_tacos.planner.retime.search import search
from astra_tacos.planner.retime.task_reader import read_graph
from astra_tacos.planner.retime.written import run_of
from astra_tacos.planner.run_bound import run_bound
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.workload import Workload, find_workload
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.support.units import format_time
from astra_tacos.workload.generator.cost import Device
from astra_tacos.workload.generator.directory import generate
from astra_tacos.workload.generator.layered_model import LAYERED_MODELS
from astra_tacos.workload.generator.layered_step import LayeredStep
from astra_tacos.workload.generator.model import Transformer
from astra_tacos.workload.generator.parallelism import Parallelism
from astra_tacos.workload.generator.step import Step

STEPS = 2
SEARCHED = 80
NETWORKS = {
    "Switch 8, 12.5 GiB/s": (("Switch", 8, 12.5, 2000),),
    "FullyConnected 4 x Switch 2, 25 and 2 GiB/s": (("FullyConnected", 4, 25, 500), ("Switch", 2, 2, 2000)),
    "Ring 4 x Ring 2, 5 and 2.5 GiB/s": (("Ring", 4, 5, 500), ("Ring", 2, 2.5, 500)),
}
GPT = Transformer(layers=4, hidden=2048, ffn=8192, heads=16, kv_heads=16, vocab=8192, sequence=1024)
MOE = Transformer(
    layers=4, hidden=1024, ffn=4096, heads=16, kv_heads=16, vocab=8192, sequence=1024, is_gated=True, experts=8, top_k=2
)


def layered(name: str, batch: int) -> Callable[[], LayeredStep]:
    return lambda: LayeredStep(LAYERED_MODELS[name](), Parallelism(dp=8), batch=batch, steps=STEPS)


MODELS: dict[str, Callable[[], Step | LayeredStep]] = {
    "ResNet-50, dp 8, batch 32": layered("resnet50", 32),
    "VGG-16, dp 8, batch 64": layered("vgg16", 64),
    "BERT-large, dp 8, batch 8": layered("bert-large", 8),
    "DLRM, dp 8, batch 2048": layered("dlrm", 2048),
    "GPT, dp 8": lambda: Step(GPT, Parallelism(dp=8), steps=STEPS),
    "GPT, dp 2, tp 4": lambda: Step(GPT, Parallelism(dp=2, tp=4), steps=STEPS),
    "GPT, dp 2, pp 4, 4 micro-batches": lambda: Step(GPT, Parallelism(dp=2, pp=4), 4, steps=STEPS),
    "GPT, dp 2, tp 2, pp 2, 2 micro-batches": lambda: Step(GPT, Parallelism(dp=2, tp=2, pp=2), 2, steps=STEPS),
    "MoE, dp 8, ep 8": lambda: Step(MOE, Parallelism(dp=8, ep=8), steps=STEPS),
}
POLICIES = ("ddp", "mgwfbp", "priority", "p3", "bytescheduler", "dear", "decouple", "lina", "ooo-backprop", "pipeline")


@dataclass(frozen=True)
class Measured:
    """Figures of a run in ns: an iteration in steady state, what of it is exposed communication, and the mean to the end."""

    period: int
    exposed: int
    mean: int


def measured(candidates: Candidates, candidate: Candidate) -> Measured:
    """The exposed communication of the last iteration is left out, as nothing can hide it."""
    trace, outcome = candidates.workload.run.workload, candidate.outcome
    assert candidates.steps is not None
    early = candidates.steps.of_row[candidate.new.laid_out(trace).row] < STEPS - 1
    exposed = exposed_ns(run_of(candidate.new, candidates.workload.run), outcome)[early].sum()
    return Measured(candidate.cost_ns, int(exposed / trace.num_ranks / (STEPS - 1)), outcome.end_ns // STEPS)


def communication_ns(candidates: Candidates) -> int:
    """How long the collectives of a rank take one after another, each alone, a step; the mean over ranks."""
    graph = read_graph(candidates.workload, candidates.before)
    took = sum(candidates.setting.duration_of(one) * len(one.tasks) for one in graph.operations)
    return took // len(graph.ranks) // STEPS


def unavoidable_ns(candidates: Candidates) -> int:
    """What these collectives leave exposed at least a step, however they are cut and ordered; the mean over ranks."""
    workload = candidates.workload
    graph = read_graph(workload, candidates.before)
    assert candidates.steps is not None
    step = candidates.steps.of_row.tolist()
    counted = {task for task in graph.tasks() if task.is_on_network and step[task.row] < STEPS - 1}
    least = least_exposed_ns(graph, QuickestBytes(workload.run, candidates.backend, candidates.setting.duration_of), counted)
    assert graph.programs is not None
    of_ranks = [least[program] for program in graph.programs.of_rank.tolist()]
    return sum(of_ranks) // len(of_ranks) // (STEPS - 1)


def inputs_of(folder: Path, step: Step | LayeredStep, dimensions: tuple[tuple[str, int, float, float], ...]) -> RunInputs:
    network = folder / "n.yml"
    columns = zip(("topology", "npus_count", "bandwidth", "latency"), zip(*dimensions, strict=True), strict=True)
    network.write_text("".join(f"{key}: [{', '.join(map(str, values))}]\n" for key, values in columns), encoding="utf-8")
    run = generate(step, folder / "run", Device(peak_tflops=60.0), network)
    return RunInputs(
        run.path / "workload" / "w", run.path / "system.json", network, run.comm_group, run.path / "remote_memory.json"
    )


def tables() -> str:
    header = (
        "model",
        "FIFO",
        *POLICIES,
        "search",
        "gain",
        "exposed",
        "exposed, search",
        "exposed at least",
        "comm",
        "compute",
        "at least",
        "best policies",
    )
    parts = [f"{machine()}. 8 NPUs, {STEPS} steps.", ""]
    gains, left = [], []
    with tempfile.TemporaryDirectory() as cache, ProcessPoolExecutor() as pool:
        rows = {(network, model): pool.submit(measure, network, model, Path(cache)) for network in NETWORKS for model in MODELS}
        for network in NETWORKS:
            parts += [f"**{network}**", "", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
            for model in MODELS:
                row, gain, share = rows[network, model].result()
                gains.append(gain)
                left += [] if share is None else [share]
                parts.append(f"| {model} | {' | '.join(row)} |")
                print(network, parts[-1], flush=True)
            parts.append("")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    parts.append(
        f"Median gain of search over FIFO {statistics.median(gains):.2f}, from {min(gains):.2f} to {max(gains):.2f}, at "
        f"least 1.15 in {sum(gain >= 1.15 for gain in gains)} of {len(gains)}. Of the exposed communication that compute could "
        f"hide, {statistics.median(left):.0%} is left in the median, at most half in {sum(share <= 0.5 for share in left)} of "
        f"{len(left)} that have any. {len(gains)} runs took {seconds:,.0f} s of CPU time."
    )
    return "\n".join(parts)


def measure(network: str, model: str, cache: Path) -> tuple[list[str], float, float | None]:
    """The row of a model, its gain, and the share left of the exposed communication that compute could hide; None without any."""
    with tempfile.TemporaryDirectory() as name:
        workload = find_workload(read_run(inputs_of(Path(name), MODELS[model](), NETWORKS[network])))
        return row_of(workload, SynthesisCache(cache))


def row_of(workload: Workload, cache: SynthesisCache) -> tuple[list[str], float, float | None]:
    collectives = SynthesizedCollectives(workload, replay_run(workload.run).backend, cache=cache)
    before = replay_run(collectives.implemented(workload.run))
    candidates = Candidates(workload, before, before.backend, collectives, per_iteration=True)
    first = candidates.make(())
    assert not isinstance(first, str), first
    fifo = measured(candidates, first)
    row = [format_time(fifo.period)]
    for policy in POLICIES:
        made = candidates.make(parse_schedule(policy) or ())
        row.append("-" if isinstance(made, str) else f"{fifo.period / measured(candidates, made).period:.2f}")
    found = search(candidates, SEARCHED, lambda done, total: None)
    chosen = found.best or first
    best = measured(candidates, chosen)
    compute, talking = int(np.max(before.compute_ns)) // STEPS, communication_ns(candidates)
    unavoidable = unavoidable_ns(candidates)
    if best.exposed < unavoidable * 0.999:
        raise RuntimeError(f"exposed for {best.exposed:,} ns, below the bound of {unavoidable:,} ns")
    could = fifo.exposed - unavoidable
    unsolved = tuple(CaseSolution(None) for _ in workload.cases)
    bound = run_bound(workload, build_topology(workload.run.network), unsolved, before.backend)
    row += [
        format_time(best.period),
        f"{fifo.period / best.period:.2f}",
        *(format_time(value) for value in (fifo.exposed, best.exposed, unavoidable, talking, compute)),
        f"{format_time(max(bound.parts_ns['compute'], bound.parts_ns['cut']) / STEPS)} of {format_time(best.mean)}",
        chosen.name.replace("|", "/"),
    ]
    share = max(best.exposed - unavoidable, 0) / could if could > fifo.period // 100 else None
    return row, fifo.period / best.period, share


if __name__ == "__main__":
    main(__doc__ or "", "step", tables)
