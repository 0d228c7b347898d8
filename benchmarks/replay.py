"""How fast runs are replayed: prints a table and rewrites results/replay.md.

    python benchmarks/replay.py [--no-record]

Every figure is the best of several warm replays of traces that are in memory: from columns to finish times, compiling the run's
arrays included, kernels compiled before. With $ASTRA_SIM_BIN (the congestion-aware binary) ASTRA-sim runs the same files in turn
with the replay, and the ratio of the two is given. The last line runs in a process of its own, for its peak memory.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
from results_page import machine, main

from astra_tacos import all_gather, build_topology, read_network
from astra_tacos.export.run_directory import write_run_directory
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.replayer.astra_sim import BINARY_VARIABLE, run_astra_sim
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.solver.solve import synthesize

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "replays.tar.xz"
REPEATS = 7
LARGE = "--large"


def fully_connected(num_npus: int) -> NetworkConfig:
    return NetworkConfig("benchmark.yml", (Dimension("FullyConnected", num_npus, 50.0, 500.0),))


def ring_all_gather(num_npus: int, chunks: int) -> Trace:
    """All-Gather both ways round a ring, each link's sends one after another: (num_npus - 1) * num_npus * chunks messages."""
    kinds, peers, tags, after, parents = [], [], [], [], []
    base = 0
    npu = np.arange(num_npus)
    for step, hops in ((1, num_npus // 2), (-1, (num_npus - 1) // 2)):
        count = hops * chunks
        place = np.arange(count)
        # Receive `place` is row 2 * place, send `place` the row after; it passes on what came a hop ago.
        owner = (npu[:, None] - step * (place // chunks)[None, :]) % num_npus
        tag = (owner * chunks + place % chunks) * 2 + (step < 0)
        kinds.append(np.tile([NodeType.COMM_RECV, NodeType.COMM_SEND], (num_npus, count)).reshape(num_npus, -1))
        peers.append(np.stack(np.broadcast_arrays((npu - step)[:, None] % num_npus, (npu + step)[:, None] % num_npus), -1))
        peers[-1] = np.broadcast_to(peers[-1], (num_npus, count, 2)).reshape(num_npus, -1)
        came = np.roll(tag, step, axis=0)
        tags.append(np.stack((came, tag), -1).reshape(num_npus, -1))
        sends = base + 2 * place + 1
        relayed = np.where(place >= chunks, base + 2 * (place - chunks), -1)
        previous = np.where(place >= 1, sends - 2, -1)
        pairs = np.stack((previous, relayed), -1)
        after.append(np.stack((np.zeros(count, np.int64), (pairs >= 0).sum(-1)), -1).reshape(-1))
        parents.append(pairs[pairs >= 0])
        base += 2 * count
    per_npu, deps = np.concatenate(after), np.concatenate(parents)
    first = np.concatenate(([0], np.cumsum(np.tile(per_npu, num_npus))))
    total = base * num_npus
    columns = {
        "rank_first": base * np.arange(num_npus + 1),
        "node_id": np.tile(np.arange(base, dtype=np.uint64), num_npus),
        "kind": np.concatenate(kinds, axis=1).astype(np.uint8).reshape(-1),
        "duration_us": np.zeros(total, np.int64),
        "size_bytes": np.full(total, 1 << 16),
        "peer": np.concatenate(peers, axis=1).reshape(-1),
        "tag": np.concatenate(tags, axis=1).reshape(-1),
        "dep_first": first,
        "dep": (deps[None, :] + base * npu[:, None]).reshape(-1),
    }
    return Trace(prefix=f"ring of {num_npus}", chunks=None, workload=None, **columns)


def best_of(work, repeats: int) -> float:  # type: ignore[no-untyped-def]
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def compare(folder: Path, prefix: str, network: Path) -> tuple[int, float, float | None]:
    """Messages of a run, and how long its replay takes here and in ASTRA-sim."""
    files = RunInputs(folder / "workload" / prefix, folder / "system.json", network, directory=folder)
    run = read_run(files)
    outcome = replay_run(run, "congestion-aware")
    messages = sum(int((trace.kind == NodeType.COMM_SEND).sum()) for trace in run.collectives)
    binary = os.environ.get(BINARY_VARIABLE)
    ours, theirs = [], []
    for _ in range(REPEATS if not binary else 3):
        ours.append(best_of(lambda: replay_run(run, "congestion-aware"), 3))
        if binary:
            begin = time.perf_counter()
            seen = run_astra_sim(Path(binary), run.workload.num_ranks, files)
            theirs.append(time.perf_counter() - begin)
            if not np.array_equal(seen.finish_ns, outcome.finish_ns):
                raise SystemExit(f"{folder}: ASTRA-sim says {seen.finish_ns.tolist()}, the replay {outcome.finish_ns.tolist()}")
    return messages, min(ours), min(theirs) if theirs else None


def large() -> None:
    """Replay ten million messages; prints messages, seconds and peak bytes."""
    trace = ring_all_gather(1024, 10)
    network = NetworkConfig("benchmark.yml", (Dimension("Ring", 1024, 50.0, 500.0),))
    replay_trace(ring_all_gather(8, 1), NetworkConfig("warm.yml", (Dimension("Ring", 8, 50.0, 500.0),)), "congestion-aware")
    begin = time.perf_counter()
    replay_trace(trace, network, "congestion-aware")
    seconds = time.perf_counter() - begin
    messages = int((trace.kind == NodeType.COMM_SEND).sum())
    print(messages, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def table() -> str:
    lines = [
        f"Machine: {machine()}",
        "",
        "| case | messages | replay s | ns a message | ASTRA-sim s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(GOLDEN) as archive:
            archive.extractall(scratch, filter="data")
        folder = Path(scratch) / "torus8x8_on_fc64_ar_aware"
        cases = [("All-Reduce, torus 8x8 on FullyConnected 64", folder, "w", folder / "network.yml")]
        torus = NetworkConfig("torus.yml", tuple(Dimension("Ring", 16, 50.0, 500.0) for _ in range(2)))
        topology = build_topology(torus)
        schedule = synthesize(topology, all_gather(256, 1 << 20), synthesizer="tacos", link_model="blocking", trials=1)
        folder = Path(scratch) / "torus16"
        write_run_directory(schedule, folder)
        network = Path(scratch) / "fc256.yml"
        network.write_text("topology: [FullyConnected]\nnpus_count: [256]\nbandwidth: [50.0]\nlatency: [500.0]\n")
        read_network(network)
        cases.append(("All-Gather, torus 16x16 on FullyConnected 256", folder, "all_gather", network))
        for name, folder, prefix, network in cases:
            messages, ours, theirs = compare(folder, prefix, network)
            ratio = f"{theirs:.2f} | {theirs / ours:.0f}x" if theirs else "- | -"
            lines.append(f"| {name} | {messages:,} | {ours:.4f} | {ours / messages * 1e9:.0f} | {ratio} |")
    done = subprocess.run([sys.executable, __file__, LARGE], capture_output=True, text=True, check=True)
    messages, seconds, peak = (float(word) for word in done.stdout.split())
    lines.append(
        f"| All-Gather, Ring 1024, 10 chunks per NPU; peak memory {peak / 2**30:.2f} GiB | {messages:,.0f} | {seconds:.2f} | "
        f"{seconds / messages * 1e9:.0f} | - | - |"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == [LARGE]:
        large()
    else:
        main(__doc__ or "", "replay", table)
