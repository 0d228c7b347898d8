"""What has to travel in a collective, in bytes, whatever the algorithm.

In a collective that gathers, every byte has to reach every member. In one that reduces, every member's contribution to every byte
has to have an influence at the byte's owner, or at all members. However contributions are summed up on the way, or sent on
apart, a byte of the result takes at least one byte across every border that lies between a contribution and its destination.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from astra_tacos.collective.collective import Collective


@lru_cache(maxsize=4)
def owned_bytes(collective: Collective) -> NDArray[np.float64]:
    """float64[num_npus], bytes of the chunks of each NPU."""
    owned: NDArray[np.float64] = np.bincount(collective.chunk_owner, collective.chunk_size_bytes, collective.num_npus).astype(
        float
    )
    return owned


@lru_cache(maxsize=4)
def pair_bytes(collective: Collective) -> NDArray[np.float64]:
    """float64[num_npus, num_npus], what each NPU has for each other in a personalised collective."""
    assert collective.chunk_target is not None
    pair = collective.chunk_owner.astype(np.int64) * collective.num_npus + collective.chunk_target
    amount: NDArray[np.float64] = np.bincount(pair, collective.chunk_size_bytes, collective.num_npus**2).astype(float)
    return amount.reshape(collective.num_npus, collective.num_npus)


def all_bytes(collective: Collective) -> float:
    """Bytes of all chunks."""
    return float(owned_bytes(collective).sum())


def entering_bytes(collective: Collective, sides: NDArray[np.bool_]) -> NDArray[np.float64]:
    """float64[num_sides], bytes that have to enter each set of NPUs; `sides` is bool[num_sides, num_npus]."""
    if collective.is_personalised:
        inside = sides.astype(np.float64)
        entering: NDArray[np.float64] = np.einsum("sn,sn->s", (1.0 - inside) @ pair_bytes(collective), inside)
        return entering
    members = sides[:, collective.member_npus]
    whole, owned = all_bytes(collective), sides @ owned_bytes(collective)
    if collective.reduces and collective.gathers:
        return np.where(members.any(axis=1) & ~members.all(axis=1), whole, 0.0)
    if collective.gathers:
        return np.where(members.any(axis=1), whole - owned, 0.0)
    return np.where(members.all(axis=1), 0.0, owned)
