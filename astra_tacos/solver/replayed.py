"""What replays of files took: of a schedule, or of the traces of a collective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astra_tacos.bounds.symmetric import class_busy_ns, describe_class
from astra_tacos.network.network_config import configured, read_network
from astra_tacos.replayer.schedule_replay import replay_schedule, replay_symmetric
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.run.backend import Backend
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.schedule.storage import load_schedule
from astra_tacos.schedule.symmetric_schedule import holds_symmetric, load_symmetric_schedule
from astra_tacos.support.units import format_time
from astra_tacos.verifier.symmetric_oracle import check_symmetric


def replay_schedule_file(path: Path) -> dict[str, Any]:
    """Replay a schedule, or a symmetric one, under its own timing model."""
    if holds_symmetric(path):
        return _replay_symmetric(path)
    schedule = load_schedule(path)
    replayed = replay_schedule(schedule)
    return {
        "path": str(path),
        "model": f"{schedule.timing.link_model} links",
        "finish_ns": replayed.finish_ns.tolist(),
        "collective_time_ns": replayed.collective_time_ns,
        "predicted_ns": schedule.collective_time_ns,
        "as_predicted": replayed.collective_time_ns == schedule.collective_time_ns,
        "link_busy_ns": replayed.link_busy_ns.tolist(),
    }


def replay_trace_file(prefix: Path, network_path: Path, backend: Backend | None, ns3_config: Path | None) -> dict[str, Any]:
    """Replay the traces of one collective on a network; `ns3_config` counts on the packet level."""
    network = configured(read_network(network_path), ns3_config)
    replayed = replay_trace(read_trace(prefix, chunks=False), network, backend)
    finish = replayed.finish_ns.tolist()
    return {
        "path": str(prefix),
        "model": replayed.backend.name,
        "finish_ns": finish,
        "collective_time_ns": max(finish),
        **network.carried_error,
    }


def _replay_symmetric(path: Path) -> dict[str, Any]:
    schedule = load_symmetric_schedule(path)
    check_symmetric(schedule)  # a replay of NPU 0's chunks speaks for all only then
    replayed = replay_symmetric(schedule)
    return {
        "path": str(path),
        "model": f"{schedule.task.link_model} links",
        "finish_ns": [replayed.collective_time_ns] * schedule.task.num_npus,
        "collective_time_ns": replayed.collective_time_ns,
        "predicted_ns": schedule.collective_time_ns,
        "as_predicted": replayed.collective_time_ns == schedule.collective_time_ns,
        "class_busy_ns": {describe_class(schedule.task, at): time for at, time in enumerate(class_busy_ns(schedule).tolist())},
    }


def replayed_title(result: dict[str, Any]) -> str:
    """What was replayed, in a line."""
    return f"{result['path']}: {len(result['finish_ns']):,} NPUs, {result['model']}"


def replayed_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """The same as labels, figures and remarks."""
    finish = result["finish_ns"]
    last, first = max(finish), min(finish)
    same = ""
    if "predicted_ns" in result:
        same = ", as predicted" if result["as_predicted"] else f", the prediction is {result['predicted_ns']:,} ns"
    rows: list[tuple[str, ...]] = [("collective time", f"{last:,} ns", f"{format_time(last)}{same}")]
    if "class_busy_ns" in result:
        return [*rows, ("finish", "", "all NPUs at the same time, as all do the same")]
    rows.append(("last to finish", f"{last:,} ns", f"NPU {finish.index(last)}"))
    return [*rows, ("first to finish", f"{first:,} ns", f"NPU {finish.index(first)}")]
