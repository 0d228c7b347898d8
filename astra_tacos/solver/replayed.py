"""What replays of files took: of a schedule, or of the traces of a collective."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.support.rows import Answer, Row
from astra_tacos.support.units import format_time

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend


def replay_schedule_file(path: Path) -> dict[str, Any]:
    """Replay a schedule, or a symmetric one, under its own timing model."""
    from astra_tacos.bounds.symmetric import class_busy_ns, describe_class
    from astra_tacos.replayer.schedule_replay import replay_schedule, replay_symmetric
    from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, load_any_schedule
    from astra_tacos.verifier.symmetric_oracle import check_symmetric

    schedule = load_any_schedule(path)
    if isinstance(schedule, SymmetricSchedule):
        check_symmetric(schedule)  # a replay of NPU 0's chunks speaks for all only then
        task, time_ns = schedule.task, replay_symmetric(schedule).collective_time_ns
        link_model, finish_ns = task.link_model, [time_ns] * task.num_npus
        busy = enumerate(class_busy_ns(schedule).tolist())
        links: dict[str, Any] = {"class_busy_ns": {describe_class(task, at): busy_ns for at, busy_ns in busy}}
    else:
        replayed = replay_schedule(schedule)
        link_model, finish_ns, time_ns = schedule.timing.link_model, replayed.finish_ns.tolist(), replayed.collective_time_ns
        links = {"link_busy_ns": replayed.link_busy_ns.tolist()}
    return {
        "path": str(path),
        "model": f"{link_model} links",
        "finish_ns": finish_ns,
        "collective_time_ns": time_ns,
        "predicted_ns": schedule.collective_time_ns,
        "as_predicted": time_ns == schedule.collective_time_ns,
        **links,
    }


def replay_trace_file(prefix: Path, network_path: Path, backend: Backend | None, ns3_config: Path | None) -> dict[str, Any]:
    """Replay the traces of one collective on a network; `ns3_config` counts on the packet level."""
    from astra_tacos.network.network_config import configured, read_network
    from astra_tacos.replayer.trace_replay import replay_trace
    from astra_tacos.run.trace.reader import read_trace

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


def replayed_answer(result: dict[str, Any]) -> Answer:
    """What was replayed, when it ends, and which NPUs finish last and first."""
    finish = result["finish_ns"]
    last, first = max(finish), min(finish)
    same = ""
    if "predicted_ns" in result:
        same = ", as predicted" if result["as_predicted"] else f", the prediction is {result['predicted_ns']:,} ns"
    rows = [Row("collective time", last, "ns", f"{format_time(last)}{same}")]
    if "class_busy_ns" in result:
        rows.append(Row("finish", note="all NPUs at the same time, as all do the same"))
    else:
        rows.append(Row("last to finish", last, "ns", f"NPU {finish.index(last)}"))
        rows.append(Row("first to finish", first, "ns", f"NPU {finish.index(first)}"))
    return Answer(f"{result['path']}: {len(finish):,} NPUs, {result['model']}", rows)
