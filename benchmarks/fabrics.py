"""Collectives on graphs with switches: time against the bound, on kinds and ForestColl's; rewrites results/fabrics.md.

    ASTRA_TACOS_PEERS=DIR python benchmarks/fabrics.py [--no-record]

In this process, warm; seconds are CPU seconds. ForestColl's graphs are read from DIR/forestcoll; without it they are left out.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from results_page import machine, main

from astra_tacos.bounds.certificate import certify
from astra_tacos.collective import make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.devices import ForwardingDevice, read_link_table
from astra_tacos.network.fabric.kinds import make_fabric
from astra_tacos.network.network_config import LinkSpec, NetworkConfig
from astra_tacos.network.topology import Topology
from astra_tacos.solver.solve import synthesize

FABRICS = (
    ("leaf-spine", {}),
    ("leaf-spine", {"oversubscription": 2.0}),
    ("fat-tree", {}),
    ("rails", {}),
    ("dragonfly", {}),
    ("hxmesh", {}),
    ("dgx-a100", {}),
    ("dgx-h100", {}),
)
SIZES = {"all-gather": 1 << 28, "all-reduce": 1 << 32, "all-to-all": 1 << 32}
SENDS = 400_000
FORESTCOLL = (("a100x2", 16, 346.67), ("mi250x1", 16, 342.86), ("mi250x2", 32, 354.13))
FORESTCOLL_SIZES = {"all-gather": 1 << 30, "reduce-scatter": 1 << 35, "all-reduce": 1 << 35}
FORESTCOLL_SENDS = 4_000_000


def measure(name: str, topology: Topology, sizes: dict[str, int], max_sends: int, published: dict[str, float]) -> list[str]:
    lines = []
    for collective, size in sizes.items():
        began = time.process_time()
        what = make_collective(collective, topology.num_npus, size, 1, members=topology.endpoints)
        found = certify(synthesize(topology, what, chunks_per_npu="auto", max_sends=max_sends, effort="thorough"))
        took = time.process_time() - began
        print(name, collective, round(found["efficiency"] or 0, 4), file=sys.stderr, flush=True)
        cells = [name, topology.num_endpoints, collective, found["chunks_per_npu"]]
        cells += [f"{found['time_ns'] / 1e6:.3f}", f"{found['bound_ns'] / 1e6:.3f}", found["bound"]]
        cells += [f"{found['efficiency']:.4f}", f"{found['algorithm_bandwidth_gbps']:.2f}", published.get(collective, "-")]
        lines.append(f"| {' | '.join(map(str, cells))} | {took:.1f} |")
    return lines


def tables() -> str:
    lines = [f"Measured on {machine()}.", ""]
    columns = ("fabric", "NPUs", "collective", "chunks per NPU", "ms", "bound, ms", "bound", "share", "GB/s")
    lines.append(f"| {' | '.join(columns)} | published optimum, GB/s | CPU s |")
    lines.append("|---|---|---|---|---|---|---|---|---|---|---|")
    measure("warm-up", build_topology(make_fabric("leaf-spine"), may_forward=True), dict.fromkeys(SIZES, 1 << 20), 1000, {})
    for kind, values in FABRICS:
        more = "".join(f", {key} {value:g}" for key, value in values.items())
        lines += measure(f"{kind}{more}", build_topology(make_fabric(kind, **values), may_forward=True), SIZES, SENDS, {})
    directory = Path(os.environ.get("ASTRA_TACOS_PEERS", "peers")) / "forestcoll"
    for file, npus, gbps in FORESTCOLL:
        path = directory / f"{file}.csv"
        if not path.exists():
            print(f"left out: {path} is missing (ASTRA_TACOS_PEERS)", file=sys.stderr)
            continue
        rows = [row for _, row in read_link_table(path)]
        links = tuple(LinkSpec(int(src), int(dst), float(speed), float(ns)) for src, dst, speed, ns in rows)
        count = 1 + max(max(link.src, link.dst) for link in links)
        network = NetworkConfig(file, links=links, forwarding=(ForwardingDevice(),) * (count - npus))
        published = {"all-gather": gbps, "reduce-scatter": gbps}
        topology = build_topology(network, may_forward=True)
        lines += measure(f"ForestColl {file}", topology, FORESTCOLL_SIZES, FORESTCOLL_SENDS, published)
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__ or "", "fabrics", tables)
