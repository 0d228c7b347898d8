"""What has to travel in a collective, whatever the algorithm: in whole chunks, or in bytes.

In a collective that gathers, every byte has to reach every member. In one that reduces, every member's contribution to every byte
has to have an influence at the byte's owner, or at all members. However contributions are summed up on the way, or sent on
apart, a byte of the result takes at least one byte across every border that lies between a contribution and its destination.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.support.arrays import Bools, Floats, Ints, Ints32


@dataclass(frozen=True, eq=False)
class Amounts:
    """What each chunk of a collective counts for: `of_chunk`, int64[num_chunks]."""

    collective: Collective
    of_chunk: Ints

    @cached_property
    def owned(self) -> Floats:
        """float64[num_npus], what each NPU owns."""
        return self._by_npu(self.collective.chunk_owner)

    @cached_property
    def pairs(self) -> Floats:
        """float64[num_npus, num_npus], what each NPU has for each other in a personalised collective."""
        num_npus = self.collective.num_npus
        assert self.collective.chunk_target is not None
        pair = self.collective.chunk_owner.astype(np.int64) * num_npus + self.collective.chunk_target
        amount: Floats = np.bincount(pair, self.of_chunk, num_npus**2).astype(float)
        return amount.reshape(num_npus, num_npus)

    @cached_property
    def whole(self) -> float:
        """All chunks."""
        return float(self.owned.sum())

    def entering(self, sides: Bools) -> Floats:
        """float64[num_sides], what has to enter each set of NPUs; `sides` is bool[num_sides, num_npus]."""
        collective = self.collective
        if collective.is_personalised:
            inside = sides.astype(np.float64)
            entering: Floats = np.einsum("sn,sn->s", (1.0 - inside) @ self.pairs, inside)
            return entering
        members = sides[:, collective.member_npus]
        if collective.reduces and collective.gathers:
            return np.where(members.any(axis=1) & ~members.all(axis=1), self.whole, 0.0)
        owners = np.flatnonzero(self.owned)  # few of all NPUs, where a group is bounded
        owned = sides[:, owners] @ self.owned[owners]
        if collective.gathers:
            return np.where(members.any(axis=1), self.whole - owned, 0.0)
        return np.where(members.all(axis=1), 0.0, owned)

    def at_npus(self, *, inward: bool) -> Floats:
        """float64[num_npus], what has to enter (leave) each NPU."""
        collective = self.collective
        if collective.chunk_target is not None:
            return self._by_npu(collective.chunk_target if inward else collective.chunk_owner)
        is_member = np.isin(np.arange(collective.num_npus), collective.member_npus)
        if collective.num_phases == 2:
            return np.where(is_member, self.whole, 0.0)
        return np.where(is_member, self.whole - self.owned, 0.0) if inward == collective.gathers else self.owned

    def between(self, group: Ints) -> int:
        """The least that crosses between parts; `group` is int64[num_npus], the part of each NPU."""
        collective = self.collective
        if collective.chunk_target is not None:
            return int(self.of_chunk[group[collective.chunk_owner] != group[collective.chunk_target]].sum())
        parts = len(np.unique(group[collective.member_npus]))
        return collective.num_phases * (parts - 1) * int(self.whole)

    def _by_npu(self, npu: Ints32) -> Floats:
        amount: Floats = np.bincount(npu, self.of_chunk, self.collective.num_npus).astype(float)
        return amount


@lru_cache(maxsize=4)
def bytes_of(collective: Collective) -> Amounts:
    """What has to travel in bytes."""
    return Amounts(collective, collective.chunk_size_bytes)


@lru_cache(maxsize=4)
def chunks_of(collective: Collective) -> Amounts:
    """What has to travel in chunks."""
    return Amounts(collective, np.ones(collective.num_chunks, np.int64))
