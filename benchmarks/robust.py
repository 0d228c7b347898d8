"""Default schedules on the packet level: what the first order of sends takes, what is chosen instead, and what that costs."""

from __future__ import annotations

import itertools
import sys

from packet import COLLECTIVES, LATENCY_NS, NETWORKS, SIZES
from results_page import machine, main

from astra_tacos.collective import make_collective
from astra_tacos.export.chakra import order_of_traces
from astra_tacos.network.composition import build_topology
from astra_tacos.network.network_config import Dimension, NetworkConfig
from astra_tacos.solver.judgement import judge_schedule
from astra_tacos.solver.judges import backend_in_use, packet_level, timed_for
from astra_tacos.solver.robust import MOST_LONGER, MOST_LOSS, robust, search_and_replay
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.support.units import format_size
from astra_tacos.synthesizer.search.search_options import SearchOptions

OPTIONS = SearchOptions(chunks_per_npu="auto", effort="thorough", budget=500_000, trials=1)


def tables() -> str:
    """A row for each network, collective and size."""
    lines = [
        "| network | collective | size | first | of its prediction | chosen | order | of its prediction | loss |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    firsts, ratios, losses = [], [], []
    for name, collective, size in itertools.product(NETWORKS, COLLECTIVES, SIZES):
        first, ratio, loss, line = row(name, collective, size)
        print(line, file=sys.stderr, flush=True)
        lines.append(line)
        firsts.append(first)
        ratios.append(ratio)
        losses.append(loss)
    longer = [sum(each > MOST_LONGER for each in some) for some in (firsts, ratios)]
    about = f"{len(ratios)} cases. First: {longer[0]} take more than {MOST_LONGER} of their packet prediction, at most "
    about += (
        f"{max(firsts):.2f}. Chosen: {longer[1]}, at most {max(ratios):.2f}; {sum(each > 1 for each in losses)} are slower on "
    )
    about += f"analytical models, by {max(losses) - 1:.1%} at most (limit {MOST_LOSS - 1:.0%})."
    return "\n".join((f"Measured on {machine()}.", "", about, "", *lines))


def row(name: str, collective: str, size: int) -> tuple[float, float, float, str]:
    """Packet level of the first and of the chosen one, each by its prediction; the chosen one's loss; the line of the table."""
    dimensions = tuple(Dimension(block, count, bandwidth, LATENCY_NS) for block, count, bandwidth in NETWORKS[name])
    network = NetworkConfig(f"{name}.yml", dimensions)
    topology = build_topology(network)
    of_node = max(size // topology.num_npus, 1) if collective == "all-gather" else size
    what = make_collective(collective, topology.num_npus, of_node, 1)
    options, models, _ = timed_for(OPTIONS, topology, None)
    backend = backend_in_use(network, models, None)
    found, _ = search_and_replay(backend, network, topology, what, options)
    chosen = robust(network, topology, what, options, backend, found)
    first = packet_level(found.schedule, network)
    if chosen.level is None:
        raise AstraTacosError(f"{name}: not replayed")
    before = judge_schedule(found.schedule, network, backend).times_ns
    after = judge_schedule(chosen.found.schedule, network, backend, chosen.link_order).times_ns
    loss = max((after[figure] or 0) / max(time_ns, 1) for figure, time_ns in before.items() if time_ns is not None)
    made = [f"{each.synthesizer} x{each.collective.chunks_per_npu}" for each in (found.schedule, chosen.found.schedule)]
    order = order_of_traces(chosen.found.schedule, chosen.link_order)[0]
    ratios = [f"{level.ratio:.3f}" for level in (first, chosen.level)]
    cells = (name, collective, format_size(size), made[0], ratios[0], made[1], order, ratios[1], f"{loss:.3f}")
    return first.ratio, chosen.level.ratio, loss, f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(__doc__ or "", "robust", tables)
