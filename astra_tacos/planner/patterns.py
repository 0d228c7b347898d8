"""The collective that a node of a workload stands for, and how to make ASTRA-sim run it.

ASTRA-sim runs custom traces for four patterns. A node of another pattern gets one of these four types; an attribute of the node
keeps the original pattern, so that a planned run can be planned again.
"""

from __future__ import annotations

from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.trace.schema import CommType

COLLECTIVE_NAMES = {
    CommType.ALL_REDUCE: "all-reduce",
    CommType.ALL_GATHER: "all-gather",
    CommType.REDUCE_SCATTER: "reduce-scatter",
    CommType.REDUCE_SCATTER_BLOCK: "reduce-scatter",
    CommType.ALL_TO_ALL: "all-to-all",
    CommType.BROADCAST: "broadcast",
    CommType.REDUCE: "reduce",
    CommType.SCATTER: "scatter",
    CommType.GATHER: "gather",
}
"""Key in `COLLECTIVES` (which may not have it yet) of the patterns of the Chakra schema; a barrier moves no data."""
ROOTED = frozenset({CommType.BROADCAST, CommType.REDUCE, CommType.SCATTER, CommType.GATHER})
"""Patterns in which one member is unlike the others."""
CARRIER = CommType.ALL_REDUCE
"""The type that a node gets if ASTRA-sim does not run custom collectives of its own."""
PATTERN_ATTRIBUTE = "astra_tacos_pattern"
"""String attribute of a carried node: the name of its pattern in the Chakra schema."""
ROOT_ATTRIBUTES = ("root", "comm_root", "root_rank")
"""Integer attributes that name the root's rank; where a node has none, it is the lowest rank of the group."""


def carrying_type(pattern: int, size_bytes: int) -> CommType:
    """The type under which ASTRA-sim runs a pattern's custom traces.

    An All-Gather of no bytes is none: it waits for 0 / 0 chunks (`Sys.cc`, `generate_collective`), which never come.
    """
    is_known = pattern in PATTERN_KEYS and (pattern != CommType.ALL_GATHER or size_bytes > 0)
    return CommType(pattern) if is_known else CARRIER


def pattern_name(pattern: int) -> str:
    """ALL_REDUCE."""
    return CommType(pattern).name if 0 <= pattern <= max(CommType) else f"a collective of type {pattern}"
