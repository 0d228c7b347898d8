"""LockstepSchedule: a compact schedule in which all links work in rounds, a few bytes per send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.timing import Timing
from astra_tacos.topology.topology import Topology

_WINDOW_SENDS = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class LockstepSchedule:
    """A schedule on uniform direct links: in each round every channel takes one chunk or none.

    Parameters
    ----------
    topology, collective, timing
        What the sends refer to.
    chunk
        uint8, uint16 or uint32 [num_rounds, num_channels], the chunk that each channel takes in each round, `idle` for none.
        May be a read-only map of a file.
    start_ns
        int64[num_rounds], ascending, when the sends of a round start.
    reducing_rounds
        Sends of the first so many rounds reduce, the others copy.
    num_sends
        Entries of `chunk` that are not idle.
    synthesizer, seed
        Where it came from.
    """

    topology: Topology
    collective: Collective
    timing: Timing
    chunk: NDArray[Any]
    start_ns: NDArray[np.int64]
    reducing_rounds: int
    num_sends: int
    synthesizer: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("chunk", "start_ns"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def num_messages(self) -> int:
        """Number of messages: one per send."""
        return self.num_sends

    @property
    def num_rounds(self) -> int:
        """Number of rounds."""
        return len(self.start_ns)

    @property
    def idle(self) -> int:
        """The value in `chunk` of a channel that takes none."""
        return int(np.iinfo(self.chunk.dtype).max)

    @property
    def collective_time_ns(self) -> int:
        """The time at which the last chunk is usable at its destination."""
        if not self.num_rounds:
            return 0
        last = self.chunk[-1]
        size_class = self.collective.chunk_class[last[last != self.idle]]
        done = self.timing.channel_delay_ns[last != self.idle, size_class]
        if self.reducing_rounds == self.num_rounds:
            done = done + self.timing.reduction_ns[size_class]
        return int(self.start_ns[-1] + done.max(initial=0))

    @property
    def link_busy_ns(self) -> NDArray[np.int64]:
        """int64[num_links], how long each link is held in all."""
        topology, timing = self.topology, self.timing
        classes = len(self.collective.class_size_bytes)
        sends = np.zeros((classes, topology.num_channels), np.int64)
        for first, last in self.windows():
            window = self.chunk[first:last]
            used = window != self.idle
            if classes == 1:
                sends[0] += np.count_nonzero(used, axis=0)
                continue
            size_class = self.collective.chunk_class[np.where(used, window, 0)]
            for which in range(classes):
                sends[which] += np.count_nonzero(used & (size_class == which), axis=0)
        link = topology.channel_link
        hold = timing.channel_delay_ns if timing.is_blocking else timing.link_hold_ns[link]
        busy = np.zeros(topology.num_links, np.int64)
        np.add.at(busy, link, (sends.T * hold).sum(axis=1))
        return busy

    def windows(self) -> Iterator[tuple[int, int]]:
        """First and last round (exclusive) of parts that are small enough to be processed at once."""
        rounds = max(1, _WINDOW_SENDS // max(1, self.topology.num_channels))
        for first in range(0, self.num_rounds, rounds):
            yield first, min(first + rounds, self.num_rounds)

    def to_schedule(self) -> Schedule:
        """The same sends as rows with times, 25 bytes each."""
        number, channel = np.nonzero(self.chunk != self.idle)
        chunk = self.chunk[number, channel].astype(np.int32)
        size_class = self.collective.chunk_class[chunk]
        start = self.start_ns[number]
        end = start + self.timing.channel_delay_ns[channel, size_class]
        columns = (chunk, channel.astype(np.int32), number < self.reducing_rounds, start, end)
        return Schedule(self.topology, self.collective, self.timing, *columns, self.synthesizer, self.seed)


def chunk_kind(collective: Collective) -> type[np.unsignedinteger[Any]]:
    """The smallest integer type that holds a collective's chunks and `idle`."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if collective.num_chunks <= np.iinfo(kind).max)


def why_not_lockstep(topology: Topology) -> str | None:
    """The reason why a network has no lockstep schedules; None if it has."""
    if topology.has_switches:
        return "the network has switches, expected direct links only"
    if not topology.is_uniform:
        return "links differ in bandwidth or latency, expected links that are all alike"
    return None
