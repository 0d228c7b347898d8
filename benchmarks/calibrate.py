"""Constants fitted to measured times, and their errors on programs that were not fitted.

ASTRA_TACOS_PEERS=DIR python benchmarks/calibrate.py [--no-record]
"""

from __future__ import annotations

import csv
import itertools
import math
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from results_page import machine, main

from astra_tacos.network.network_config import read_network
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.solver.solution import Request, Solution
from astra_tacos.solver.solve import solve
from astra_tacos.study.calibrator.collective_model import PRIORS, Work
from astra_tacos.study.calibrator.collective_times import CollectiveTime, Reading, read_collectives
from astra_tacos.study.calibrator.collectives import calibrate_collectives, errors_of_rows, fit_collectives
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
from astra_tacos.synthesizer.search.search_options import SearchOptions

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
        "| protocol | times | launch, us | step, us | thread block, GB/s | link, GB/s | median, p90, worst | of the other half |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every: list[float] = []
    others: list[float] = []
    for protocol, own in points.items():
        constants = fit(own)
        errors, half = errors_of(constants, own), cross_validated(own) or []
        every += errors
        others += half
        fitted = f"{constants.launch_us:.1f} | {constants.step_us:.1f} | {constants.block_gbps:.1f} | {constants.link_gbps:.1f}"
        lines.append(f"| {protocol} | {len(own)} | {fitted} | {_text(errors)} | {_text(half)} |")
    lines.append(f"| all | {len(every)} | | | | | {_text(every)} | {_text(others)} |")
    return "\n".join([*lines, "", *collectives(), "", *in_switches(), "", *worth(), "", machine()])


Rows = list[CollectiveTime]
MIB = 1 << 20


def collectives() -> list[str]:
    """Errors on collectives, node counts and sizes that were not fitted."""
    lines = ["| machine | fitted | predicted | times | median, p90, worst |", "|---|---|---|---|---|"]

    def show(machine: str, names: tuple[str, str], errors: list[float]) -> None:
        lines.append(f"| {machine} | {names[0]} | {names[1]} | {len(errors)} | {_text(errors)} |")

    def add(machine: str, names: tuple[str, str], rows: tuple[Rows, Rows], **known: bool) -> list[float]:
        errors = [abs(error) for error in errors_of_rows(fit_collectives(rows[0], **known).model, rows[1])]
        show(machine, names, errors)
        return errors

    def leave_out(machine: str, rows: Rows, counts: Callable[[CollectiveTime], bool], **known: bool) -> list[float]:
        errors: list[float] = []
        for name in dict.fromkeys(row.collective for row in rows):
            others, own = ([row for row in rows if (row.collective == name) is is_own] for is_own in (False, True))
            errors += add(machine, ("the others", name), (others, [row for row in own if counts(row)]), **known)
        return errors

    h100 = _rows("measured_h100/collectives.csv")
    one_node = leave_out("H100, 1 node", h100, lambda row: row.nodes == 1, has_nvls=True)
    ten_nodes = leave_out("H100, 10 nodes", h100, lambda row: row.nodes == 10, has_nvls=True)
    show("H100, 1 and 10 nodes", ("the others", "each in turn"), one_node + ten_nodes)
    small, large = ([row for row in h100 if (row.size_bytes <= 256 * MIB) is is_small] for is_small in (True, False))
    add("H100", ("up to 256 MiB", "above"), (small, large), has_nvls=True)
    pairs = _rows("measured_h100/pairs.csv", machine="example-cluster01")
    for name in ("all_to_all", "sendrecv"):
        add(
            "H100",
            ("1 and 10 nodes", f"{name}, 2 nodes"),
            (h100, [row for row in pairs if row.collective == name]),
            has_nvls=True,
        )
    for setup, names in (("5", ("all_gather",)), ("1", ("all_reduce", "all_to_all"))):
        rows = _rows("measured_polaris/collectives.csv", machine="Polaris", setup=setup, nccl="2.18")
        few = [row for row in rows if row.nodes <= 8]
        for name in names:
            many = [row for row in rows if row.nodes == 128 and row.collective == name and row.size_bytes >= MIB]
            add(f"Polaris, setup {setup}", ("2 and 8 nodes", f"{name}, 128 nodes, from 1 MiB"), (few, many), has_nvls=False)
    for cluster, where in MACHINES_OF_POLARIS:
        rows = _rows("measured_polaris/collectives.csv", machine=cluster, **where)
        title = ", ".join([cluster, *(f"{key} {value}" for key, value in where.items())])
        leave_out(f"{title}, from 1 MiB", rows, lambda row: row.size_bytes >= MIB, has_nvls=False)
    for name in ("nccl_ring", "nccl_tree"):
        rows = _rows("measured_fugaku/mn5_nccl.csv", algorithm=name)
        few, many = ([row for row in rows if (row.nodes <= 8) is is_few] for is_few in (True, False))
        add(f"MareNostrum 5, {name}", ("4 and 8 nodes", "16 and 32 nodes"), (few, many), has_nvls=False)
    of_small, rough = list[float](), list[str]()
    for gpu, arm in (("A100", "intra-node"), ("GH200", "intra-node"), ("A100", "socket default"), ("A100", "socket fournic")):
        rows = _rows("measured_small/collectives.csv", machine=f"Merlin-{gpu}", arm=arm)
        rows = [_whole(row) for row in rows]
        halves = _halves(rows)
        known = {"has_nvls": False, "is_mesh": arm == "intra-node"}
        of_small += add(f"{gpu}, {arm}", HALVES, halves, **known)
        rough.append(f"{np.median(_from_neighbours(rows)):.1%} ({gpu}, {arm})")
    show("these four", HALVES, of_small)
    return [
        *lines,
        "",
        f"Between the times of its neighbours in size, a time up to 64 KiB is off by, in the median: {', '.join(rough)}.",
    ]


