"""Into how many chunks a collective may be cut."""

from __future__ import annotations

from astra_tacos.collective import cut_into
from astra_tacos.collective.collective import Collective
from astra_tacos.errors import ConfigError
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.topology.topology import Topology
from astra_tacos.units import bytes_per_ns

MAX_SENDS = 2_000_000
MAX_CHUNKS_PER_NPU = 512


def fewest_sends(collective: Collective) -> int:
    """Sends of a schedule in which none is wasted: one per chunk, NPU that lacks it and phase."""
    return collective.num_phases * (collective.num_npus - 1) * collective.num_chunks


def choose_chunks(
    topology: Topology, collective: Collective, link_model: LinkModel, max_sends: int = MAX_SENDS
) -> tuple[int, ...]:
    """Numbers of chunks per NPU worth trying, ascending: 1, and powers of two.

    Past 1 there are at most `max_sends` sends, and every chunk takes the fastest link at least 1 ns, ASTRA-sim's tick.
    """
    counts = [1]
    fastest = float(bytes_per_ns(topology.link_bandwidth_gibps).max())
    most = MAX_CHUNKS_PER_NPU * (1 if collective.root is None else collective.num_npus)
    while 2 * counts[-1] <= most:
        try:
            cut = cut_into(collective, 2 * counts[-1])
        except ConfigError:  # fewer bytes than chunks
            break
        if fewest_sends(cut) > max_sends or int(int(cut.class_size_bytes[0]) / fastest) < 1:
            break
        counts.append(cut.chunks_per_npu)
    return tuple(counts)
