"""A run with its ranks on other NPUs: traces get other numbers, peers, groups and roots follow; all else stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from astra_tacos.planner.workload import Workload
from astra_tacos.run.groups import CommunicatorGroups
from astra_tacos.run.patterns import ROOTED
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.source import made_of
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import members_of


def check_permutable(workload: Workload) -> None:
    """Check that a run's ranks can be placed elsewhere.

    Raises
    ------
    ConfigError
        If it has custom collectives, whose traces are for the ranks as they are.
    """
    run = workload.run
    chosen = np.flatnonzero(run.implementation != NATIVE)
    if len(chosen):
        node, prefix = run.workload.describe_node(int(chosen[0])), run.prefixes[int(run.implementation[chosen[0]])]
        raise ConfigError(
            f"{run.workload.prefix}: {node} runs the custom collective {prefix}, which is for ranks where they are: "
            "expected a run with native collectives, to be placed before it is planned"
        )


def permuted(workload: Workload, npu_of_rank: Ints) -> Run:
    """The run with every rank on another NPU.

    Parameters
    ----------
    npu_of_rank
        int64[num_ranks], a permutation.
    """
    run, nodes = workload.run, workload.instances.nodes
    if np.array_equal(npu_of_rank, np.arange(len(npu_of_rank))):
        return run
    rows = members_of(run.workload.rank_first, np.argsort(npu_of_rank))[1]
    root = run.columns.root.copy()
    rooted = np.flatnonzero(np.isin(nodes.pattern, list(ROOTED)))
    root[nodes.row[rooted]] = npu_of_rank[nodes.root[rooted]]
    moved = renumbered(run, npu_of_rank)
    trace, columns = moved.workload, moved.columns
    is_message = np.isin(trace.kind, (NodeType.COMM_SEND, NodeType.COMM_RECV))
    columns = replace(columns, own=_moved(columns.own, is_message, npu_of_rank), root=root[rows])
    peer = _moved(trace.peer, is_message, npu_of_rank)
    return replace(moved, workload=replace(trace, files=None, peer=peer, workload=columns), source=made_of(run, rows))


def renumbered(run: Run, npu_of_rank: Ints) -> Run:
    """The run with its traces and groups under other numbers of ranks; peers and roots in its nodes stay."""
    rank_of_npu, place = np.argsort(npu_of_rank), npu_of_rank.tolist()
    rows = members_of(run.workload.rank_first, rank_of_npu)[1]
    members = {group: _group(ranks, place) for group, ranks in run.groups.members.items()}
    return replace(
        run,
        workload=replace(run.workload.of_ranks(rank_of_npu), owners=None),
        groups=CommunicatorGroups(run.groups.source, members),
        implementation=run.implementation[rows],
    )


def _moved(ranks: Ints, is_message: Bools, npu_of_rank: Ints) -> Ints:
    """The ranks at the ends of messages in their new places; numbers that are no ranks stay."""
    known = is_message & (ranks >= 0) & (ranks < len(npu_of_rank))
    return np.where(known, npu_of_rank[np.where(known, ranks, 0)], ranks)


def _group(ranks: Sequence[int], place: list[int]) -> tuple[int, ...]:
    """A group whose file lists it in ascending order stays so, as rings go in the order of the list."""
    members = [place[rank] for rank in ranks]
    return tuple(sorted(members)) if list(ranks) == sorted(ranks) else tuple(members)