HALVES = ("half of the sizes", "the other half, up to 64 KiB")


def in_switches() -> list[str]:
    """How much faster All-Reduces of 8 GiB are with a switch that adds, by the bytes of the model and the typical share, and as
    measured. Where a ring is faster, the library takes that."""
    lines = ["| GPUs | predicted | measured | predicted / measured |", "|---|---|---|---|"]
    path = Path(os.environ["ASTRA_TACOS_PEERS"]) / "measured_nvls" / "nvls.csv"
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["size_bytes"] == str(8192 * MIB) and row["nvls"]]
    us = {(row["machine"], int(row["gpus_per_node"]), row["nvls"]): float(row["time_us"]) for row in reversed(rows)}
    for machine_name, gpus, is_on in sorted(us):
        if is_on == "off" and (machine_name, gpus, "on") in us:
            with_it, without = us[machine_name, gpus, "on"], us[machine_name, gpus, "off"]
            row = CollectiveTime("all_reduce", "", 1, gpus, 8192 * MIB, without, "")
            ring, _, in_switch = Work.of([row], has_nvls=True, is_mesh=False).inside_bytes[0]
            predicted, measured = max(PRIORS["nvls_share"][0] * ring / in_switch, 1.0), without / with_it
            lines.append(f"| {machine_name} x {gpus} | {predicted:.3f} | {measured:.3f} | {predicted / measured:.3f} |")
    return lines


