"""`astra-tacos replay`: discrete-event replay of training runs, schedules and traces."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.shared.command import command
from astra_tacos.cli.shared.console import (
    LINT_SAYS_MORE,
    compile_ahead,
    echo,
    points_to_lint,
    print_json,
    print_rows,
    print_table,
    progress,
)
from astra_tacos.cli.shared.inputs import Kind, identify
from astra_tacos.cli.shared.options import (
    ASTRA_SIM,
    NS3,
    RunFiles,
    backend_option,
    check_ns3,
    json_option,
    network_option,
    ns3_option,
    output_option,
    run_options,
)
from astra_tacos.run.backend import is_packet_level
from astra_tacos.solver.first_use import CHECKING, LINTING, READING, REPLAYING
from astra_tacos.support.errors import ConfigError, ReplayError
from astra_tacos.support.files import together

if TYPE_CHECKING:
    from astra_tacos.run.backend import Backend
    from astra_tacos.workload.linter.lint import LintReport

_file = click.Path(path_type=Path)


@command()
@click.argument("path", type=_file, required=False)
@run_options(required=False)
@network_option
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
    files: RunFiles | None,
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
    if files is not None:
        if path is not None:
            raise click.UsageError(f"Got --workload and {path}, expected one of them.")
        if network_path is None:
            raise click.UsageError("Missing option '--network'.")
        _check_outputs((csv_path, chrome_trace), (network_path, files.system, files.comm_group, files.remote_memory))
        if in_astra_sim:
            if csv_path or chrome_trace or output:
                raise click.UsageError(
                    "--csv, --chrome-trace and --output need an embedded backend: ASTRA-sim prints only finish times."
                )
            _replay_in_astra_sim(files, network_path, astra_sim_bin, (in_ns3, ns3_config), as_json)
        else:
            _replay_run(files, network_path, backend, ns3_config, csv_path, chrome_trace, output, as_json)
        return
    if path is None:
        raise click.UsageError("Missing PATH, or --workload, --system and --network.")
    if csv_path or chrome_trace or output or astra_sim_bin or in_astra_sim:
        raise click.UsageError(
            "--csv, --chrome-trace, --output and --backend astra-sim need a whole run: give --workload and --system."
        )
    _replay_path(path, network_path, backend, ns3_config, as_json)


def _check_outputs(outputs: tuple[Path | None, ...], inputs: tuple[Path | None, ...]) -> None:
    """Outputs are files, and none takes the place of an input or of another output: told before any work is done."""
    taken = {path.resolve() for path in inputs if path is not None}
    for path in outputs:
        if path is not None:
            if not path.name or path.is_dir():
                raise ConfigError(f"{path}: is a directory, expected a file to write")
            if path.resolve() in taken:
                raise click.UsageError(f"{path} is given twice: an output would replace another file.")
            taken.add(path.resolve())


def _replay_run(
    files: RunFiles,
    network_path: Path,
    backend: Backend | None,
    ns3_config: Path | None,
    csv_path: Path | None,
    chrome_trace: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    from astra_tacos.network.network_config import configured
    from astra_tacos.replayer.run_replay import replay_run
    from astra_tacos.report.run_report import (
        check_replay_directory,
        run_result,
        run_rows,
        run_tables,
        write_replay_directory,
        write_run_csv,
    )
    from astra_tacos.run.backend import choose_backend
    from astra_tacos.run.recording import record_run
    from astra_tacos.run.run import read_run

    compile_ahead(*REPLAYING, *LINTING)
    with points_to_lint(), progress("reading"):
        run = read_run(files.workload, files.system, network_path, files.comm_group, files.remote_memory, files.directory)
        run = replace(run, network=configured(run.network, ns3_config))
    model = choose_backend(backend, run.network)
    if output is not None:
        check_replay_directory(output)
    with points_to_lint(), progress("replaying (ranks that have finished)") as advanced:
        try:
            outcome = replay_run(
                run,
                model,
                record_transmissions=chrome_trace is not None,
                route_loads=output is not None,
                progress=advanced,
            )
        except ReplayError as error:
            if not as_json:
                raise
            stalled = {
                "workload": run.workload.prefix,
                "network": run.network.source,
                "backend": model.name,
                "reason": str(error),
            }
            report = _lint(files, network_path, model, as_json)
            print_json(stalled | {"findings": [asdict(finding) for finding in report.findings]})
            raise click.exceptions.Exit(CHECK_FAILED) from None
    recording = record_run(run, outcome)
    result = run_result(run, outcome, recording)
    report = _lint(files, network_path, model, as_json)
    result["findings"] = [asdict(finding) for finding in report.findings]
    if report.errors:
        result["beyond_astra_sim"].append(f"lint finds errors: {', '.join(sorted(report.errors))}")
        result["exact_to"] = None
    written: list[Path] = []
    with together():
        if csv_path is not None:
            written += write_run_csv(csv_path, result)
        if chrome_trace is not None:
            from astra_tacos.export.chrome_trace import write_chrome_trace

            with progress("writing"):
                write_chrome_trace(chrome_trace, run, outcome)
            written.append(chrome_trace)
        if output is not None:
            write_replay_directory(output, result, recording)
            written.append(output)
    if as_json:
        print_json(result)
        return
    rows = run_rows(run, result)
    rows += [("wrote", str(file)) for file in written]
    print_rows(rows)
    for table in run_tables(result):
        print_table(*table)
    _print_findings(report)


def _lint(files: RunFiles, network_path: Path, backend: Backend, as_json: bool) -> LintReport:
    from astra_tacos.workload.linter.lint import lint

    limit = None if as_json else 1
    with progress("linting"):
        return lint(
            files.workload, files.system, network_path, files.comm_group, files.remote_memory, files.directory, backend, limit
        )


def _print_findings(report: LintReport) -> None:
    """How many there are of each code; `lint` says more."""
    for severity, counts in (("error", report.errors), ("warning", report.warnings)):
        if counts:
            listed = ", ".join(f"{code} ({count:,})" if count > 1 else code for code, count in sorted(counts.items()))
            number = sum(counts.values())
            echo(f"\n{number:,} {severity}{'s' * (number > 1)}: {listed}; {LINT_SAYS_MORE}")


def _replay_in_astra_sim(
    files: RunFiles, network_path: Path, binary: Path | None, ns3: tuple[bool, Path | None], as_json: bool
) -> None:
    from astra_tacos.network.network_config import configured, read_network
    from astra_tacos.replayer.astra_sim import backend_of, find_binary, run_astra_sim
    from astra_tacos.run.backend import PACKET
    from astra_tacos.run.trace.reader import trace_files

    in_ns3, ns3_config = ns3
    network = configured(read_network(network_path), ns3_config)
    program = find_binary(binary, network, PACKET if in_ns3 else None)
    model = PACKET if in_ns3 else backend_of(program, network)
    num_ranks = min(len(trace_files(files.workload)), network.num_npus)
    with progress("running ASTRA-sim"):
        seen = run_astra_sim(
            program,
            num_ranks,
            files.workload,
            files.system,
            network if in_ns3 else network_path,
            files.comm_group,
            files.remote_memory,
            files.directory,
        )
    result: dict[str, Any] = {
        "workload": str(files.workload),
        "network": str(network_path),
        "backend": NS3 if in_ns3 else ASTRA_SIM,
        "binary": str(program),
        "approximate": False,
        "finish_ns": seen.finish_ns.tolist(),
        "exposed_comm_ns": seen.exposed_comm_ns.tolist(),
        "links": [],
        "stalled": seen.stalled,
    }
    if seen.stalled:
        result["reason"] = _why(files, network_path, model)
    report = _lint(files, network_path, model, as_json)
    result["findings"] = [asdict(finding) for finding in report.findings]
    if as_json:
        print_json(result)
    else:
        rows = [("run", f"{files.workload} on {network_path}, by {program}")]
        finished = [rank for rank in range(num_ranks) if rank not in set(seen.stalled)]
        if finished:
            last = max(finished, key=lambda rank: result["finish_ns"][rank])
            rows.append(("end of the run", f"{result['finish_ns'][last]:,} ns, rank {last}"))
            exposed = [result["exposed_comm_ns"][rank] for rank in finished]
            rows.append(("exposed communication", f"{min(exposed):,} to {max(exposed):,} ns"))
        if seen.stalled:
            names = ", ".join(map(str, seen.stalled[:8])) + (", ..." if len(seen.stalled) > 8 else "")
            rows.append(("never finished", f"{len(seen.stalled)} of {num_ranks} ranks: {names} (exit status {seen.exit_status})"))
            rows.append(("last lines of ASTRA-sim", seen.last_words or "none"))
            rows.append(("the embedded replay", result["reason"]))
        print_rows(rows)
        _print_findings(report)
    if seen.stalled:
        raise click.exceptions.Exit(CHECK_FAILED)


def _why(files: RunFiles, network_path: Path, model: Backend) -> str:
    """What the embedded engine says about a run in which ASTRA-sim left ranks behind."""
    from astra_tacos.replayer.run_replay import replay_run
    from astra_tacos.run.run import read_run
    from astra_tacos.support.errors import AstraTacosError

    try:
        run = read_run(files.workload, files.system, network_path, files.comm_group, files.remote_memory, files.directory)
        replay_run(run, model)
    except AstraTacosError as error:
        return str(error)
    return "finishes. If lint finds no error, check that the binary has the same backend, and that paths resolve from --directory"


def _replay_path(path: Path, network_path: Path | None, backend: Backend | None, ns3_config: Path | None, as_json: bool) -> None:
    from astra_tacos.solver.replayed import replay_schedule_file, replay_trace_file

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
        _print_path(result)
    if not result.get("as_predicted", True):
        raise click.exceptions.Exit(CHECK_FAILED)


def _print_path(result: dict[str, Any]) -> None:
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
