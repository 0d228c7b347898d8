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


def chunk_counts(
    topology: Topology, collective: Collective, link_model: LinkModel, max_sends: int = MAX_SENDS
) -> tuple[int, ...]:
    """Numbers of chunks per NPU worth trying, ascending: powers of two and three times that.

    Threes are among them because links that are twice as fast as others divide data in three. Past 1 there are at most
    `max_sends` sends, and every chunk takes the fastest link at least 1 ns, ASTRA-sim's tick.
    """
    counts = [1]
    fastest = float(bytes_per_ns(topology.link_bandwidth_gibps).max())
    most = MAX_CHUNKS_PER_NPU * (1 if collective.root is None else collective.num_npus)
    for count in sorted(factor << power for factor in (1, 3) for power in range(most.bit_length()))[1:]:
        try:
            cut = cut_into(collective, count)
        except ConfigError:  # fewer bytes than chunks
            break
        if count > most or fewest_sends(cut) > max_sends or int(int(cut.class_size_bytes[0]) / fastest) < 1:
            break
        counts.append(count)
    return tuple(counts)


def is_between(count: int) -> bool:
    """Whether it is between two powers of two."""
    return count & (count - 1) != 0