def worth() -> list[str]:
    """What the best synthesized algorithm would gain over the library: by links and launch, and with the cost of steps."""
    names = "machine, collective, size, measured (us), by links (us), with steps (us), gain, error: median and p90, "
    head = names.split(", ")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    h100 = "measured_h100/collectives.csv"
    polaris = {"machine": "Polaris", "setup": "4", "nccl": "2.18"}
    for name, path, where, shape, sizes in (
        ("H100, 1 x 8", h100, {}, (1, 8), (32, 256, 2048, 16384)),
        ("H100, 10 x 8", h100, {}, (10, 8), (32, 256, 2048, 16384)),
        ("Polaris, 8 x 4", "measured_polaris/collectives.csv", polaris, (8, 4), (1, 16, 256, 1024)),
    ):
        rows = _rows(path, **where)
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "machine"
            found = calibrate_collectives([Path(os.environ["ASTRA_TACOS_PEERS"]) / path], None, Reading(where=where), output)
            network = read_network(output / "network.yml")
        sized = [replace(each, size=count) for each, count in zip(network.dimensions, reversed(shape), strict=True) if count > 1]
        network = replace(network, dimensions=tuple(sized))
        for collective, size in itertools.product(("all_reduce", "all_gather", "all_to_all"), sizes):
            case = (collective, *shape, size)
            times = [row.time_us for row in rows if (row.collective, row.nodes, row.gpus, _mib(row)) == case]
            if not times:
                continue
            measured, ranks = float(np.median(times)), shape[0] * shape[1]
            asked = size * MIB // (ranks if collective == "all_gather" else 1) // (ranks * 8) * (ranks * 8)
            options = SearchOptions(effort="quick")
            request = Request(network, collective.replace("_", "-"), asked, options=options, checks=False)
            made = solve(request)
            assert isinstance(made, Solution)
            links = found["constants"]["launch_us"]["value"] + made.to_json()["time_ns"] / 1e3
            steps = links + _cost_of_steps(made.schedule, found, shape[0] > 1)
            least, most = measured / steps - 1, measured / links - 1
            error, p90 = network.error or 0.0, found["left_out"]["all"]["p90"]
            sure, by = (least, "gains") if least > 0 else (-most, "the library is faster")
            words = {p90: by, error: f"perhaps {by}", -math.inf: "inside the error"}
            verdict = next(text for limit, text in words.items() if sure > limit)
            gain = f"{least:+.1%} to {most:+.1%}"
            figures = f"{measured:,.0f} | {links:,.0f} | {steps:,.0f} | {gain} | {error:.1%}, {p90:.1%}"
            cells = (name, collective, f"{size:,} MiB", figures, verdict)
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cost_of_steps(schedule: Schedule, found: dict[str, Any], crosses: bool) -> float:
    """What the library would pay for the longest chain of messages, and for each peer, beyond the latency of the links."""
    topology, depth = schedule.topology, dict[tuple[int, int], int]()
    src, dst = topology.channel_src[schedule.channel], topology.channel_dst[schedule.channel]
    for row in np.argsort(schedule.start_ns, kind="stable").tolist():
        chunk = int(schedule.chunk[row])
        to = (chunk, int(dst[row]))
        depth[to] = max(depth.get(to, 0), depth.get((chunk, int(src[row])), 0) + 1)
    constants = {name: entry["value"] for name, entry in found["constants"].items()}
    knots, factors = (np.log(found["step_curve"][name]) for name in ("message_bytes", "factor"))
    message = np.log(float(schedule.collective.chunk_size_bytes.max()))
    growth = constants["growth"] * max(message - knots[-1], 0.0)
    factor = np.exp(np.interp(message, knots, factors) + growth) - np.exp(factors.min())
    step = constants["inside_step_us"] * (constants["between_ratio"] if crosses else 1.0)
    peers = max(len(set(dst[src == npu].tolist())) for npu in range(topology.num_npus))
    return float(max(depth.values()) * step * factor + peers * constants["peer_us"])


def _mib(row: CollectiveTime) -> int:
    return round(row.size_bytes / MIB)


MACHINES_OF_POLARIS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Sophia", {"setup": "6"}),
    ("Sirius", {"setup": "4", "nccl": "2.21"}),
    ("Sirius", {"setup": "5", "nccl": "2.18"}),
    ("Sirius", {"setup": "5", "nccl": "2.21"}),
    ("Polaris", {"setup": "4", "nccl": "2.18"}),
)


def _rows(name: str, **where: str) -> Rows:
    return read_collectives([Path(os.environ["ASTRA_TACOS_PEERS"]) / name], Reading(where=where)).rows


def _whole(row: CollectiveTime) -> CollectiveTime:
    """All-to-All of this file counts the bytes of a pair."""
    return replace(row, size_bytes=row.size_bytes * row.nodes * row.gpus) if row.collective == "all_to_all" else row


def _halves(rows: Rows) -> tuple[Rows, Rows]:
    """Every other size of each collective and shape, and those between up to 64 KiB."""
    tests: dict[tuple[str, int, int], Rows] = {}
    for row in sorted(rows, key=lambda row: row.size_bytes):
        tests.setdefault((row.collective, row.nodes, row.gpus), []).append(row)
    return (
        [row for own in tests.values() for row in own[::2]],
        [row for own in tests.values() for row in own[1::2] if row.size_bytes <= 1 << 16],
    )


def _from_neighbours(rows: Rows) -> list[float]:
    """How far times up to 64 KiB are from a power law between those of the next smaller and the next larger size."""
    tests: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for row in sorted(rows, key=lambda row: row.size_bytes):
        tests.setdefault((row.collective, row.nodes, row.gpus), []).append((math.log(row.size_bytes), math.log(row.time_us)))
    off = []
    for test in tests.values():
        for before, (size, time), after in zip(test, test[1:], test[2:], strict=False):
            if size <= math.log(1 << 16):
                sizes, times = zip(before, after, strict=True)
                off.append(abs(math.expm1(float(np.interp(size, sizes, times)) - time)))
    return off


def _text(errors: list[float]) -> str:
    found = Errors.of(errors)
    return ", ".join(f"{value:.1%}" for value in (found.median, found.p90, found.worst))


if __name__ == "__main__":
    main(__doc__ or "", "calibrate", tables)
