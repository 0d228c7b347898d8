"""Constants fitted to measured times, and their errors on programs that were not fitted.

ASTRA_TACOS_PEERS=DIR python benchmarks/calibrate.py [--no-record]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from results_page import machine, main

from astra_tacos.study.calibrator.machine import (
    Errors,
    Point,
    cross_validated,
    errors_of,
    fit,
    load_of,
    points_of,
    read_measurements,
)

LEAST_BYTES = 1 << 16


def tables() -> str:
    folder = Path(os.environ.get("ASTRA_TACOS_PEERS", "")) / "measured_rccl_8"
    files = sorted((folder / "time").glob("*.csv"))
    if not files:
        sys.exit(f"{folder}: has no times, expected $ASTRA_TACOS_PEERS/measured_rccl_8/time/*.csv")
    points: dict[str, list[Point]] = {}
    for path in files:
        load = load_of(folder / "xml" / path.name.replace("_in_place.csv", ".xml"))
        points.setdefault(load.protocol, []).extend(points_of(load, read_measurements(path), LEAST_BYTES))
    lines = [
        "| protocol | times | launch, us | thread block, GB/s | link, GB/s | median, p90, worst | of the other half |",
        "|---|---|---|---|---|---|---|",
    ]
    every: list[float] = []
    others: list[float] = []
    for protocol, own in points.items():
        constants = fit(own)
        errors, half = errors_of(constants, own), cross_validated(own) or []
        every += errors
        others += half
        fitted = f"{constants.launch_us:.1f} | {constants.block_gbps:.1f} | {constants.link_gbps:.1f}"
        lines.append(f"| {protocol} | {len(own)} | {fitted} | {_text(errors)} | {_text(half)} |")
    lines.append(f"| all | {len(every)} | | | | {_text(every)} | {_text(others)} |")
    return "\n".join([*lines, "", machine()])


def _text(errors: list[float]) -> str:
    found = Errors.of(errors)
    return ", ".join(f"{value:.1%}" for value in (found.median, found.p90, found.worst))


if __name__ == "__main__":
    main(__doc__ or "", "calibrate", tables)
