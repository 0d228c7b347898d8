"""Calibrations by programs and by runs: constants of a machine for each protocol, or the configuration of ns-3, as files.

A configuration of ns-3 is fitted to the finish times of a few runs. The packet level needs three of its settings: the payload of
a packet, the headers that congestion control adds, and the window of a queue pair. Runs are replayed packet by packet
(`replayer.packet_network`) under many configurations; usual payloads come first.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.network.ns3 import MOST_PAYLOAD_BYTES, Ns3Config, ns3_text
from astra_tacos.replayer.astra_sim import finished
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import PACKET
from astra_tacos.run.run import Run, RunInputs, read_run
from astra_tacos.solver.first_use import Progress, silent
from astra_tacos.study.calibrator.machine import (
    Constants,
    Errors,
    Point,
    cross_validated,
    errors_of,
    fit,
    load_of,
    points_of,
    read_measurements,
    write_calibration,
)
from astra_tacos.study.calibrator.nccl_tests import COLLECTIVES, PLACEMENT_NAMES
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.input_file import read_bounded
from astra_tacos.workload.repairer.reading import network_text

_MOST_LOG_BYTES = 1 << 28
"""Of a log of ASTRA-sim, which has a line for each rank."""
_USUAL = (1000, 1024, 4096, 512, 2048, 1500, 1460, 9000, 8192, 256, 4000, 128)
_LADDER = tuple(round(100 * 1.25**step) for step in range(21))
"""Payloads where no usual one fits, finer ones between them later."""
_KINDS = tuple({"cc_mode": mode, "has_window": window} for mode, window in itertools.product((12, 3), (1, 0)))
"""Without headers of telemetry and with them (HPCC); with windows and without."""
_EXACT = 1e-9
"""Relative error of a configuration that gives the times themselves."""
_REFINED = 3
"""Configurations whose payloads are made better step by step."""
_NOT_FITTED = 0.01
"""Largest relative error of a configuration that is written."""
_MOST_RESIDUAL = 0.5
"""Constants that are further off a time that they were fitted to are no description of the machine."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRun:
    """A run, and when its ranks finished on a real ns-3 backend.

    Parameters
    ----------
    finish_ns
        int64[num_ranks].
    """

    name: str
    run: Run
    finish_ns: Ints

    def error(self, ns3: Ns3Config) -> float:
        """The largest relative error of a rank's finish under a configuration; infinity where the run cannot be replayed."""
        network = replace(self.run.network, ns3=ns3)
        try:
            replayed = replay_run(replace(self.run, network=network), PACKET).finish_ns
        except AstraTacosError:
            return np.inf
        return float(np.max(np.abs(replayed[: len(self.finish_ns)] / self.finish_ns - 1)))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted configuration."""

    ns3: Ns3Config
    errors: dict[str, float]
    num_tried: int

    @property
    def worst(self) -> float:
        """The largest error."""
        return max(self.errors.values())


def read_finish(path: Path, num_ranks: int) -> Ints:
    """Finish times of all ranks from a log of ASTRA-sim.

    Raises
    ------
    ConfigError
        If the log lacks the line of a rank, has more ranks, or a rank finished at 0.
    """
    log = read_bounded(path, _MOST_LOG_BYTES, "a log of ASTRA-sim").decode(errors="replace")
    finish_ns, _ = finished(log, num_ranks + 1)
    if finish_ns[num_ranks] >= 0:
        raise ConfigError(f"{path}: rank {num_ranks} finished, expected the log of a run of {num_ranks} ranks")
    finish_ns = finish_ns[:num_ranks]
    if (finish_ns <= 0).any():
        rank = int(np.argmin(finish_ns > 0))
        raise ConfigError(f"{path}: no time at which rank {rank} finished, expected 'sys[{rank}] finished, N cycles, ...'")
    return finish_ns


def fit_ns3(runs: Sequence[MeasuredRun], on_progress: Callable[[int, int], None] = lambda done, total: None) -> Fitted:
    """The configuration under which the embedded replay comes closest to some runs.

    Usual payloads are tried with all kinds of headers and windows, then others; the best few are made better by smaller and
    smaller steps. The first configuration that gives all times exactly is taken.

    Parameters
    ----------
    on_progress
        Called with how many configurations were tried, and about how many there are.

    Raises
    ------
    ConfigError
        If there is no run, or none can be replayed.
    """
    if not runs:
        raise ConfigError("no run, expected two or more with their logs")
    tried: dict[Ns3Config, float] = {}
    num_trials = (len(_USUAL) + len(_LADDER)) * len(_KINDS)

    def error(ns3: Ns3Config) -> float:
        if ns3 not in tried:
            tried[ns3] = max(run.error(ns3) for run in runs)
            on_progress(min(len(tried), num_trials - 1), num_trials)
        return tried[ns3]

    def best() -> Ns3Config:
        return min(tried, key=lambda ns3: tried[ns3])  # the first of equals

    for payload, kind in ((payload, kind) for payloads in (_USUAL, _LADDER) for payload in payloads for kind in _KINDS):
        if error(Ns3Config(source="the fitted configuration", payload_bytes=payload, **kind)) < _EXACT:
            break
    if not np.isfinite(tried[best()]):
        for run in runs:  # says why
            replay_run(run.run, PACKET)
        raise ConfigError(f"{runs[0].name}: the run cannot be replayed under any configuration that was tried")
    for leader in sorted(tried, key=lambda ns3: tried[ns3])[:_REFINED]:
        if tried[best()] < _EXACT:
            break
        _refine(leader, error)
    chosen = best()
    return Fitted(chosen, {run.name: run.error(chosen) for run in runs}, len(tried))


def _refine(leader: Ns3Config, error: Callable[[Ns3Config], float]) -> None:
    """Move the payload by smaller and smaller steps, as long as that helps."""
    step = max(leader.payload_bytes // 8, 1)
    while True:
        near = [leader.payload_bytes + sign * step for sign in (-1, 1)]
        others = [replace(leader, payload_bytes=min(max(payload, 1), MOST_PAYLOAD_BYTES)) for payload in near]
        closest = min(others, key=error)
        if error(closest) < error(leader):
            leader = closest
        elif step == 1:
            return
        else:
            step = max(step // 2, 1)


def calibrate_machine(
    pairs: Sequence[tuple[Path, Path]], least_bytes: int, output: Path | None, progress: Progress = silent
) -> dict[str, Any]:
    """Fit the constants of a machine, by protocol, and write them with a network file for each.

    Parameters
    ----------
    output
        The directory to write; None for none. Nothing is written if the constants are too far off.

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
            load = load_of(program)
            collective = load.collective.replace("-", "_")
            measured = read_measurements(times, collective if collective in COLLECTIVES else None)
            points.setdefault(load.protocol, []).extend(points_of(load, measured, least_bytes))
            npus.add(load.num_npus)
            if measured.skipped and not measured.notes:
                notes.append(f"{times}: {measured.skipped} lines have no time")
            notes += measured.notes
    if len(npus) > 1:
        raise ConfigError(f"programs are for {', '.join(map(str, sorted(npus)))} GPUs, expected one machine")
    rows, every, others = [], [], []
    with progress("fitting"):
        for protocol, group in points.items():
            constants = fit(group)
            errors, half = errors_of(constants, group), cross_validated(group)
            if half is None:
                notes.append(f"{protocol}: fewer than four programs, so none predicts others")
            every += errors
            others += half or []
            rows.append(_row(protocol, group, constants, Errors.of(errors), Errors.of(half) if half else None))
    if len(depths := {point.load.depth for group in points.values() for point in group}) == 1:
        notes.append(
            f"all programs have depth {depths.pop()}, which does not tell the launch from steps: the launch is about typical"
        )
    worst = Errors.of(every)
    is_fitted = worst.worst <= _MOST_RESIDUAL
    if not is_fitted:
        output = None
        notes.append(
            f"a time is more than {_MOST_RESIDUAL:.0%} off the fit, nothing is written: check that times and programs match"
        )
    result: dict[str, Any] = {
        "num_npus": npus.pop(),
        "from_bytes": least_bytes,
        "placements": dict(Counter(PLACEMENT_NAMES[point.placement] for group in points.values() for point in group)),
        "protocols": rows,
        "errors": asdict(worst),
        "cross_validated": asdict(Errors.of(others)) if others else None,
        "notes": notes,
    }
    files = {f"network_{row['protocol']}.yml": _network(row, int(result["num_npus"])) for row in rows}
    return write_calibration(output, result, files) | {"is_fitted": is_fitted}


