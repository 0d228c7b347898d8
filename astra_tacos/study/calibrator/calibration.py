"""A calibration as a whole: constants of a machine by protocol, or the configuration of ns-3, with errors and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from astra_tacos.network.ns3 import ns3_text
from astra_tacos.run.run import RunInputs, read_run
from astra_tacos.solver.first_use import Progress, silent
from astra_tacos.study.calibrator.machine import (
    PLACEMENT_NAMES,
    Constants,
    Errors,
    Point,
    cross_validated,
    errors_of,
    fit,
    load_of,
    points_of,
    read_measurements,
)
from astra_tacos.study.calibrator.packet_runs import MeasuredRun, fit_ns3, read_finish
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_directory, write_json
from astra_tacos.workload.repairer.reading import network_text

_NOT_FITTED = 0.01
_MOST_RESIDUAL = 0.5
"""Constants that are further off a time that they were fitted to are no description of the machine."""


def calibrate_machine(
    pairs: Sequence[tuple[Path, Path]], least_bytes: int, output: Path | None, progress: Progress = silent
) -> dict[str, Any]:
    """Fit the constants of a machine, by protocol, and write them with a network file for each.

    Parameters
    ----------
    pairs
        Programs and their measured times.
    least_bytes
        The smallest size that counts.
    output
        The directory to write; None for none. Nothing is written if the constants are too far off.
    progress
        Told what is being done.

    Returns
    -------
    dict
        calibration.json, and `is_fitted`.
    """
    points: dict[str, list[Point]] = {}
    notes: list[str] = []
    npus: set[int] = set()
    with progress("reading"):
        for program, times in pairs:
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
    if len(depths := {point.load.depth for own in points.values() for point in own}) == 1:
        notes.append(
            f"all programs have depth {depths.pop()}, which does not tell the launch from steps: the launch is about typical"
        )
    worst = Errors.of(every)
    is_fitted = worst.worst <= _MOST_RESIDUAL
    if not is_fitted:
        output = None
        notes.append(
            f"a time is more than {_MOST_RESIDUAL:.0%} off the fit, so nothing is written: do the times belong to the programs?"
        )
    result: dict[str, Any] = {
        "num_npus": npus.pop(),
        "from_bytes": least_bytes,
        "placements": dict(Counter(PLACEMENT_NAMES[point.placement] for own in points.values() for point in own)),
        "protocols": rows,
        "errors": asdict(worst),
        "cross_validated": asdict(Errors.of(others)) if others else None,
        "notes": notes,
        "output": None if output is None else str(output),
    }
    if output is not None:
        with replaced_directory(output) as folder:
            write_json(folder / "calibration.json", result)
            for row in rows:
                (folder / f"network_{row['protocol']}.yml").write_text(_network(row, int(result["num_npus"])), encoding="utf-8")
    return result | {"is_fitted": is_fitted}


def calibrate_ns3(
    pairs: Sequence[tuple[Path, Path]], network_path: Path | None, output: Path | None, progress: Progress = silent
) -> dict[str, Any]:
    """Fit the configuration of ns-3 to runs and their logs, and write it.

    Parameters
    ----------
    pairs
        Run directories and their logs.
    network_path
        The network of all runs; None for that of each.
    output, progress
        As of `calibrate_machine`.

    Returns
    -------
    dict
        calibration.json, `is_fitted`, and `text`, the configuration.
    """
    runs = []
    with progress("reading"):
        for folder, log in pairs:
            first = sorted((folder / "workload").glob("*.0.et"))
            if len(first) != 1:
                raise ConfigError(f"{folder}: {len(first)} files workload/*.0.et, expected one run")
            inputs = RunInputs.in_folder(folder, first[0].with_suffix("").with_suffix("").name)
            run = read_run(inputs if network_path is None else replace(inputs, network=network_path))
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
    text = ns3_text(fitted.ns3)
    if output is not None:
        with replaced_directory(output) as made:
            write_json(made / "calibration.json", result)
            (made / "ns3_config.txt").write_text(text, encoding="utf-8")
    return result | {"is_fitted": is_fitted, "text": text}


def _row(protocol: str, points: list[Point], constants: Constants, errors: Errors, half: Errors | None) -> dict[str, Any]:
    return {
        "protocol": protocol or "unknown",
        "programs": len({point.load.name for point in points}),
        "times": len(points),
        "launch_us": constants.launch_us,
        "step_us": constants.step_us,
        "extra_us": constants.extra_us,
        "threshold_bytes": constants.threshold_bytes,
        "overlaps": constants.overlaps,
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
    errors = row["errors"]
    about = (
        f"# Fitted by astra-tacos calibrate to {row['times']} times of {row['programs']} programs, protocol {row['protocol']}.\n"
        f"# The model with thread blocks is off by {errors['median']:.1%} (median), {errors['p90']:.1%} (90th percentile), "
        f"{errors['worst']:.1%} (worst).\n"
        f"# A network has links only: it is right where links limit, not thread blocks ({row['block_gbps']:.3g} GB/s each).\n"
    )
    gibps = row["link_gbps"] * 1e9 / (1 << 30)
    return about + network_text(
        num_npus, round(gibps, 6), round((row["launch_us"] / max(row["depth"], 1) + row["step_us"]) * 1e3, 3)
    )
