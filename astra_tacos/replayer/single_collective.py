"""A run in which every rank has one node, a collective of all ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from astra_tacos.config.communicator import CommunicatorGroups
from astra_tacos.config.network import NetworkConfig
from astra_tacos.config.system import SystemConfig
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.trace.schema import CommType, NodeType
from astra_tacos.trace.trace import ABSENT, Trace, WorkloadColumns


def single_collective_run(
    network: NetworkConfig, system: SystemConfig, pattern: CommType, size_bytes: int, custom: Trace | None = None
) -> Run:
    """The run of one collective of all NPUs of a network.

    Parameters
    ----------
    network, system
        What it runs on.
    pattern, size_bytes
        The collective: its `comm_type` and `comm_size`.
    custom
        Its custom traces; None for the native implementation that `system` names.
    """
    num_ranks, prefix = network.num_npus, system.source
    absent = np.full(num_ranks, ABSENT, np.int64)
    workload = Trace(
        prefix=prefix,
        rank_first=np.arange(num_ranks + 1),
        node_id=np.zeros(num_ranks, np.uint64),
        kind=np.full(num_ranks, NodeType.COMM_COLL, np.uint8),
        duration_us=np.zeros(num_ranks, np.int64),
        size_bytes=np.full(num_ranks, size_bytes, np.int64),
        peer=absent,
        tag=absent,
        dep_first=np.zeros(num_ranks + 1, np.int64),
        dep=np.empty(0, np.int64),
        chunks=None,
        workload=WorkloadColumns(
            comm_type=np.full(num_ranks, pattern, np.int64),
            num_ops=absent,
            tensor_size=absent,
            comm_priority=absent,
            is_cpu_op=np.zeros(num_ranks, np.bool_),
            own=absent,
            group=np.full(num_ranks, -1, np.int32),
            group_names=(),
            involved_dims=absent,
            involved_count=np.zeros(num_ranks, np.int64),
            wrong_type=np.zeros(num_ranks, np.uint32),
            no_value=np.zeros(num_ranks, np.uint32),
            byte_offset=np.zeros(num_ranks, np.int64),
        ),
    )
    return Run(
        workload=workload,
        system=system,
        network=network,
        groups=CommunicatorGroups(prefix, {}),
        remote_memory=None,
        prefixes=() if custom is None else (custom.prefix,),
        collectives=() if custom is None else (custom,),
        implementation=np.full(num_ranks, NATIVE if custom is None else 0, np.int32),
        directory=Path(),
    )
