"""Default schedules on the packet level: what their traces take there by their prediction, in two orders of sends.

Schedules are made for the clock with queues. Each is replayed packet by packet in the default order of its link model, and in the
one that a rule chooses (`order_for_packets`), which `synthesize` writes.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace

from packet import COLLECTIVES, LATENCY_NS, NETWORKS, SIZES
from results_page import machine, main

from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import order_of_traces
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.run.backend import CONGESTION_AWARE
from astra_tacos.solver.clock import time_on, timed_for
from astra_tacos.solver.packet_search import order_for_packets
from astra_tacos.solver.packets import MOST_PACKETS, packet_level
from astra_tacos.support.units import format_size
from astra_tacos.synthesizer.search.search import search
from astra_tacos.synthesizer.search.search_options import SearchOptions

MOST_LONGER = 1.3
"""Traces keep their promise if the packet level takes at most so much of its prediction."""
OPTIONS = SearchOptions(chunks_per_npu="auto", effort="thorough", budget=500_000, trials=1)


def tables() -> str:
    """A row for each network, collective and size, and what they say together."""
    lines = [
        "| network | collective | size | made by | time us | default order | of prediction | order by rule | of prediction |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {"Default order": [], "By rule": []}
    for name, collective, size in itertools.product(NETWORKS, COLLECTIVES, SIZES):
        *found, line = row(name, collective, size)
        print(line, file=sys.stderr, flush=True)
        lines.append(line)
        for some, ratio in zip(ratios.values(), found, strict=True):
            some.append(ratio)
    about = [f"{len(lines) - 2} cases."]
    for order, some in ratios.items():
        longer, mean = sum(each > MOST_LONGER for each in some), math.exp(sum(map(math.log, some)) / len(some))
        about.append(
            f"{order}: {longer} take more than {MOST_LONGER} of their packet prediction, at most {max(some):.2f}, "
            f"geometric mean {mean:.3f}."
        )
    return "\n".join((f"Measured on {machine()}.", "", " ".join(about), "", *lines))


def row(name: str, collective: str, size: int) -> tuple[float, float, str]:
    """The packet level by its prediction, in the default order of sends and in that of the rule; the line of the table."""
    dimensions = tuple(Dimension(block, count, bandwidth, LATENCY_NS) for block, count, bandwidth in NETWORKS[name])
    network = NetworkConfig(f"{name}.yml", dimensions)
    topology = build_topology(network)
    of_node = max(size // topology.num_npus, 1) if collective == "all-gather" else size
    what = make_collective(collective, topology.num_npus, of_node, 1)
    schedule = search(topology, what, timed_for(OPTIONS, topology, CONGESTION_AWARE)[0]).schedule
    written = replace(schedule, link_order=order_for_packets(schedule))
    time_ns = time_on(written, network, CONGESTION_AWARE).time_ns
    first, by_rule = (packet_level(each, network, most_packets=MOST_PACKETS) for each in (schedule, written))
    made = f"{schedule.synthesizer} x{schedule.collective.chunks_per_npu}"
    orders = [order_of_traces(each)[0] for each in (schedule, written)]
    replayed = (orders[0], f"{first.ratio:.3f}", orders[1], f"{by_rule.ratio:.3f}")
    cells = (name, collective, format_size(size), made, f"{time_ns / 1000:,.2f}", *replayed)
    return first.ratio, by_rule.ratio, f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(__doc__ or "", "robust", tables)
