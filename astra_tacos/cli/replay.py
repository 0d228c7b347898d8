"""`astra-tacos replay`: discrete-event replay of training runs, schedules and traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import (
    compile_ahead,
    points_to_lint,
    print_json,
    print_rows,
    print_table,
    progress,
)
from astra_tacos.cli.shared.inputs import Kind, identify
from astra_tacos.cli.shared.lint_table import print_counts
from astra_tacos.cli.shared.options import (
    backend_option,
    check_ns3,
    json_option,
    ns3_option,
    output_option,
    run_options,
)
from astra_tacos.run.backend import ASTRA_SIM, NS3, is_packet_level
from astra_tacos.solver.first_use import CHECKING, LINTING, NODES, READING, REPLAYING
from astra_tacos.support.errors import ConfigError, ReplayError
from astra_tacos.support.files import check_apart

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend
    from astra_tacos.run.run import RunInputs

_file = click.Path(path_type=Path)


@command()
@click.argument("path", type=_file, required=False)
@run_options(required=False)
@backend_option("runs a binary of ASTRA-sim.", packets=True)
@ns3_option
@click.option(
    "--astra-sim-bin",
    type=_file,
    metavar="FILE",
    help="The binary for --backend astra-sim or ns-3; by default $ASTRA_SIM_BIN, or ASTRA-sim's own name for it on PATH.",
)
@click.option("--csv", "csv_path", type=_file, metavar="FILE", help="Write a row per rank, and one per link to FILE.links.csv.")
@click.option("--chrome-trace", type=_file, metavar="FILE", help="Write a timeline for Perfetto (ui.perfetto.dev).")
@output_option("Write replay.json (the output of --json) and replay.npz here, for `astra-tacos report`.")
@json_option
def replay(
    path: Path | None,
    inputs: RunInputs | None,
    network_path: Path | None,
    backend: Backend | None,
    in_astra_sim: bool,
    in_ns3: bool,
    ns3_config: Path | None,
    astra_sim_bin: Path | None,
    csv_path: Path | None,
    chrome_trace: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Replay a training run, a schedule or a trace, to the nanosecond as ASTRA-sim would.

    \b
    A run:       astra-tacos replay --workload PREFIX --system S.json --network N.yml [--comm-group G.json]
    A trace:     astra-tacos replay PREFIX --network N.yml
    A schedule:  astra-tacos replay DIR (of synthesize), or FILE.npz

    For a run, the command prints when every rank finishes and its exposed communication, as ASTRA-sim does. If ranks would wait
    for ever, it prints who waits for what, and the exit code is 1. A trace is that of a custom collective. A schedule is
    replayed under its own timing model; the exit code is 1 if the time differs from its prediction.
    """
    check_ns3(ns3_config, backend, in_ns3)
    if is_packet_level(backend) and chrome_trace is not None:
        raise click.UsageError("--chrome-trace needs an analytical backend: packets of many messages take turns on a link.")
    if inputs is None:
        if path is None:
            raise click.UsageError("Missing PATH, or --workload, --system and --network.")
        if csv_path or chrome_trace or output or astra_sim_bin or in_astra_sim:
            raise click.UsageError(
                "--csv, --chrome-trace, --output and --backend astra-sim need a whole run: give --workload and --system."
            )
        _replay_path(path, network_path, backend, ns3_config, as_json)
        return
    if path is not None:
        raise click.UsageError(f"Got --workload and {path}, expected one of them.")
    check_apart((csv_path, chrome_trace), (inputs.network, inputs.system, inputs.groups, inputs.remote_memory))
    inputs = replace(inputs, ns3=ns3_config)
    if not in_astra_sim:
        _replay_run(inputs, backend, (csv_path, chrome_trace, output), as_json)
        return
    if csv_path or chrome_trace or output:
        raise click.UsageError("--csv, --chrome-trace and --output need an embedded backend: ASTRA-sim prints only finish times.")
    from astra_tacos.workload.linter.linted_replay import replay_in_astra_sim

    ran = replay_in_astra_sim(inputs, astra_sim_bin, NS3 if in_ns3 else ASTRA_SIM, _limit(as_json), progress)
    if as_json:
        print_json(ran.to_json())
    else:
        print_rows(ran.rows())
        print_counts(ran.report)
    if ran.seen.stalled:
        raise click.exceptions.Exit(CHECK_FAILED)


def _limit(as_json: bool) -> int | None:
    """Findings of a code: print_counts counts them, JSON lists them."""
    return None if as_json else 1


def _replay_run(
    inputs: RunInputs, backend: Backend | None, outputs: tuple[Path | None, Path | None, Path | None], as_json: bool
) -> None:
    from astra_tacos.replayer.run_replay import replay_run
    from astra_tacos.report.run_report import check_replay_directory, run_rows, run_tables
    from astra_tacos.run.backend import choose_backend
    from astra_tacos.run.run import read_run
    from astra_tacos.workload.linter.lint import lint
    from astra_tacos.workload.linter.linted_replay import LintedReplay

    _, timeline, directory = outputs
    compile_ahead(*REPLAYING, *LINTING, *NODES)
    with points_to_lint(), progress("reading"):
        run = read_run(inputs)
    model = choose_backend(backend, run.network)
    if directory is not None:
        check_replay_directory(directory)
    try:
        with points_to_lint(), progress("replaying (ranks that have finished)") as advanced:
            wanted = {"record_transmissions": timeline is not None, "route_loads": directory is not None}
            outcome = replay_run(run, model, **wanted, progress=advanced)
    except ReplayError as error:
        if not as_json:
            raise
        stalled = {"workload": run.workload.prefix, "network": run.network.source, "backend": model.name}
        print_json(stalled | {"reason": str(error), "findings": lint(inputs, model).to_json()})
        raise click.exceptions.Exit(CHECK_FAILED) from None
    with progress("linting"):
        report = lint(inputs, model, _limit(as_json))
    replayed = LintedReplay.of(run, outcome, report)
    written = replayed.write(*outputs, progress)
    if as_json:
        print_json(replayed.figures)
        return
    print_rows([*run_rows(run, replayed.figures), *(("wrote", str(file)) for file in written)])
    for table in run_tables(replayed.figures):
        print_table(*table)
    print_counts(report)


def _replay_path(path: Path, network_path: Path | None, backend: Backend | None, ns3_config: Path | None, as_json: bool) -> None:
    from astra_tacos.solver.replayed import replay_schedule_file, replay_trace_file, replayed_rows

    kind, target = identify(path)
    compile_ahead(*((*READING, *REPLAYING) if kind is Kind.TRACE else CHECKING))
    with progress("replaying"):
        if kind in (Kind.RUN_DIRECTORY, Kind.SCHEDULE, Kind.SYMMETRIC):
            if network_path or backend:
                raise click.UsageError("--network and --backend are for traces: a schedule has its own network and model.")
            schedule_file = target / "schedule.npz" if kind is Kind.RUN_DIRECTORY else target
            result = replay_schedule_file(schedule_file)
        elif kind is Kind.TRACE:
            if network_path is None:
                raise click.UsageError("Missing option '--network': a trace does not say which network it runs on.")
            result = replay_trace_file(target, network_path, backend, ns3_config)
        else:
            raise ConfigError(f"{path}: a {kind}, expected a run directory, schedule or trace prefix")
    if as_json:
        print_json(result)
    else:
        print_rows(replayed_rows(result))
    if not result.get("as_predicted", True):
        raise click.exceptions.Exit(CHECK_FAILED)
