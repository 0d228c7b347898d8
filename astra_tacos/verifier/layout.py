"""The `Layout` class: the locations of the buffers of ranks, as MSCCL XMLs and MSCCL++ plans have them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_tacos.support.arrays import Ints
from astra_tacos.verifier.program_form import Region

BUFFERS = ("i", "o", "s")
"""Input, output and scratch."""
PART_INPUT = ("all-gather", "gather")
PART_OUTPUT = ("reduce-scatter", "scatter")
"""Collectives in which a rank's input, or output, is a part of the whole buffer."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The memory of a file's ranks for one placement of its buffers, in locations.

    Parameters
    ----------
    whole, part
        Number of locations of the whole buffer, and of one rank's part (0 if the collective does not divide the buffer).
    size
        int64[3], number of locations of the input, output and scratch buffer.
    begin
        int64[num_npus, 3], location at which each buffer begins in its rank's memory.
    scratch_at, own_at
        Location in a rank's memory at which the scratch buffer begins, and at which the places begin that `rrs` steps have for
        themselves.
    in_place
        Whether input and output are one buffer, or the smaller one is a part of the larger one.
    copies
        Rank, and offsets of a location of its input and of its output, to which a chunk is copied before the program runs.
    """

    grain: int
    whole: int
    part: int
    size: Ints
    begin: Ints
    scratch_at: int
    own_at: int
    stride: int
    in_place: bool
    copies: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(
        cls,
        collective: str | None,
        num_npus: int,
        grain: int,
        whole_and_part: tuple[int, int],
        size: Ints,
        own: int,
        *,
        in_place: bool,
        copies: tuple[tuple[int, int, int], ...] = (),
    ) -> Layout:
        """Buffers one after the other, or in one another, and then `own` locations that steps have for themselves."""
        whole, part = whole_and_part
        scratch_at = whole if in_place else int(size[0] + size[1])
        begin = np.zeros((num_npus, len(BUFFERS)), np.int64)
        begin[:, 2] = scratch_at
        if in_place:
            # The smaller buffer is the part of the larger one that belongs to the rank.
            for buffer, collectives in enumerate((PART_INPUT, PART_OUTPUT)):
                if collective in collectives:
                    begin[:, buffer] = np.arange(num_npus) * part
        else:
            begin[:, 1] = size[0]
        own_at = scratch_at + int(size[2])
        return cls(grain, whole, part, size, begin, scratch_at, own_at, own_at + own, in_place, copies)

    @property
    def num_npus(self) -> int:
        """Number of ranks."""
        return len(self.begin)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions of a rank's memory."""
        shared = (Region("chunk", 0, self.grain, is_whole=True),)
        apart = (Region("input chunk", 0, self.grain), Region("output chunk", int(self.size[0]), self.grain))
        after = (Region("scratch chunk", self.scratch_at, self.grain), Region("place", self.own_at, self.grain))
        return (shared if self.in_place else apart) + after

    def place(self, npu: int, buffer: str) -> int:
        """First location of a rank's buffer (`i`, `o` or `s`)."""
        return npu * self.stride + int(self.begin[npu, BUFFERS.index(buffer)])
