"""The `Schedule` class: which chunk crosses which channel and when, in columns, one row per send."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.errors import ConfigError
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Sends of a collective on a topology. Row order is the order in which every link takes its sends.

    Parameters
    ----------
    topology, collective, timing
        What the sends refer to.
    chunk
        int32[num_sends].
    channel
        int32[num_sends].
    reduces
        bool[num_sends], whether the destination adds the chunk to its own (else it stores a copy).
    start_ns, end_ns
        int64[num_sends], when the source's link takes the chunk and when it has arrived. A reducing send is of use
        `timing.reduction_ns` later; reductions of one NPU run in parallel, as ASTRA-sim runs a collective's COMP nodes.
    synthesizer, seed
        Where it came from.
    """

    topology: Topology
    collective: Collective
    timing: Timing
    chunk: NDArray[np.int32]
    channel: NDArray[np.int32]
    reduces: NDArray[np.bool_]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    synthesizer: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("chunk", "channel", "reduces", "start_ns", "end_ns"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def num_sends(self) -> int:
        """Number of sends."""
        return len(self.chunk)

    @property
    def src(self) -> NDArray[np.int32]:
        """int32[num_sends], sending NPU."""
        return self.topology.channel_src[self.channel]

    @property
    def dst(self) -> NDArray[np.int32]:
        """int32[num_sends], receiving NPU."""
        return self.topology.channel_dst[self.channel]

    @property
    def size_bytes(self) -> NDArray[np.int64]:
        """int64[num_sends]."""
        return self.collective.chunk_size_bytes[self.chunk]

    @property
    def done_ns(self) -> NDArray[np.int64]:
        """int64[num_sends], when the chunk can be used at its destination: on arrival, or once it is reduced."""
        return self.end_ns + np.where(self.reduces, self.timing.reduction_ns[self.collective.chunk_class[self.chunk]], 0)

    @property
    def collective_time_ns(self) -> int:
        """The time at which the last chunk is usable at its destination."""
        return int(self.done_ns.max(initial=0))

    @property
    def npu_finish_ns(self) -> NDArray[np.int64]:
        """int64[num_npus], when an NPU's last send has arrived and its last chunk is usable (ASTRA-sim's finish time)."""
        finish = np.zeros(self.topology.num_npus, np.int64)
        np.maximum.at(finish, self.src, self.end_ns)
        np.maximum.at(finish, self.dst, self.done_ns)
        return finish

    @property
    def link_busy_ns(self) -> NDArray[np.int64]:
        """int64[num_links], how long each link is held in all."""
        topology, timing = self.topology, self.timing
        size_class = self.collective.chunk_class[self.chunk]
        busy = np.zeros(topology.num_links, np.int64)
        for links in (topology.channel_link[self.channel], topology.channel_down_link[self.channel]):
            used = np.flatnonzero(links >= 0)
            held = (
                timing.channel_delay_ns[self.channel[used], size_class[used]]
                if timing.is_blocking
                else timing.link_hold_ns[links[used], size_class[used]]
            )
            np.add.at(busy, links[used], held)
        return busy


def check_rows(schedule: Schedule) -> None:
    """Check that every send names a chunk and a channel that exist.

    Raises
    ------
    ConfigError
        If one does not; `verify` lists them all.
    """
    columns = (
        ("chunk", schedule.chunk, schedule.collective.num_chunks),
        ("channel", schedule.channel, schedule.topology.num_channels),
    )
    for name, column, count in columns:
        outside = np.flatnonzero((column < 0) | (column >= count))
        if len(outside):
            row = int(outside[0])
            raise ConfigError(f"send {row}: {name} {column[row]}, expected 0 to {count - 1} ('astra-tacos verify' lists all)")
