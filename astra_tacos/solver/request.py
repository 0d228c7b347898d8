"""What is asked of `solve`: a collective on a network, for a backend, with the effort of a search."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective import make_collective
from astra_tacos.collective.collective import Collective
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.network.sketch import Sketch
from astra_tacos.network.topology import Topology
from astra_tacos.run.backend import Backend, is_packet_level
from astra_tacos.schedule.schedule import LinkOrder
from astra_tacos.support.errors import ConfigError
from astra_tacos.synthesizer.search.search_options import SearchOptions


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A collective on a network, and how to look for its schedule.

    Parameters
    ----------
    network
        The network, as `read_network` reads it.
    collective
        Name of the collective: a key of `COLLECTIVES`, or `all-to-allv`.
    size_bytes
        The `comm_size` of a workload node in bytes (All-Gather, Gather: the shard of one NPU; else the whole buffer). 0 for an
        all-to-allv.
    root
        Root of a rooted collective; None for NPU 0.
    part_bytes
        int64[num_npus, num_npus], the parts of an all-to-allv in bytes, a row for each source; None for other collectives.
    helpers
        NPUs without data of their own, which may add and pass on what others send.
    options
        What the search tries, and how much.
    backend
        Backend of ASTRA-sim to make the schedule for; None for the one on which stock ASTRA-sim comes closest to the prediction.
    link_order, in_flight
        How traces keep the order of sends on a link, and how many messages may be in flight there (`export_chakra`); None for
        what suits the schedule.
    sketch
        The links that may be used, and perhaps a number of chunks, which takes the place of `auto`; None for all links.
    checks
        Whether the schedule is verified and replayed before it is returned.

    Raises
    ------
    ConfigError
        If some of them exclude one another.
    """

    network: NetworkConfig
    collective: str
    size_bytes: int = 0
    root: int | None = None
    part_bytes: NDArray[np.int64] | None = None
    helpers: tuple[int, ...] = ()
    options: SearchOptions = field(default_factory=lambda: SearchOptions(chunks_per_npu="auto"))
    backend: Backend | None = None
    link_order: LinkOrder | None = None
    in_flight: int | None = None
    sketch: Sketch | None = None
    checks: bool = True

    def __post_init__(self) -> None:
        if self.sketch is not None and self.replays_packets:
            raise ConfigError(f"sketch: schedules under a sketch are not compared on the {self.backend} backend")
        if self.helpers and self.part_bytes is not None:
            raise ConfigError("helpers: all NPUs of an all-to-allv take part, expected none")
        if self.sketch is not None and self.sketch.chunks is not None and self.options.chooses_chunks:
            object.__setattr__(self, "options", replace(self.options, chunks_per_npu=self.sketch.chunks))

    @property
    def replays_packets(self) -> bool:
        """Whether schedules are made for the packet level."""
        return is_packet_level(self.backend)

    @property
    def is_plain(self) -> bool:
        """Whether all NPUs have parts of one size, and all links may be used."""
        return self.sketch is None and not self.helpers and self.part_bytes is None

    @property
    def leaves_traces_open(self) -> bool:
        """Whether the backend and the order of sends in traces are to be chosen."""
        return self.is_plain and self.backend is None and self.link_order is None and self.in_flight is None

    def collective_on(self, topology: Topology) -> Collective:
        """The collective on the built network, in one chunk per NPU where the search is to choose."""
        chunks = self.options.first_chunks
        members = self._members(topology)
        return make_collective(
            self.collective, topology.num_npus, self.size_bytes, chunks, self.root, members, part_bytes=self.part_bytes
        )

    def _members(self, topology: Topology) -> list[int] | None:
        """The NPUs that take part, None for all of a network without devices that forward."""
        if not self.helpers:
            return topology.endpoints
        members = [npu for npu in range(topology.num_endpoints) if npu not in self.helpers]
        if max(self.helpers) >= topology.num_endpoints or len(members) < 2:
            found = f"{len(self.helpers)} of {topology.num_endpoints} NPUs" if len(members) < 2 else f"NPU {max(self.helpers)}"
            raise ConfigError(f"helpers: found {found}, expected NPUs of the network, and two or more others")
        return members
