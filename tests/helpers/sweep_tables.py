"""Rows of sweeps: real ones of small networks, and made-up ones of any size."""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import numpy as np
import yaml
from helpers.networks import config

from astra_tacos import AstraTacosError, build_topology, certify, make_collective, synthesize
from astra_tacos.pages.sweep_columns import SweepColumns
from astra_tacos.support.units import BYTES_PER_GB, BYTES_PER_GIB

_LINKS_PER_NPU = {"Ring": lambda size: 2, "FullyConnected": lambda size: size - 1, "Switch": lambda size: 1}
_DOLLARS = {"Ring": 4.0, "FullyConnected": 4.0, "Switch": 17.0}
_TOTAL_GBPS = 600.0


@functools.cache
def real_sweep() -> SweepColumns:
    """All-Reduces over two dimensions: how 600 GB/s an NPU are split, by synthesizer, size and the outer dimension."""
    axes = ("outer", "b0", "synthesizer", "size_bytes")
    outers = (("FullyConnected", 4), ("Switch", 3))
    synthesizers = ("tacos", "ring", "themis", "halving-doubling")
    rows = []
    for (block, npus), b0, name, size in itertools.product(
        outers, range(100, 501, 80), synthesizers, [1 << p for p in range(16, 29, 3)]
    ):
        dimensions = (("Ring", 4, float(b0)), (block, npus, _TOTAL_GBPS - b0))
        rows.append(
            {"outer": f"{block} {npus}", "b0": float(b0), "b1": _TOTAL_GBPS - b0}
            | _collective_row(len(rows), dimensions, name, size)
        )
    return as_columns("split_of_600", axes, rows)


def _collective_row(point: int, dimensions: tuple[tuple[str, int, float], ...], synthesizer: str, size: int) -> dict[str, Any]:
    gibps = [gbps * BYTES_PER_GB / BYTES_PER_GIB / _LINKS_PER_NPU[block](npus) for block, npus, gbps in dimensions]
    topology = build_topology(
        config(*((block, npus, link, 500.0) for (block, npus, _), link in zip(dimensions, gibps, strict=True)))
    )
    cost = topology.num_npus * sum(gbps * _DOLLARS[block] for block, _, gbps in dimensions)
    row = {
        "point": point,
        "key": f"{point:064x}",
        "status": "ok",
        "error": None,
        "kind": "collective",
        "network": "two_tiers",
        "topology": " x ".join(f"{block} {npus}" for block, npus, _ in dimensions),
        "num_npus": topology.num_npus,
        "num_links": topology.num_links,
        "link_bandwidth_gibps": gibps,
        "latency_ns": [500.0, 500.0],
        "bandwidth_per_npu_gbps": [gbps for *_, gbps in dimensions],
        "total_bandwidth_gbps": sum(gbps for *_, gbps in dimensions),
        "cost": cost,
        "failed_links": 0,
        "collective": "all-reduce",
        "root": None,
        "size_bytes": size,
        "synthesizer": synthesizer,
        "chunks_per_npu": 2,
        "seed": 0,
    }
    try:
        made = certify(
            synthesize(
                topology,
                make_collective("all-reduce", topology.num_npus, size, 2),
                synthesizer=synthesizer,
                link_model="blocking",
                trials=1,
                threads=1,
            )
        )
    except AstraTacosError as error:
        return row | {"status": "refused", "error": str(error)}
    names = ("time_ns", "bound_ns", "bound", "efficiency", "algorithm_bandwidth_gbps", "bus_bandwidth_gbps", "num_sends")
    figures = {name: made[name] for name in names} | {"made_by": made["synthesizer"], "verified": True}
    return row | figures | {"time_cost": made["time_ns"] * 1e-9 * cost, "synthesis_seconds": 0.01, "seconds": 0.02}


def as_columns(name: str, axes: tuple[str, ...], rows: list[dict[str, Any]]) -> SweepColumns:
    names = list(dict.fromkeys(column for row in rows for column in row))
    return SweepColumns(name, axes, {column: [row.get(column) for row in rows] for column in names})


def naive_front(points: list[tuple[float, float]]) -> set[int]:
    """Places of the points that no other one beats: less is better."""

    def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one[0] <= other[0] and one[1] <= other[1] and one != other

    return {place for place, point in enumerate(points) if not any(beats(other, point) for other in points)}


