"""Lattices: translations of a product of dimensions, and traces of which one rank stands for all that translations move it to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from astra_tacos.run.trace.trace import ABSENT, Trace
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import distinct


@dataclass(frozen=True, slots=True)
class Lattice:
    """Translations of a network: each dimension is turned by any multiple of its period.

    Parameters
    ----------
    period
        A divisor of each size; the size itself where the dimension is not turned.
    """

    size: tuple[int, ...]
    period: tuple[int, ...]

    @property
    def num_ranks(self) -> int:
        """Number of ranks of the network."""
        return math.prod(self.size)

    @property
    def columns(self) -> tuple[Ints, Ints, Ints]:
        """Strides, sizes and periods, int64[num_dimensions] each."""
        stride = np.cumprod((1, *self.size))[:-1]
        return stride.astype(np.int64), np.array(self.size, np.int64), np.array(self.period, np.int64)

    @property
    def representatives(self) -> Ints:
        """The ranks that stand for all, ascending."""
        return np.unique(self.canonical(np.arange(self.num_ranks))[0])

    def digits(self, rank: Ints) -> Ints:
        """int64[num_dimensions, num_ranks], the coordinates of ranks."""
        stride, size, _ = self.columns
        digits: Ints = rank // stride[:, None] % size[:, None]
        return digits

    def canonical(self, rank: Ints, other: Ints | None = None) -> tuple[Ints, Ints]:
        """The representatives of ranks, and where other ranks (0 if there are none) go in the same translations."""
        others = np.zeros_like(rank) if other is None else other
        return self._turned(rank, rank, -1), self._turned(rank, others, -1)

    def moved(self, rank: Ints, other: Ints) -> Ints:
        """Where `other` goes in the translation that takes the representative of each rank to the rank."""
        return self._turned(rank, other, 1)

    def _turned(self, rank: Ints, other: Ints, way: int) -> Ints:
        """Where `other` goes in the translation (1) that takes the representative of each rank to the rank, or back (-1)."""
        stride, size, period = (column[:, None] for column in self.columns)
        here = self.digits(rank)
        there: Ints = ((self.digits(other) + way * (here - here % period)) % size * stride).sum(axis=0)
        return there

    def places(self, rank: Ints) -> Ints:
        """The entry in `representatives` of each rank's representative."""
        return np.searchsorted(self.representatives, self.canonical(rank)[0])

    def values(self, members: Ints, name: str) -> list[Ints]:
        """The values that each digit has in a group.

        Raises
        ------
        ConfigError
            If the group does not have all combinations of these, in ascending order.
        """
        values = [distinct(digit) for digit in self.digits(members)]
        ascends = len(members) < 2 or bool((np.diff(members) > 0).all())
        if math.prod(map(len, values)) != len(members) or not ascends:
            raise ConfigError(
                f"{name} has ranks {listed(members)}, expected a product of coordinates of the network's dimensions, ascending"
            )
        return values

    def orbits(self, groups: Sequence[Ints]) -> Ints:
        """int64[num_groups], equal for groups that translations move to one another."""
        known: dict[tuple[tuple[int, ...], ...], int] = {}
        result = []
        for number, members in enumerate(groups):
            key = []
            for digit, size, period in zip(self.values(members, f"group {number}"), self.size, self.period, strict=True):
                turns = np.unique(digit // period) * period if len(digit) < size else np.zeros(1, np.int64)
                key.append(min(tuple(np.sort((digit - turn) % size).tolist()) for turn in turns.tolist()))
            result.append(known.setdefault(tuple(key), len(known)))
        return np.array(result, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class CompactTrace:
    """The trace of a custom collective in which positions do the same at translated places.

    Parameters
    ----------
    lattice
        The translations of the positions: a digit for each dimension in which a group has several members.
    """

    trace: Trace
    lattice: Lattice

    @property
    def prefix(self) -> str:
        """The prefix of its files."""
        return self.trace.prefix

    @property
    def num_ranks(self) -> int:
        """Number of positions."""
        return self.lattice.num_ranks

    def of_ranks(self, positions: Ints) -> Trace:
        """The nodes of some positions, see `Trace.of_ranks`."""
        some = self.trace.of_ranks(self.lattice.places(positions))
        position = np.repeat(positions, np.diff(some.rank_first))
        peer = np.where(some.peer == ABSENT, ABSENT, self.lattice.moved(position, some.peer))
        workload = some.workload
        if workload is not None:
            workload = replace(workload, own=np.where(workload.own == ABSENT, ABSENT, position))
        return replace(some, peer=peer, workload=workload, owners=positions)

    def expand(self) -> Trace:
        """The nodes of all positions."""
        return replace(self.of_ranks(np.arange(self.num_ranks)), owners=None)

    def is_turned(self, counts: Sequence[int], index: int, step: int) -> bool:
        """Whether positions do the same when `step` of the values of a digit move past the end, in a group of so many values."""
        several = [count for count in counts if count > 1]
        place = sum(count > 1 for count in counts[:index])
        return tuple(several) == self.lattice.size and step % self.lattice.period[place] == 0


def listed(members: Ints) -> str:
    """The first of some numbers."""
    shown = ", ".join(map(str, members[:8].tolist()))
    return shown if len(members) <= 8 else f"{shown}, ... ({len(members)} in all)"
