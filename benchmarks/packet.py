"""Collectives on the packet level: predicted, replayed packet by packet, and ASTRA-sim's best native algorithm there."""

from __future__ import annotations

import itertools
import math
import sys
import time

from results_page import machine, main

from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import order_of_traces
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.run.backend import PACKET
from astra_tacos.solver.clock import time_on, timed_for
from astra_tacos.solver.native import best_native_time
from astra_tacos.support.units import format_size
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

LATENCY_NS = 500.0
NETWORKS = {
    "Ring 8": (("Ring", 8, 50.0),),
    "Mesh 8": (("Mesh", 8, 50.0),),
    "FullyConnected 8": (("FullyConnected", 8, 50.0),),
    "Switch 8": (("Switch", 8, 50.0),),
    "Ring 16": (("Ring", 16, 50.0),),
    "Torus 4x4": (("Ring", 4, 50.0), ("Ring", 4, 50.0)),
    "Mesh 4x4": (("Mesh", 4, 50.0), ("Mesh", 4, 50.0)),
    "Torus 3x3x3": (("Ring", 3, 50.0), ("Ring", 3, 50.0), ("Ring", 3, 50.0)),
    "Ring 4 x FullyConnected 4": (("Ring", 4, 50.0), ("FullyConnected", 4, 25.0)),
    "Switch 8 x Switch 2": (("Switch", 8, 100.0), ("Switch", 2, 25.0)),
    "FullyConnected 4 x Switch 4": (("FullyConnected", 4, 50.0), ("Switch", 4, 25.0)),
    "Ring 2 x FullyConnected 4 x Switch 2": (("Ring", 2, 100.0), ("FullyConnected", 4, 50.0), ("Switch", 2, 25.0)),
}
"""Blocks, sizes and GB/s of each dimension."""
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all")
SIZES = (64 << 10, 1 << 20, 16 << 20)
"""Of the whole buffer: an All-Gather's shards together."""
OPTIONS = SearchOptions(chunks_per_npu="auto")


def tables() -> str:
    """A row for each network, collective and size, and what they say together."""
    lines = [
        "| network | collective | size | made by | order | predicted us | packets us | ratio | best native us | gain | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    gains: list[float] = []
    ratios: list[float] = []
    for name, collective, size in itertools.product(NETWORKS, COLLECTIVES, SIZES):
        ratio, gain, line = row(name, collective, size)
        ratios.append(ratio)
        print(line, file=sys.stderr, flush=True)
        gains += [gain] if gain is not None else []
        lines.append(line)
    mean = math.exp(sum(map(math.log, gains)) / len(gains))
    slower = sum(gain < 1 for gain in gains)
    most = max(gains)
    about = f"{len(lines) - 2} cases, {len(gains)} with a native algorithm: gain {min(gains):.3f} to {most:.2f}, "
    about += f"geometric mean {mean:.2f}; slower: {slower}. "
    about += (
        f"Ratio: at most {sorted(ratios)[len(ratios) * 9 // 10 - 1]:.2f} in nine of ten cases, {max(ratios):.2f} in the worst."
    )
    return "\n".join((f"Measured on {machine()}.", "", about, "", *lines))


def row(name: str, collective: str, size: int) -> tuple[float, float | None, str]:
    """The replayed time by the predicted one, the gain over the best native algorithm if any, and the line of the table."""
    dimensions = tuple(Dimension(block, count, bandwidth, LATENCY_NS) for block, count, bandwidth in NETWORKS[name])
    network = NetworkConfig(f"{name}.yml", dimensions)
    topology = build_topology(network)
    of_node = max(size // topology.num_npus, 1) if collective == "all-gather" else size
    what = make_collective(collective, topology.num_npus, of_node, 1)
    begin = time.perf_counter()
    options = timed_for(OPTIONS, topology, PACKET)[0]
    found = search(topology, what, options)
    seconds = time.perf_counter() - begin
    timed = time_on(found.schedule, network, PACKET)
    assert timed.level is not None
    native = best_native_time(network, what, PACKET).best
    gain = None if native is None else native.time_ns / timed.time_ns
    made = f"{found.schedule.synthesizer}, {found.schedule.collective.chunks_per_npu} chunks"
    best = "-" if native is None else f"{microseconds(native.time_ns)} ({native.name})"
    cells = (
        name,
        collective,
        format_size(size),
        made,
        order_of_traces(found.schedule)[0],
        microseconds(timed.level.predicted_ns),
        microseconds(timed.time_ns),
        f"{timed.level.ratio:.3f}",
        best,
    )
    return timed.level.ratio, gain, f"| {' | '.join(cells)} | {'-' if gain is None else f'{gain:.3f}'} | {seconds:.1f} |"


def microseconds(time_ns: float) -> str:
    """A time for the table."""
    return f"{time_ns / 1000:,.2f}"


if __name__ == "__main__":
    main(__doc__ or "", "packet", tables)
