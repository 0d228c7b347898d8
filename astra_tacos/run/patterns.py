"""The collective that a node of a workload stands for, and the node type under which ASTRA-sim runs it.

ASTRA-sim runs custom traces for four patterns only. The plan writes a node of another pattern (a Broadcast, for example) with one
of these four types; an attribute of the node keeps the original pattern, so that a planned run can be planned again.

Here are also the lists of native algorithms in a system JSON (one per dimension: does a collective of all NPUs reach them all?),
and the tags of messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.arrays import Ints

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
"""Names of Chakra's patterns, keys of `COLLECTIVES`, which may lack some of them. A barrier moves no data and has no name."""
ROOTED = frozenset({CommType.BROADCAST, CommType.REDUCE, CommType.SCATTER, CommType.GATHER})
"""Patterns with a root."""
CARRIER = CommType.ALL_REDUCE
"""Type that the plan writes for a node whose own type ASTRA-sim runs no custom traces for."""
PATTERN_ATTRIBUTE = "astra_tacos_pattern"
"""String attribute of a node that was written with the type `CARRIER`: the Chakra name of its original pattern."""
GROUP_ATTRIBUTE = "astra_tacos_group"
"""String attribute of a node whose collective is one of several in a joint trace: the id of its own group, "0" for all ranks."""
ORIGIN_ATTRIBUTE = "astra_tacos_from"
"""String attribute of a node that was made of nodes of the run before.

`17` is node 17, `17:1/4` the second of four equal parts of its work, and `17[0:4096] 23[0:100]` bytes of the inputs of
collectives 17 and 23.
"""
ROOT_ATTRIBUTES = ("root", "comm_root", "root_rank")
"""Integer attributes that name the root's rank; where a node has none, it is the lowest rank of the group."""
TAGS = 500_000_000
"""Tags count modulo this (ASTRA-sim `system/Sys.cc`, `front_end_sim_send`)."""


def carrying_type(pattern: int, size_bytes: int) -> CommType:
    """The node type under which ASTRA-sim runs a pattern's custom traces: its own if possible, else `CARRIER`.

    An All-Gather of 0 bytes needs `CARRIER`, too: as an All-Gather it would wait for 0 / 0 chunks (`Sys.cc`,
    `generate_collective`) and stall.
    """
    is_known = pattern in PATTERN_KEYS and (pattern != CommType.ALL_GATHER or size_bytes > 0)
    return CommType(pattern) if is_known else CARRIER


def carrying_types(pattern: Ints, size_bytes: Ints) -> Ints:
    """`carrying_type` of many collectives."""
    is_known = np.isin(pattern, [int(pattern) for pattern in PATTERN_KEYS])
    return np.where(is_known & ((pattern != CommType.ALL_GATHER) | (size_bytes > 0)), pattern, int(CARRIER))


def pattern_name(pattern: int) -> str:
    """Name of a pattern in the Chakra schema, like ALL_REDUCE."""
    return CommType(pattern).name if 0 <= pattern <= max(CommType) else f"a collective of type {pattern}"


_ONE_PREFIX = "one"


def spans_all(name: str) -> bool:
    """Whether an algorithm runs over all NPUs as one dimension: oneRing, oneDirect, oneHalvingDoubling."""
    return name.startswith(_ONE_PREFIX)


def leaves_out(names: Sequence[str], num_dims: int) -> bool:
    """Whether a collective of all NPUs leaves dimensions out, as the list names fewer (`GeneralComplexTopology.cc`)."""
    return 0 < len(names) < num_dims and not any(map(spans_all, names))
