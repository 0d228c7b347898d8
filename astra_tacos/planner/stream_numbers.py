"""Native collectives of all ranks that ASTRA-sim would number differently on different ranks, so that their messages never match.

Messages of a native collective carry a number. A communicator group counts its own collectives. The group of all ranks has no
counter of its own: it uses the rank's counter, which increases with every collective that the rank begins, including those in
groups and those that run custom traces (`Sys.cc`, `generate_collective`: `num_streams++`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.planner.instances import Instances
from astra_tacos.run.chunks import cut_into_chunks
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, pattern_key
from astra_tacos.run.system import SystemConfig


def differently_numbered(
    instances: Instances, implementation: NDArray[np.int64], order: NDArray[np.int64], system: SystemConfig
) -> NDArray[np.bool_]:
    """bool[num_instances], native collectives of all ranks before which ranks begin, or may begin, unequal numbers of others.

    Parameters
    ----------
    instances
        The collective instances of the workload.
    implementation
        int64[num_instances], NATIVE for those without a trace.
    order
        int64[num_instances], place of each collective in the order in which ranks begin them.
    system
        Of the run as it was: where anything runs a trace, nothing is split.

    Raises
    ------
    ConfigError
        If the system cuts a native collective into less than a byte.
    """
    is_native = (implementation == NATIVE) & np.isin(instances.pattern, list(PATTERN_KEYS))
    asked: NDArray[np.bool_] = is_native & (instances.group == ALL_RANKS)
    if not asked.any():
        return asked
    streams = (implementation != NATIVE).astype(np.int64)
    if (streams.astype(np.bool_) & (instances.num_members < 2)).any():
        return asked  # nothing orders a group of one among the others, so that no number is sure
    streams[is_native] = 1 if streams.any() else _num_chunks(instances, is_native, system)
    # How many streams each node's rank has begun before it.
    turn = np.lexsort((order[instances.instance], instances.nodes.rank))
    rank, instance = instances.nodes.rank[turn], instances.instance[turn]
    before = np.cumsum(streams[instance]) - streams[instance]
    before -= before[np.searchsorted(rank, rank)]
    lowest = np.full(instances.num_instances, np.iinfo(np.int64).max)
    highest = np.zeros(instances.num_instances, np.int64)
    np.minimum.at(lowest, instance, before)
    np.maximum.at(highest, instance, before)
    differs: NDArray[np.bool_] = asked & (lowest != highest)
    return differs


def _num_chunks(instances: Instances, is_native: NDArray[np.bool_], system: SystemConfig) -> NDArray[np.int64]:
    """int64[native collectives], the number of chunks that each is cut into; all of them are streams."""
    num_npus = len(instances.nodes.members[ALL_RANKS])
    cases, which = np.unique(np.stack((instances.pattern, instances.size_bytes))[:, is_native], axis=1, return_inverse=True)
    counts = [cut_into_chunks(pattern_key(pattern), size, num_npus, system)[1] for pattern, size in cases.T.tolist()]
    return np.array(counts, np.int64)[which.reshape(-1)]
