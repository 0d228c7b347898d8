"""Lanes: a network of direct links of equal latency as how many chunks each link passes in a round; and what chunks demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.network.topology import Topology
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import SynthesisError
from astra_tacos.support.graph import Graph

if TYPE_CHECKING:
    pass

_NEARLY_WHOLE = 1e-6
MOST_NPUS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Links in units of the slowest one.

    Parameters
    ----------
    src, dst
        int64[num_channels], the ends of each channel of the topology.
    lanes
        int64[num_channels], chunks that it passes in a round.
    """

    num_npus: int
    src: Ints
    dst: Ints
    lanes: Ints
    latency_ns: float
    lane_gibps: float

    def reversed(self) -> Lanes:
        """The same links the other way round."""
        return replace(self, src=self.dst, dst=self.src)

    def distances(self) -> Ints:
        """int64[num_npus, num_npus], links on the shortest way; `num_npus` where there is none."""
        far = Graph.of(self.num_npus, self.src, self.dst).distances()
        return np.minimum(far, self.num_npus).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Demand:
    """A chunk: the NPU that has the chunk, and the NPUs that need the chunk."""

    source: int
    targets: frozenset[int]


def lanes_of(topology: Topology) -> Lanes:
    """The lanes of a topology.

    Raises
    ------
    SynthesisError
        If it has too many NPUs, switches, links of unequal latency, or bandwidths that are no multiples of the smallest one.
    """
    refusal = _refusal(topology)
    if refusal is not None:
        raise SynthesisError(f"{topology.name}: {refusal}")
    latency, bandwidth = topology.link_latency_ns, topology.link_bandwidth_gibps
    num_lanes = np.rint(bandwidth / bandwidth.min())
    return Lanes(
        topology.num_npus,
        topology.channel_src.astype(np.int64),
        topology.channel_dst.astype(np.int64),
        num_lanes.astype(np.int64)[topology.channel_link],
        float(latency[0]),
        float(bandwidth.min()),
    )


def _refusal(topology: Topology) -> str | None:
    """The reason why a topology has no lanes, in words; None if it has."""
    if topology.num_npus > MOST_NPUS:
        return f"has {topology.num_npus} NPUs, expected at most {MOST_NPUS}"
    if topology.has_switches or topology.forwarding:
        return "has switches, expected direct links"
    latency, bandwidth = topology.link_latency_ns, topology.link_bandwidth_gibps
    if np.ptp(latency):
        return f"has latencies of {latency.min():g} to {latency.max():g} ns, expected equal latencies: a step takes one latency"
    lanes = bandwidth / bandwidth.min()
    far = np.abs(lanes - np.rint(lanes))
    if np.any(far > _NEARLY_WHOLE * lanes):
        worst = float(bandwidth[np.argmax(far)])
        return f"has links of {worst:g} and {bandwidth.min():g} GiB/s, expected multiples of the smallest one"
    return None


def demands_of(name: str, num_npus: int, chunks: int, root: int | None = None) -> list[Demand]:
    """The chunks of a collective that spreads data, `chunks` of every NPU, or of the root, in the order of `Collective`.

    Of an All-to-All, an NPU has `chunks / num_npus` for each NPU, itself included.
    """
    everyone = frozenset(range(num_npus))
    if name == "broadcast":
        assert root is not None
        return [Demand(root, everyone - {root})] * chunks
    pairs = [(u, v) for u in range(num_npus) for v in range(num_npus) if u != v]
    if name == "all-to-all":
        return [Demand(u, frozenset({v})) for u, v in pairs for _ in range(chunks // num_npus)]
    if name == "gather":
        assert root is not None
        return [Demand(u, frozenset({root})) for u in range(num_npus) if u != root for _ in range(chunks)]
    if name == "scatter":
        assert root is not None
        return [Demand(root, frozenset({v})) for v in range(num_npus) if v != root for _ in range(chunks)]
    return [Demand(u, everyone - {u}) for u in range(num_npus) for _ in range(chunks)]
