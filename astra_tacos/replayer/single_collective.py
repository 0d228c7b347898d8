"""Runs of one collective, in which every rank has one node, and of one message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.run.communicator import CommunicatorGroups
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.system import SystemConfig
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, Trace, WorkloadColumns


def single_collective_run(
    network: NetworkConfig,
    system: SystemConfig,
    pattern: int,
    size_bytes: int,
    custom: Trace | None = None,
    groups: Sequence[tuple[int, ...]] | None = None,
) -> Run:
    """The run of one collective of all NPUs of a network, or of several groups of them at once.

    Parameters
    ----------
    network, system
        What it runs on.
    pattern, size_bytes
        The collective: its `comm_type` and `comm_size`.
    custom
        Its custom traces; None for the native implementation that `system` names.
    groups
        Ranks of each group, no rank in two of them; other ranks do nothing. None for one group of all.
    """
    num_ranks, prefix = network.num_npus, system.source
    groups = [tuple(range(num_ranks))] if groups is None else groups
    is_everyone = len(groups) == 1 and list(groups[0]) == list(range(num_ranks))
    group = np.full(num_ranks, -1, np.int32)
    takes_part = np.zeros(num_ranks, np.bool_)
    for number, ranks in enumerate(groups):
        takes_part[list(ranks)] = True
        if not is_everyone:
            group[list(ranks)] = number
    absent = np.full(num_ranks, ABSENT, np.int64)
    kind = np.where(takes_part, NodeType.COMM_COLL, NodeType.COMP).astype(np.uint8)
    size = np.full(num_ranks, size_bytes, np.int64)
    names = () if is_everyone else tuple(str(number + 1) for number in range(len(groups)))
    workload = _one_node_a_rank(prefix, kind, size, absent, np.full(num_ranks, pattern, np.int64), group, names)
    return Run(
        workload=workload,
        system=system,
        network=network,
        groups=CommunicatorGroups(prefix, {} if is_everyone else {number + 1: ranks for number, ranks in enumerate(groups)}),
        remote_memory=None,
        prefixes=() if custom is None else (custom.prefix,),
        collectives=() if custom is None else (custom,),
        implementation=np.where(takes_part & (custom is not None), 0, NATIVE).astype(np.int32),
        directory=Path(),
    )


def single_message_run(network: NetworkConfig, system: SystemConfig, source: int, target: int, size_bytes: int) -> Run:
    """The run of one message.

    Parameters
    ----------
    network, system
        What it runs on.
    source, target
        The ranks that send and receive.
    size_bytes
        Its size.
    """
    num_ranks = network.num_npus
    kind, peer = np.full(num_ranks, NodeType.COMP, np.uint8), np.full(num_ranks, ABSENT, np.int64)
    kind[[source, target]], peer[[source, target]] = (NodeType.COMM_SEND, NodeType.COMM_RECV), (target, source)
    absent = np.full(num_ranks, ABSENT, np.int64)
    size = np.full(num_ranks, size_bytes, np.int64)
    everyone = np.full(num_ranks, -1, np.int32)
    return Run(
        workload=_one_node_a_rank(system.source, kind, size, peer, absent, everyone, ()),
        system=system,
        network=network,
        groups=CommunicatorGroups(system.source, {}),
        remote_memory=None,
        prefixes=(),
        collectives=(),
        implementation=np.full(num_ranks, NATIVE, np.int32),
        directory=Path(),
    )


def _one_node_a_rank(
    prefix: str,
    kind: NDArray[np.uint8],
    size_bytes: NDArray[np.int64],
    peer: NDArray[np.int64],
    comm_type: NDArray[np.int64],
    group: NDArray[np.int32],
    group_names: tuple[str, ...],
) -> Trace:
    """A workload in which every rank has one node; compute nodes do nothing."""
    num_ranks = len(kind)
    absent = np.full(num_ranks, ABSENT, np.int64)
    return Trace(
        prefix=prefix,
        rank_first=np.arange(num_ranks + 1),
        node_id=np.zeros(num_ranks, np.uint64),
        kind=kind,
        duration_us=np.zeros(num_ranks, np.int64),
        size_bytes=size_bytes,
        peer=peer,
        tag=np.where(peer == ABSENT, ABSENT, 0),
        dep_first=np.zeros(num_ranks + 1, np.int64),
        dep=np.empty(0, np.int64),
        chunks=None,
        workload=WorkloadColumns(
            comm_type=comm_type,
            num_ops=absent,
            tensor_size=absent,
            comm_priority=absent,
            is_cpu_op=kind == NodeType.COMP,
            own=absent,
            group=group,
            group_names=group_names,
            involved_dims=absent,
            involved_count=np.zeros(num_ranks, np.int64),
            wrong_type=np.zeros(num_ranks, np.uint32),
            no_value=np.zeros(num_ranks, np.uint32),
            byte_offset=np.zeros(num_ranks, np.int64),
        ),
    )
