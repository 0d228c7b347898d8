"""Messages in flight and numbers of chunks on the packet level: All-Reduces replayed packet by packet in every order of sends."""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from packet import LATENCY_NS, NETWORKS, SIZES
from results_page import machine, main

from astra_tacos.collective import make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.schedule.schedule import LinkOrder
from astra_tacos.solver.packets import MOST_PACKETS, packet_level
from astra_tacos.support.units import format_size
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

CHUNKS = (1, 2, 4, 8, 16)
ORDERS: dict[str, tuple[LinkOrder, int | None]] = {
    "W = 1": ("window", 1),
    "W = 2": ("window", 2),
    "W = 4": ("window", 4),
    "W = 8": ("window", 8),
    "window": ("window", None),
    "tokens": ("tokens", None),
    "none": ("none", None),
}
"""Link orders, and how many messages of a link may be in flight; None: as the schedule has."""
OPTIONS = SearchOptions(link_model="pipelined", budget=200_000, trials=1)


def tables() -> str:
    """A row for each network and size, and what they say together."""
    lines = [f"| network | size | {' | '.join(ORDERS)} | best |", "|---" * (len(ORDERS) + 3) + "|"]
    best_orders: Counter[str] = Counter()
    losses: dict[str, list[float]] = {order: [] for order in ORDERS}
    either: list[float] = []
    with ProcessPoolExecutor() as pool:
        cases = list(itertools.product(NETWORKS, SIZES))
        for (name, size), times in zip(cases, pool.map(times_of, *zip(*cases, strict=True)), strict=True):
            of_order = {order: min((times[order, chunks], chunks) for chunks in CHUNKS) for order in ORDERS}
            best = min(of_order.values())
            best_orders.update(order for order, found in of_order.items() if found[0] == best[0])
            for order, found in of_order.items():
                losses[order].append(found[0] / best[0])
            either.append(min(losses["window"][-1], losses["tokens"][-1]))
            cells = [f"{time_ns / 1000:,.2f} ({chunks})" for time_ns, chunks in of_order.values()]
            named = ", ".join(order for order, found in of_order.items() if found[0] == best[0])
            lines.append(f"| {name} | {format_size(size)} | {' | '.join(cells)} | {named} |")
            print(lines[-1], file=sys.stderr, flush=True)
    about = [
        f"{order}: best in {best_orders[order]}, {mean(some):.3f} times the best in the geometric mean, at most {max(some):.2f}"
        for order, some in losses.items()
    ]
    about.append(f"the faster of window and tokens: {mean(either):.3f} times the best, at most {max(either):.2f}")
    return "\n".join((f"Measured on {machine()}.", "", f"{len(lines) - 2} cases. {'; '.join(about)}.", "", *lines))


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def times_of(name: str, size: int) -> dict[tuple[str, int], int]:
    """What an All-Reduce takes on the packet level in ns, by order of sends and number of chunks."""
    dimensions = tuple(Dimension(block, count, bandwidth, LATENCY_NS) for block, count, bandwidth in NETWORKS[name])
    network = NetworkConfig(f"{name}.yml", dimensions)
    topology = build_topology(network)
    times = {}
    for chunks in CHUNKS:
        what = make_collective("all-reduce", topology.num_npus, size, chunks)
        made = search(topology, what, replace(OPTIONS, chunks_per_npu=chunks)).schedule
        for order, (link_order, in_flight) in ORDERS.items():
            ordered = replace(made, link_order=link_order, in_flight=in_flight)
            times[order, chunks] = packet_level(ordered, network, most_packets=MOST_PACKETS).time_ns
    return times


if __name__ == "__main__":
    main(__doc__ or "", "windows", tables)
