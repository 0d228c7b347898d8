"""Training steps whose communication is scheduled, by model, network and policy; rewrites its part of docs/results.md.

    python benchmarks/step.py [--no-record]

Three steps of each model on 8 NPUs of 60 TFLOP/s and 2,039 GB/s, one All-Reduce of gradients a layer, native rings. An
iteration is the end of the run over its steps. FIFO, policies and search run the same algorithms of collectives.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from results_page import machine, main

from astra_tacos.generator.device import Device
from astra_tacos.generator.directory import generate
from astra_tacos.generator.layered_step import LayeredStep
from astra_tacos.generator.model import Transformer
from astra_tacos.generator.models import LAYERED_MODELS
from astra_tacos.generator.parallelism import Parallelism
from astra_tacos.generator.step import Step
from astra_tacos.planner.run_files import RunInputs
from astra_tacos.planner.workload import find_workload
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.scheduler.candidates import Candidate, Candidates
from astra_tacos.scheduler.exposure import exposed_ns
from astra_tacos.scheduler.request import parse_schedule
from astra_tacos.scheduler.search import search
from astra_tacos.scheduler.written import run_of
from astra_tacos.units import format_time

STEPS = 3
SEARCHED = 12
NETWORKS = {
    "Switch 8, 12.5 GiB/s": (("Switch", 8, 12.5, 2000),),
    "FullyConnected 4 x Switch 2, 50 and 25 GiB/s": (("FullyConnected", 4, 50, 500), ("Switch", 2, 25, 2000)),
    "Ring 4 x Ring 2, 50 GiB/s": (("Ring", 4, 50, 500), ("Ring", 2, 50, 500)),
}
GPT = Transformer(layers=8, hidden=2048, ffn=8192, heads=16, kv_heads=16, vocab=8192, sequence=1024)
MOE = Transformer(
    layers=4, hidden=1024, ffn=4096, heads=16, kv_heads=16, vocab=8192, sequence=1024, is_gated=True, experts=8, top_k=2
)


def layered(name: str, batch: int) -> Callable[[], LayeredStep]:
    return lambda: LayeredStep(LAYERED_MODELS[name](), Parallelism(dp=8), batch=batch, steps=STEPS)


MODELS: dict[str, Callable[[], Step | LayeredStep]] = {
    "ResNet-50, dp 8, batch 32": layered("resnet50", 32),
    "VGG-16, dp 8, batch 32": layered("vgg16", 32),
    "BERT-large, dp 8, batch 4": layered("bert-large", 4),
    "DLRM, dp 8, batch 2048": layered("dlrm", 2048),
    "GPT, dp 8": lambda: Step(GPT, Parallelism(dp=8), steps=STEPS),
    "GPT, dp 2, tp 4": lambda: Step(GPT, Parallelism(dp=2, tp=4), steps=STEPS),
    "GPT, dp 2, pp 4, 4 micro-batches": lambda: Step(GPT, Parallelism(dp=2, pp=4), 4, steps=STEPS),
    "GPT, dp 2, tp 2, pp 2, 2 micro-batches": lambda: Step(GPT, Parallelism(dp=2, tp=2, pp=2), 2, steps=STEPS),
    "MoE, dp 8, ep 8": lambda: Step(MOE, Parallelism(dp=8, ep=8), steps=STEPS),
}
POLICIES = ("ddp", "mgwfbp", "priority", "p3", "bytescheduler", "dear", "decouple", "lina", "ooo-backprop", "pipeline")


def iteration_ns(candidates: Candidates, candidate: Candidate | None) -> int:
    """The end of the run over its steps. Nothing hides the communication of the last one, so this is no less than the period."""
    return (candidates.before.end_ns if candidate is None else candidate.end_ns) // STEPS


def exposed(candidates: Candidates, candidate: Candidate | None) -> int:
    """Mean over ranks of the time for which a rank communicates and computes nothing, a step."""
    run = candidates.workload.run if candidate is None else run_of(candidate.new, candidates.workload.run)
    outcome: RunOutcome = candidates.before if candidate is None else candidate.outcome
    return int(exposed_ns(run, outcome).sum() / run.network.num_npus / STEPS)


def inputs_of(folder: Path, step: Step | LayeredStep, dimensions: tuple[tuple[str, int, float, float], ...]) -> RunInputs:
    network = folder / "n.yml"
    columns = zip(("topology", "npus_count", "bandwidth", "latency"), zip(*dimensions, strict=True), strict=True)
    network.write_text("".join(f"{key}: [{', '.join(map(str, values))}]\n" for key, values in columns), encoding="utf-8")
    run = generate(step, folder / "run", Device(peak_tflops=60.0), network)
    return RunInputs(
        run.path / "workload" / "w", run.path / "system.json", network, run.comm_group, run.path / "remote_memory.json"
    )


def tables() -> str:
    header = ("model", "FIFO", *POLICIES, "search", "gain", "exposed, FIFO", "exposed, search", "compute", "best policies")
    parts = [f"{machine()}. 8 NPUs, three steps; iterations.", ""]
    gains, halved = [], []
    begin = time.perf_counter()
    for network, dimensions in NETWORKS.items():
        parts += [f"**{network}**", "", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
        for model, make in MODELS.items():
            with tempfile.TemporaryDirectory() as name:
                workload = find_workload(inputs_of(Path(name), make(), dimensions))
                before = replay_run(workload.run)
                candidates = Candidates(workload, before, before.backend)
                fifo = iteration_ns(candidates, None)
                row = [format_time(fifo)]
                for policy in POLICIES:
                    made = candidates.make(parse_schedule(policy) or ())
                    row.append("-" if isinstance(made, str) else f"{fifo / iteration_ns(candidates, made):.2f}")
                found = search(candidates, SEARCHED, lambda done, total: None)
                best = iteration_ns(candidates, found.best)
                gains.append(fifo / best)
                were, are = exposed(candidates, None), exposed(candidates, found.best)
                halved.append(are / max(were, 1))
                compute = int(np.max(before.compute_ns)) // STEPS
                chosen = "as-is" if found.best is None else found.best.name.replace("|", "/")
                row += [
                    format_time(best),
                    f"{fifo / best:.2f}",
                    format_time(were),
                    format_time(are),
                    format_time(compute),
                    chosen,
                ]
                parts.append(f"| {model} | {' | '.join(row)} |")
                print(parts[-1], flush=True)
        parts.append("")
    seconds = time.perf_counter() - begin
    parts.append(
        f"Median gain of search over FIFO {statistics.median(gains):.2f}, from {min(gains):.2f} to {max(gains):.2f}; exposed "
        f"communication falls to {statistics.median(halved):.0%} in the median. {len(gains)} runs took {seconds:,.0f} s."
    )
    return "\n".join(parts)


if __name__ == "__main__":
    main(__doc__ or "", "step", tables)
