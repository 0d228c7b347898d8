"""The number of chunks for broadcasts along arborescences, and networks that are too large for packing them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective import COLLECTIVES
from astra_tacos.collective.collective import MAX_CHUNKS, Collective
from astra_tacos.network.topology import NO_LINK, Topology
from astra_tacos.schedule.timing import LinkModel, compute_timing
from astra_tacos.support.errors import ConfigError, SynthesisError
from astra_tacos.synthesizer.branchings.branchings import choose_branchings
from astra_tacos.synthesizer.packing.chunk_count import wanted_chunk_ns
from astra_tacos.synthesizer.packing.mirror import mirror

_OF_LATENCY = 0.25
"""A chunk that holds links for this share of the latency is short."""
_FEW_TREES = 16
_MOST_LOOKS = 1 << 24
_MOST_SENDS = 1 << 24


def refuse_too_many_flows(topology: Topology, collective: Collective) -> str | None:
    """The reason why a network or a collective is too large; None if it is not."""
    if collective.least_sends > _MOST_SENDS:
        return f"schedules at most {_MOST_SENDS:,} sends, these are {collective.least_sends:,}"
    looks = topology.num_npus * topology.num_channels
    return None if looks <= _MOST_LOOKS else f"packs at most {_MOST_LOOKS:,} NPUs times channels, these are {looks:,}"


def advise_chunks(topology: Topology, name: str, size_bytes: int, link_model: LinkModel, max_sends: int) -> int:
    """Chunks with which `branchings` should come close to its best: a multiple of the number of trees.

    Parameters
    ----------
    topology
        The network.
    name, size_bytes
        Of the collective, as `COLLECTIVES` takes them.
    link_model
        How long a chunk holds a link.
    max_sends
        Of the schedule.

    Raises
    ------
    ConfigError, SynthesisError
        If not even one chunk can be.
    """
    whole = COLLECTIVES[name](topology.num_npus, size_bytes, 1)
    timing = compute_timing(topology, whole, "pipelined")
    if not whole.gathers:
        image = mirror(topology, timing)
        topology, timing = image.topology, image.timing
    assert whole.root is not None
    found = choose_branchings(topology, timing, whole.root, _FEW_TREES)
    trees, used = len(found.channel), np.unique(found.channel[found.channel >= 0])
    busy_ns = found.period_ns / trees
    down = topology.channel_down_link[used]
    links = np.unique(np.concatenate((topology.channel_link[used], down[down != NO_LINK])))
    slowest_ns = float(timing.link_hold_ns[links, 0].max())
    latency = topology.link_latency_ns
    latency_ns = latency[topology.channel_link[used]] + np.where(down == NO_LINK, 0.0, latency[down])
    alpha_ns, hops = float(latency_ns.max()), _hops(topology, found.channel)
    wanted_ns = wanted_chunk_ns(link_model, busy_ns, alpha_ns, hops, _OF_LATENCY * alpha_ns)
    most = min(slowest_ns / max(wanted_ns, 1.0), max_sends / whole.least_sends, MAX_CHUNKS)
    periods = max(int(most / trees), 1)
    while True:
        try:
            compute_timing(topology, COLLECTIVES[name](topology.num_npus, size_bytes, periods * trees), link_model)
        except (ConfigError, SynthesisError):
            if periods == 1:
                return 1
            periods //= 2
            continue
        return periods * trees


def _hops(topology: Topology, trees: NDArray[np.int32]) -> int:
    """The most channels from the root to an NPU."""
    away = np.zeros(trees.shape, np.int64)
    src = np.where(trees >= 0, topology.channel_src[trees], -1)
    row = np.arange(len(trees))[:, None]
    while True:
        further = np.where(src >= 0, away[row, src] + 1, 0)
        if np.array_equal(further, away):
            return int(away.max())
        away = further
