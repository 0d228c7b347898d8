"""Algorithms that ASTRA-sim frees twice when it ends, so that it may abort after it has printed all cycles.

A rank keeps one plan per communicator group and pattern. In a group of fewer than all ranks the plan frees its list of algorithms
(`system/CollectivePlan.cc`, `~CollectivePlan`), though a list of one entry is that of the system file itself, or the custom trace
of a whole pattern, which the plans of all groups share (`CommunicatorGroup.cc`, `get_collective_plan`; longer lists are replaced
by a new ring). So two groups of a rank that run one pattern free it twice. Whether the memory allocator notices is chance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.groups import ALL_RANKS, group_ids
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, Run
from astra_tacos.run.trace.schema import CommType, NodeType

Shared = dict[CommType, tuple[int, int, int]]
"""By pattern, a rank and two of its groups whose plans share an algorithm."""


def shared_plans(run: Run) -> Shared:
    """The patterns of a run whose algorithm ASTRA-sim frees twice."""
    trace = run.workload
    rows = np.flatnonzero(trace.kind == NodeType.COMM_COLL)
    group = group_ids(run.columns)[rows]
    sizes = {number: len(set(ranks)) for number, ranks in run.groups.members.items()}
    small = np.array([sizes.get(number, 0) for number in group.tolist()], np.int64)
    is_small = (group != ALL_RANKS) & (small > 0) & (small < run.network.num_npus)
    native = {pattern for pattern, key in PATTERN_KEYS.items() if len(run.system.native.get(key, ())) == 1}
    pattern = run.columns.comm_type[rows]
    is_shared = is_small & (run.implementation[rows] == NATIVE) & np.isin(pattern, list(native))
    return twice_freed(trace.rank[rows][is_shared], group[is_shared], pattern[is_shared])


def twice_freed(rank: NDArray[np.int64], group: NDArray[np.int64], pattern: NDArray[np.int64]) -> Shared:
    """For each pattern, the first rank with two groups.

    Parameters
    ----------
    rank, group, pattern
        Of plans that do not own their algorithm.
    """
    found: Shared = {}
    first: dict[tuple[int, int], int] = {}
    plans = np.unique(np.stack((rank, pattern, group)), axis=1)
    for one, kind, number in plans.T.tolist():
        before = first.setdefault((one, kind), number)
        if before != number:
            found.setdefault(CommType(kind), (one, before, number))
    return found
