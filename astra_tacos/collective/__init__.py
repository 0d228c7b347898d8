"""Collectives, by the names that the command line gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from astra_tacos.collective.all_to_allv import all_to_allv
from astra_tacos.collective.collective import Collective
from astra_tacos.collective.patterns import all_gather, all_reduce, all_to_all, broadcast, gather, reduce, reduce_scatter, scatter
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError

COLLECTIVES: dict[str, Callable[..., Collective]] = {
    "all-reduce": all_reduce,
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "broadcast": broadcast,
    "reduce": reduce,
    "all-to-all": all_to_all,
    "scatter": scatter,
    "gather": gather,
}
"""Functions of (number of NPUs, bytes, chunks per NPU); those in `ROOTED` take a `root`, too.

Examples
--------
>>> from astra_tacos import COLLECTIVES
>>> COLLECTIVES["all-gather"](4, 1 << 20, 2).name
'all-gather'
"""
ROOTED = frozenset({"broadcast", "reduce", "scatter", "gather"})
PERSONALISED = frozenset({"all-to-all", "scatter", "gather"})
"""Those whose chunks have a target each."""
UNEQUAL = {"all-to-allv": all_to_allv}
"""Functions of (bytes from each NPU to each, chunks): collectives whose parts have sizes of their own, all personalised."""


def make_collective(
    name: str,
    num_npus: int,
    size_bytes: int,
    chunks_per_npu: int = 1,
    root: int | None = None,
    members: Sequence[int] | None = None,
    num_owners: int | None = None,
    part_bytes: Ints | None = None,
) -> Collective:
    """The collective of that name in `COLLECTIVES`; `root` is for those that have one, by default the first member.

    Parameters
    ----------
    name
        A key of `COLLECTIVES`, or of `UNEQUAL`.
    num_npus
        Number of NPUs of the network.
    size_bytes
        Size of the collective's whole buffer.
    chunks_per_npu
        Chunks into which the part of each NPU is cut.
    root
        The NPU that sends or receives all data, for the collectives in `ROOTED`.
    members
        NPUs that take part, if not all do; the others may pass chunks on.
    num_owners
        How many of the NPUs own chunks, for an All-Reduce of fewer chunks; by default all.
    part_bytes
        int64[members, members], bytes from each member to each, for the collectives in `UNEQUAL`, whose size this tells.

    Raises
    ------
    ConfigError
        If there is no such collective or it has no root (or no choice of owners), if members are no NPUs or the root is none of
        them, or what the collective itself refuses.

    Examples
    --------
    >>> from astra_tacos import make_collective
    >>> make_collective("all-gather", 4, 1 << 20, chunks_per_npu=2).num_chunks
    8
    """
    if name not in (*COLLECTIVES, *UNEQUAL):
        raise ConfigError(f"collective: found {name!r}, expected {', '.join((*COLLECTIVES, *UNEQUAL))}")
    if (part_bytes is not None) != (name in UNEQUAL):
        mismatch = "found sizes of" if part_bytes is not None else "found no sizes of its"
        raise ConfigError(f"{name}: {mismatch} parts, which {', '.join(UNEQUAL)} has and no other collective")
    if root is not None and name not in ROOTED:
        raise ConfigError(f"{name}: found root {root}, but only {', '.join(sorted(ROOTED))} have a root")
    if num_owners is not None and name != "all-reduce":
        raise ConfigError(f"{name}: found {num_owners} owners of chunks, but only all-reduce has a choice")
    if members is not None:
        npus = _checked_members(name, num_npus, members, root)
        place = None if root is None else npus.index(root)
        among = make_collective(name, len(npus), size_bytes, chunks_per_npu, place, None, num_owners, part_bytes)
        return among.renumbered(np.array(npus), num_npus)
    if part_bytes is not None:
        if len(part_bytes) != num_npus:
            raise ConfigError(f"{name}: found sizes of {len(part_bytes)} NPUs, expected {num_npus}")
        return UNEQUAL[name](part_bytes, chunks_per_npu)
    choices = {"root": root or 0} if name in ROOTED else {}
    choices |= {} if num_owners is None else {"num_owners": num_owners}
    return COLLECTIVES[name](num_npus, size_bytes, chunks_per_npu, **choices)


def size_as_run(name: str, num_members: int, size_bytes: int) -> int:
    """The bytes that ASTRA-sim runs a collective as: a byte for each member where the buffer has fewer and is shared."""
    is_shared = name in ("all-reduce", "reduce-scatter", "all-to-all", "scatter")
    return max(size_bytes, num_members) if is_shared and size_bytes > 0 else size_bytes


def _checked_members(name: str, num_npus: int, npus: Sequence[int], root: int | None) -> list[int]:
    """The members in ascending order, if they are NPUs and the root is one of them."""
    members = sorted(npus)
    if len(set(members)) < len(members):
        raise ConfigError(f"{name}: found a member twice, expected each once")
    if members and not 0 <= members[0] <= members[-1] < num_npus:
        raise ConfigError(f"{name}: found members {members[0]} to {members[-1]}, expected NPUs, 0 to {num_npus - 1}")
    if root is not None and root not in members:
        raise ConfigError(f"{name}: found root {root}, expected one of the members")
    return members


@lru_cache(maxsize=1 << 7)  # what searches know of a cut is kept by its identity
def cut_into(collective: Collective, chunks_per_npu: int) -> Collective:
    """The same collective with another number of chunks; where there is a choice, all NPUs own chunks then.

    Raises
    ------
    ConfigError
        If there are fewer bytes than chunks.
    """
    members = None if collective.members is None else collective.members.tolist()
    return make_collective(
        collective.name,
        collective.num_npus,
        collective.size_bytes,
        chunks_per_npu,
        collective.root,
        members,
        part_bytes=collective.part_bytes,
    )
