"""A problem: a collective on a network, cut into chunks. Synthesizers, bounds and schedules start from it."""

from __future__ import annotations

from typing import NamedTuple

from astra_tacos.collective.collective import Collective
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.timing import LinkModel, Timing, compute_timing


class Problem(NamedTuple):
    """What a synthesizer is given, and a bound speaks of.

    Attributes
    ----------
    topology
        The network.
    collective
        The collective on it, cut into chunks.
    timing
        How long each size of chunk takes each link (ns).

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, Problem, all_gather, build_topology
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> problem = Problem.of(topology, all_gather(4, 1 << 20, 2))
    >>> problem.collective.num_chunks
    8
    """

    topology: Topology
    collective: Collective
    timing: Timing

    def on(self, topology: Topology, collective: Collective) -> Problem:
        """The problem of another collective, or on another network, under the same timing model."""
        return Problem(topology, collective, self.timing.of(topology, collective))

    @classmethod
    def of(
        cls,
        topology: Topology,
        collective: Collective,
        link_model: LinkModel = "pipelined",
        reduce_bandwidth_gbps: float = 0.0,
    ) -> Problem:
        """A problem whose links take chunks as a link model says.

        Parameters
        ----------
        link_model
            How long a send holds its link: `blocking` or `pipelined`.
        reduce_bandwidth_gbps
            Speed of a reduction in GB/s; 0 is 1 ns.

        Raises
        ------
        SynthesisError
            If chunks are too small or too large for the links.
        """
        return cls(topology, collective, compute_timing(topology, collective, link_model, reduce_bandwidth_gbps))
