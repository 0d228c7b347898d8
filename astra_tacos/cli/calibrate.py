"""`astra-tacos calibrate`: the constants of a machine from measured times."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.command import command
from astra_tacos.cli.console import compile_ahead, echo, print_json, print_rows, print_table, progress
from astra_tacos.cli.main import CHECK_FAILED
from astra_tacos.cli.options import Size, json_option, network_option, output_option
from astra_tacos.solver.first_use import PROGRAMS, READING, REPLAYING
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_directory, write_json

if TYPE_CHECKING:
    from astra_tacos.study.calibrator.machine import Constants, Errors, Point
    from astra_tacos.study.calibrator.packet_runs import Fitted

_NOT_FITTED = 0.01
_MOST_RESIDUAL = 0.5
"""Constants that are further off a time that they were fitted to are no description of the machine."""
_HEADER = (
    "protocol",
    "programs",
    "times",
    "launch us",
    "extra us",
    "from",
    "thread block GB/s",
    "link GB/s",
    "median",
    "p90",
    "worst",
    "other half: median",
    "p90 ",
    "worst ",
)


@command()
@click.argument("files", metavar="PROGRAM.xml|DIR TIMES|LOG...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--from", "least_bytes", type=Size(), default="64KiB", show_default=True, help="Smallest size that counts.")
@output_option("Write calibration.json and a network file for each protocol.")
@network_option
@json_option
def calibrate(files: tuple[Path, ...], least_bytes: int, output: Path | None, network_path: Path | None, as_json: bool) -> None:
    """Fit the constants of a machine to measured times of MSCCL programs, by protocol, and say how far off they are.

    \b
    astra-tacos calibrate ring.xml ring.csv all_pairs.xml all_pairs.log --output DIR
    astra-tacos calibrate run_1 run_1.log run_2 run_2.log --output DIR

    FILEs come in pairs: a program, and its times: CSV with columns `size` (bytes) and `time` (us), or a log of nccl-tests. Of
    times in place and out of place, those count that the program is for. The constants are the launch of a program, the
    throughput of a thread block and of a link, and what large messages cost beside.
    With four programs of a protocol or more, each half of them also predicts the other half. All programs need the same number
    of GPUs.

    Pairs of a run directory and a log of ASTRA-sim with ns-3 fit the configuration of ns-3 instead, where that is not known:
    payload, headers and windows. DIR gets it as ns3_config.txt, for --ns3-config. Two small runs do.
    """
    from astra_tacos.study.calibrator.machine import (
        Errors,
        cross_validated,
        errors_of,
        fit,
        load_of,
        points_of,
        read_measurements,
    )

    if len(files) % 2:
        raise click.UsageError("Expected pairs of files: a program, and its measured times.")
    if output is not None and output.exists():
        raise ConfigError(f"{output}: exists, expected a directory to be made")
    are_runs = {path.is_dir() for path in files[::2]}
    if len(are_runs) > 1:
        raise click.UsageError("Got programs and run directories, expected one kind of them.")
    if are_runs == {True}:
        _fit_ns3(files, network_path, output, as_json)
        return
    if network_path is not None:
        raise click.UsageError("--network is for run directories: programs have no network.")
    compile_ahead(*PROGRAMS)
    points: dict[str, list[Point]] = {}
    notes: list[str] = []
    npus: set[int] = set()
    with progress("reading"):
        for program, times in zip(files[::2], files[1::2], strict=True):
            load, measured = load_of(program), read_measurements(times)
            points.setdefault(load.protocol, []).extend(points_of(load, measured, least_bytes))
            npus.add(load.num_npus)
            if measured.skipped:
                notes.append(f"{times}: {measured.skipped} lines have no time")
    if len(npus) > 1:
        raise ConfigError(f"programs are for {', '.join(map(str, sorted(npus)))} GPUs, expected one machine")
    rows, every, others = [], [], []
    with progress("fitting"):
        for protocol, own in points.items():
            constants = fit(own)
            errors, half = errors_of(constants, own), cross_validated(own)
            if half is None:
                notes.append(f"{protocol}: fewer than four programs, so none predicts others")
            every += errors
            others += half or []
            rows.append(_row(protocol, own, constants, Errors.of(errors), Errors.of(half) if half else None))
    result: dict[str, Any] = {
        "num_npus": npus.pop(),
        "from_bytes": least_bytes,
        "placements": _placements([point for own in points.values() for point in own]),
        "protocols": rows,
        "errors": asdict(Errors.of(every)),
        "cross_validated": asdict(Errors.of(others)) if others else None,
        "notes": notes,
        "output": None if output is None else str(output),
    }
    is_fitted = result["errors"]["worst"] <= _MOST_RESIDUAL
    if not is_fitted:
        result["output"] = output = None
        notes.append(
            f"a time is more than {_MOST_RESIDUAL:.0%} off the fit, so nothing is written: do the times belong to the programs?"
        )
    if output is not None:
        with replaced_directory(output) as folder:
            write_json(folder / "calibration.json", result)
            for row in rows:
                (folder / f"network_{row['protocol']}.yml").write_text(_network(row, int(result["num_npus"])), encoding="utf-8")
    if as_json:
        print_json(result)
    else:
        _print(result)
    if not is_fitted:
        raise click.exceptions.Exit(CHECK_FAILED)


def _placements(points: list[Point]) -> dict[str, int]:
    """How many times of each placement count."""
    from collections import Counter

    from astra_tacos.study.calibrator.machine import PLACEMENT_NAMES

    return dict(Counter(PLACEMENT_NAMES[point.placement] for point in points))


def _fit_ns3(files: tuple[Path, ...], network_path: Path | None, output: Path | None, as_json: bool) -> None:
    """Fit the configuration of ns-3 to runs and their logs."""
    from astra_tacos.network.ns3 import ns3_text
    from astra_tacos.run.run import read_run
    from astra_tacos.study.calibrator.packet_runs import MeasuredRun, fit_ns3, read_finish

    compile_ahead(*READING, *REPLAYING)
    runs = []
    with progress("reading"):
        for folder, log in zip(files[::2], files[1::2], strict=True):
            first = sorted((folder / "workload").glob("*.0.et"))
            if len(first) != 1:
                raise ConfigError(f"{folder}: {len(first)} files workload/*.0.et, expected one run")
            groups = folder / "comm_group.json"
            memory = folder / "remote_memory.json"
            network = network_path or folder / "network.yml"
            run = read_run(
                first[0].with_suffix("").with_suffix(""),
                folder / "system.json",
                network,
                groups if groups.is_file() else None,
                memory if memory.is_file() else None,
                folder,
            )
            runs.append(MeasuredRun(str(folder), run, read_finish(log, run.workload.num_ranks)))
    with progress("fitting") as on_progress:
        fitted = fit_ns3(runs, on_progress)
    notes = []
    if len(runs) < 2:
        notes.append("one run may fit several configurations: two runs of different messages tell them apart")
    is_fitted = fitted.worst <= _NOT_FITTED
    if not is_fitted:
        output = None
        notes.append(
            f"no configuration gives these times within {_NOT_FITTED:.0%}, so none is written: the network file may have other "
            "links, or ns-3 changes rates"
        )
    result: dict[str, Any] = {
        "ns3": {name: value for name, value in asdict(fitted.ns3).items() if name != "source"},
        "errors": fitted.errors,
        "worst": fitted.worst,
        "configurations_tried": fitted.num_tried,
        "notes": notes,
        "output": None if output is None else str(output),
    }
    if output is not None:
        with replaced_directory(output) as made:
            write_json(made / "calibration.json", result)
            (made / "ns3_config.txt").write_text(ns3_text(fitted.ns3), encoding="utf-8")
    if as_json:
        print_json(result)
    else:
        _print_ns3(fitted, result)
    if not is_fitted:
        raise click.exceptions.Exit(CHECK_FAILED)


def _print_ns3(fitted: Fitted, result: dict[str, Any]) -> None:
    from astra_tacos.network.ns3 import ns3_text

    rows = [(key, str(value)) for key, value in (line.split() for line in ns3_text(fitted.ns3).splitlines())]
    rows += [("worst error of a rank", f"{error:.2%}, {name}") for name, error in fitted.errors.items()]
    print_rows([*rows, ("tried", f"{fitted.num_tried} configurations"), *(("note", note) for note in result["notes"])])
    if result["output"] is not None:
        echo(f"\nwritten: {result['output']}")


def _row(protocol: str, points: list[Point], constants: Constants, errors: Errors, half: Errors | None) -> dict[str, Any]:
    return {
        "protocol": protocol or "unknown",
        "programs": len({point.load.name for point in points}),
        "times": len(points),
        "launch_us": constants.launch_us,
        "extra_us": constants.extra_us,
        "threshold_bytes": constants.threshold_bytes,
        "block_gbps": constants.block_gbps,
        "link_gbps": constants.link_gbps,
        "depth": max(point.load.depth for point in points),
        "errors": asdict(errors),
        "cross_validated": None if half is None else asdict(half),
        "residuals": [
            {
                "program": point.load.name,
                "in_place": point.placement,
                "size_bytes": point.size_bytes,
                "measured_us": point.time_us,
                "model_us": constants.time_us(point.load, point.size_bytes),
            }
            for point in points
        ],
    }


def _network(row: dict[str, Any], num_npus: int) -> str:
    """A network of links between all NPUs, of the fitted bandwidth; a message takes its share of the launch."""
    from astra_tacos.workload.repairer.reading import network_text

    errors = row["errors"]
    about = (
        f"# Fitted by astra-tacos calibrate to {row['times']} times of {row['programs']} programs, protocol {row['protocol']}.\n"
        f"# The model with thread blocks is off by {errors['median']:.1%} (median), {errors['p90']:.1%} (90th percentile), "
        f"{errors['worst']:.1%} (worst).\n"
        f"# A network has links only: it is right where links limit, not thread blocks ({row['block_gbps']:.3g} GB/s each).\n"
    )
    gibps = row["link_gbps"] * 1e9 / (1 << 30)
    return about + network_text(num_npus, round(gibps, 6), round(row["launch_us"] * 1e3 / max(row["depth"], 1), 3))


def _print(result: dict[str, Any]) -> None:
    from astra_tacos.support.units import format_size

    def share(errors: dict[str, float] | None, name: str) -> str:
        return "-" if errors is None else f"{errors[name]:.1%}"

    table = []
    for row in result["protocols"]:
        both = (row["errors"], row["cross_validated"])
        table.append(
            (
                row["protocol"],
                str(row["programs"]),
                str(row["times"]),
                f"{row['launch_us']:.1f}",
                f"{row['extra_us']:.1f}",
                "-" if row["threshold_bytes"] is None else format_size(row["threshold_bytes"]),
                f"{row['block_gbps']:.3g}",
                f"{row['link_gbps']:.3g}",
                *(share(errors, name) for errors in both for name in ("median", "p90", "worst")),
            )
        )
    rows = [("machine", f"{result['num_npus']} GPUs, times from {format_size(result['from_bytes'])} on")]
    rows.append(("times that count", ", ".join(f"{count} {name}" for name, count in result["placements"].items())))
    for label, errors in (("error", result["errors"]), ("error, other half", result["cross_validated"])):
        if errors is not None:
            shares = ", ".join(f"{name} {errors[name]:.1%}" for name in ("median", "p90", "worst"))
            rows.append((label, f"{shares} of {errors['count']} times"))
    rows += [("note", note) for note in result["notes"]]
    print_rows(rows)
    print_table("constants", _HEADER, table)
    if result["output"] is not None:
        echo(f"\nwritten: {result['output']}")
