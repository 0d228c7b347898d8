"""`astra-tacos replay`: discrete-event replay of training runs, schedules and traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import (
    LINT_SAYS_MORE,
    compile_ahead,
    print_json,
    print_result,
    progress,
    progress_to_lint,
)
from astra_tacos.cli.shared.options import (
    DELAY,
    OUTPUT,
    SLOW,
    backend_option,
    check_ns3,
    json_option,
    ns3_option,
    output_option,
    run_options,
    verbose_option,
)
from astra_tacos.run.backend import ASTRA_SIM, NS3, Backend, is_packet_level
from astra_tacos.solver.first_use import CHECKING, LINTING, READING, REPLAYING
from astra_tacos.support.errors import ConfigError, ReplayError
from astra_tacos.support.rows import Row
from astra_tacos.workload.path_kind import Kind, identify

if TYPE_CHECKING:
    from astra_tacos.run.directory import CompactInputs
    from astra_tacos.run.run import RunInputs
    from astra_tacos.workload.linted_replay import Replayed


@command()
@run_options(required=False, takes_compact=True)
@backend_option("runs a binary of ASTRA-sim.", packets=True)
@ns3_option
@click.option(
    "--slow",
    "slowed",
    type=SLOW,
    multiple=True,
    help="Let a rank's compute take longer by a factor, like 5:1.1; may be given several times.",
)
@click.option(
    "--delay",
    "delayed",
    type=DELAY,
    multiple=True,
    help="Let a rank start later, like 5:10us; may be given several times.",
)
@click.option(
    "--csv",
    "csv_path",
    type=OUTPUT,
    metavar="FILE",
    help="Write a row per rank to NAME.csv, and one per link to NAME.links.csv.",
)
@click.option("--chrome-trace", type=OUTPUT, metavar="FILE", help="Write a timeline for Perfetto (ui.perfetto.dev).")
@output_option("Write replay.json (the output of --json) and replay.npz here, for `astra-tacos report`.")
@verbose_option
@json_option
def replay(
    path: Path | None,
    inputs: RunInputs | CompactInputs | None,
    network_path: Path | None,
    backend: Backend | None,
    in_astra_sim: bool,
    in_ns3: bool,
    ns3_config: Path | None,
    astra_sim_bin: Path | None,
    slowed: tuple[tuple[int, float], ...],
    delayed: tuple[tuple[int, int], ...],
    csv_path: Path | None,
    chrome_trace: Path | None,
    output: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Replay a training run, a schedule or a trace, to the nanosecond as ASTRA-sim would.

    \b
    A run:       astra-tacos replay DIR, or --workload PREFIX --system S.json --network N.yml [--comm-group G.json]
    A trace:     astra-tacos replay PREFIX --network N.yml
    A schedule:  astra-tacos replay DIR (of synthesize), or FILE.npz

    For a run, the command prints the end of the run and the exposed communication; --verbose adds ranks, collectives and links.
    If ranks would wait for ever, the command prints which rank waits for what, and the exit code is 1. A trace is the Chakra
    trace of a custom collective. A schedule is replayed under its own timing model; the exit code is 1 if the time differs from
    the predicted time.
    """
    from astra_tacos.run.directory import CompactInputs
    from astra_tacos.workload.linted_replay import ReplayOutputs, replay_compact, replay_embedded, replay_in_astra_sim

    check_ns3(ns3_config, backend, in_ns3)
    outputs, slow, delay_ns = ReplayOutputs(csv_path, chrome_trace, output), dict(slowed), dict(delayed)
    if len(slow) < len(slowed):
        raise click.UsageError("Got a rank of --slow twice, expected one factor for each.")
    if len(delay_ns) < len(delayed):
        raise click.UsageError("Got a rank of --delay twice, expected one time for each.")
    if is_packet_level(backend) and chrome_trace is not None:
        raise click.UsageError("--chrome-trace needs an analytical backend: packets of many messages take turns on a link.")
    if isinstance(inputs, CompactInputs):
        from astra_tacos.network.network_config import read_network

        if is_packet_level(backend) or in_astra_sim:
            replay_kind = f"--backend {ASTRA_SIM} and {NS3}" if in_astra_sim else "Packets"
            raise click.UsageError(f"{replay_kind} need an ordinary run: `export {inputs.folder} --format run` writes it.")
        outputs.check((inputs.network,))
        compile_ahead(*READING, *REPLAYING)
        compact = replay_compact(inputs.folder, read_network(inputs.network), backend, outputs, progress, slow, delay_ns)
        _finish(compact, verbose=verbose, as_json=as_json)
        return
    if inputs is None:
        if path is None:
            raise click.UsageError("Missing PATH, or --workload, --system and --network.")
        kind, target = identify(path)
        if outputs != ReplayOutputs() or slow or delay_ns or in_astra_sim:
            raise click.UsageError(
                "--csv, --chrome-trace, --output, --slow, --delay and --backend astra-sim need a whole run: give its directory."
            )
        _replay_path(kind, target, network_path, backend, ns3_config, as_json)
        return
    inputs, limit = replace(inputs, ns3=ns3_config), None if as_json else 1
    if in_astra_sim:
        if outputs != ReplayOutputs() or slow or delay_ns:
            raise click.UsageError(
                "--csv, --chrome-trace, --output, --slow and --delay need an embedded backend: ASTRA-sim prints finish times."
            )
        in_simulator = replay_in_astra_sim(inputs, astra_sim_bin, NS3 if in_ns3 else ASTRA_SIM, limit, progress)
        _print(in_simulator, [], verbose=verbose, as_json=as_json)
        return
    outputs.check((inputs.network, inputs.system, inputs.groups, inputs.remote_memory))
    compile_ahead(*REPLAYING, *LINTING)
    embedded = replay_embedded(inputs, backend, outputs, limit, progress_to_lint, slow, delay_ns)
    _finish(embedded, verbose=verbose, as_json=as_json)


def _finish(replayed: Replayed, *, verbose: bool, as_json: bool) -> None:
    """Write and print a replay by the embedded engine."""
    if replayed.reason is not None and not as_json:
        raise ReplayError(replayed.reason + (f"; {LINT_SAYS_MORE}" if replayed.report else ""))
    written = [] if replayed.reason else replayed.write(progress)
    _print(replayed, written, verbose=verbose, as_json=as_json)


def _print(replayed: Replayed, written: list[Path], *, verbose: bool, as_json: bool) -> None:
    if as_json:
        print_json(replayed.figures)
    else:
        wrote = [Row("wrote", str(file)) for file in written]
        print_result(replayed, verbose=verbose, error=replayed.figures.get("network_error"), files=wrote)
    if replayed.reason is not None:
        raise click.exceptions.Exit(CHECK_FAILED)


def _replay_path(
    kind: Kind, target: Path, network_path: Path | None, backend: Backend | None, ns3_config: Path | None, as_json: bool
) -> None:
    from astra_tacos.solver.replayed import replay_schedule_file, replay_trace_file, replayed_answer

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
            raise ConfigError(f"{target}: a {kind}, expected a run, a schedule or a trace prefix")
    if as_json:
        print_json(result)
    else:
        print_result(replayed_answer(result), error=result.get("network_error"))
    if not result.get("as_predicted", True):
        raise click.exceptions.Exit(CHECK_FAILED)