def calibrate_ns3(
    pairs: Sequence[tuple[Path, Path]], network_path: Path | None, output: Path | None, progress: Progress = silent
) -> dict[str, Any]:
    """Fit the configuration of ns-3 to runs and their logs, and write it.

    Parameters
    ----------
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
    }
    text = ns3_text(fitted.ns3)
    return write_calibration(output, result, {"ns3_config.txt": text}) | {"is_fitted": is_fitted, "text": text}


def _row(protocol: str, points: list[Point], constants: Constants, errors: Errors, half: Errors | None) -> dict[str, Any]:
    return {
        "protocol": protocol or "unknown",
        "programs": len({point.load.name for point in points}),
        "times": len(points),
        **asdict(constants),
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
    comment = (
        f"# Fitted by astra-tacos calibrate to {row['times']} times of {row['programs']} programs, protocol {row['protocol']}.\n"
        f"# The model with thread blocks is off by {errors['median']:.1%} (median), {errors['p90']:.1%} (90th percentile), "
        f"{errors['worst']:.1%} (worst).\n"
        f"# A network has links only: it is right where links limit, not thread blocks ({row['block_gbps']:.3g} GB/s each).\n"
    )
    gibps = row["link_gbps"] * 1e9 / (1 << 30)
    return comment + network_text(
        num_npus, round(gibps, 6), round((row["launch_us"] / max(row["depth"], 1) + row["step_us"]) * 1e3, 3)
    )