def made_up_sweep(num_points: int, seed: int = 1) -> SweepColumns:
    """A sweep of that many points, ten axes and twelve results, a few of the points failed."""
    draw = np.random.default_rng(seed)
    index = np.arange(num_points)
    sizes = (1 << (16 + 2 * (index % 8))).astype(np.int64)
    names = np.array(["tacos", "ring", "themis", "direct", "routed"])[index // 8 % 5]
    b0 = 50.0 + 50 * (index // 40 % 10)
    b1 = 20.0 + 30 * (index // 400 % 10)
    chunks = 1 << (index // 4000 % 4)
    fraction = 0.05 * (index // 16_000 % 7)
    cost = 16 * (4 * b0 + 17 * b1 + 100 * (index // 4000 % 9))
    bound = (sizes / np.minimum(b0, b1) + 2000).astype(np.int64)
    time = (bound * (1 + draw.exponential(0.4, num_points)) + 1).astype(np.int64)
    failed = draw.random(num_points) < 0.02
    status = np.where(failed, np.where(index % 3 == 0, "timeout", "refused"), "ok")

    figures = {
        "time_ns": time,
        "bound_ns": bound,
        "efficiency": bound / time,
        "algorithm_bandwidth_gbps": sizes / time,
        "bus_bandwidth_gbps": 1.875 * sizes / time,
        "num_sends": draw.integers(100, 100_000, num_points),
        "time_cost": time * 1e-9 * cost,
        "synthesis_seconds": draw.exponential(0.3, num_points),
        "seconds": draw.exponential(0.4, num_points),
    }
    columns = {
        "point": index,
        "status": status,
        "error": np.where(failed, np.char.add(status.astype(object).astype(str), ": too much <b>for</b> it"), None),
        "kind": np.full(num_points, "collective"),
        "b0": b0,
        "b1": b1,
        "network": np.char.add("net", (index // 400 % 5).astype(str)),
        "num_npus": 16 * 2 ** (index // 16_000 % 3),
        "cost": cost,
        "total_bandwidth_gbps": b0 + b1,
        "failed_fraction": fraction,
        "size_bytes": sizes,
        "synthesizer": names,
        "chunks_per_npu": chunks,
        "seed": draw.integers(0, 5, num_points),
        **{name: np.where(failed, None, values) for name, values in figures.items()},
    }
    axes = ("b0", "b1", "synthesizer", "chunks_per_npu", "size_bytes", "failed_fraction")
    return SweepColumns("made up", axes, {name: values.tolist() for name, values in columns.items()})


def workload_sweep() -> SweepColumns:
    """Planned training runs, with figures of their own."""
    rows = []
    for b0, chunks, name in itertools.product((100.0, 200.0, 300.0, 400.0), (1, 4), ("tacos", "auto")):
        exposed = 2e8 / b0 + 3e8 / (600 - b0) + (2e5 if name == "tacos" else 0) / chunks
        end = int(5e7 + exposed)
        before = int(5e7 + 2.5e8 / b0 + 4e8 / (600 - b0))
        cost = 16 * (b0 * 4 + (600 - b0) * 17)
        names = "point status error kind b0 cost workload synthesizer chunks_per_npu time_ns before_ns speed_up"
        row = len(rows), "ok", None, "workload", b0, cost, "transformer_16", name, chunks, end, before, before / end
        more = {"exposed_before_ns": before - 50_000_000, "exposed_ns": end - 50_000_000, "num_collectives": 96}
        rows.append(dict(zip(names.split(), row, strict=True)) | more | {"time_cost": end * 1e-9 * cost})
    return as_columns("transformer", ("b0", "chunks_per_npu", "synthesizer"), rows)


def odd_sweep() -> SweepColumns:
    """Names that are markup, numbers that are none, columns of one value or of nothing."""
    name = '<img src=x onerror="fail()"> & "quotes"'
    rows = yaml.safe_load(
        """
- {point: 0, status: ok, AXIS: 1, synthesizer: NAME, time_ns: .nan, cost: 5.0, own: .inf}
- {point: 1, status: ok, AXIS: 2, synthesizer: b</script>, time_ns: 20, cost: .inf, own: -1.0}
- {point: 2, status: ok, AXIS: 3, synthesizer: NAME, time_ns: 10, cost: 7.5, own: 0.0}
- {point: 3, status: error, error: NAME, AXIS: 1, synthesizer: b</script>, cost: 8.0, nothing: null}
""".replace("NAME", json.dumps(name)).replace("AXIS", "odd <i>axis</i>")
    )
    return as_columns(f"odd {name}", ("odd <i>axis</i>", "synthesizer"), rows)
