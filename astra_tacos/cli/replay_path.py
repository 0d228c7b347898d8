"""`astra-tacos replay PATH`: replay of one schedule, or of the traces of one collective."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.console import compile_ahead, print_json, print_rows, progress
from astra_tacos.cli.inputs import Kind, identify
from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.solver.first_use import CHECKING, READING, REPLAYING
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend


def replay_path(path: Path, network_path: Path | None, backend: Backend | None, ns3_config: Path | None, as_json: bool) -> None:
    """Replay a trace, or the schedule in a file or run directory, and print what it took.

    Parameters
    ----------
    path
        What to replay.
    network_path, backend, ns3_config
        Of a trace: its network, the network model, and the configuration of the packet level.
    as_json
        Whether a JSON object is printed.
    """
    kind, target = identify(path)
    compile_ahead(*((*READING, *REPLAYING) if kind is Kind.TRACE else CHECKING))
    with progress("replaying"):
        if kind in (Kind.RUN_DIRECTORY, Kind.SCHEDULE, Kind.SYMMETRIC):
            if network_path or backend:
                raise click.UsageError("--network and --backend are for traces: a schedule has its own network and model.")
            schedule_file = target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target
            result = _replay_symmetric(target) if kind is Kind.SYMMETRIC else _replay_schedule(schedule_file)
        elif kind is Kind.TRACE:
            if network_path is None:
                raise click.UsageError("Missing option '--network': a trace does not say which network it runs on.")
            result = _replay_trace(target, network_path, backend, ns3_config)
        else:
            raise ConfigError(f"{path}: a {kind}, expected a run directory, schedule or trace prefix")
    if as_json:
        print_json(result)
    else:
        _print(result)
    if not result.get("as_predicted", True):
        raise click.exceptions.Exit(CHECK_FAILED)


def _replay_schedule(path: Path) -> dict[str, Any]:
    from astra_tacos.replayer.schedule_replay import replay_schedule
    from astra_tacos.schedule.storage import load_schedule

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


def _replay_symmetric(path: Path) -> dict[str, Any]:
    from astra_tacos.bounds.symmetric import class_busy_ns, describe_class
    from astra_tacos.replayer.schedule_replay import replay_symmetric
    from astra_tacos.schedule.symmetric_schedule import load_symmetric_schedule
    from astra_tacos.verifier.symmetric_oracle import check_symmetric

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


def _replay_trace(prefix: Path, network_path: Path, backend: Backend | None, ns3_config: Path | None) -> dict[str, Any]:
    from astra_tacos.network.network_config import configured, read_network
    from astra_tacos.replayer.trace_replay import replay_trace
    from astra_tacos.run.trace.reader import read_trace

    network = configured(read_network(network_path), ns3_config)
    replayed = replay_trace(read_trace(prefix, chunks=False), network, backend)
    finish = replayed.finish_ns.tolist()
    return {"path": str(prefix), "model": replayed.backend.name, "finish_ns": finish, "collective_time_ns": max(finish)}


def _print(result: dict[str, Any]) -> None:
    from astra_tacos.support.units import format_time

    finish = result["finish_ns"]
    last, first = max(finish), min(finish)
    rows = [
        ("replayed", f"{result['path']} ({result['model']}, {len(finish):,} NPUs)"),
        ("collective time", f"{last:,} ns ({format_time(last)})"),
    ]
    if "class_busy_ns" in result:
        rows.append(("finish", "all NPUs at the same time, as all do the same"))
    else:
        rows.append(("last to finish", f"NPU {finish.index(last)} at {last:,} ns"))
        rows.append(("first to finish", f"NPU {finish.index(first)} at {first:,} ns"))
    if "predicted_ns" in result:
        same = "as predicted" if result["as_predicted"] else f"the prediction is {result['predicted_ns']:,} ns"
        rows.append(("prediction", same))
    print_rows(rows)
