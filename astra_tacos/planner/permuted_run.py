"""A run with its ranks on other NPUs: files get other numbers, peers, groups and roots follow; all else keeps its bytes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.planner.run_files import copy_network
from astra_tacos.planner.workload import Workload
from astra_tacos.run.patterns import ROOT_ATTRIBUTES, ROOTED
from astra_tacos.run.run import GROUPS, MEMORY, NATIVE, SYSTEM, WORKLOAD, RunInputs, write_groups
from astra_tacos.run.trace.node_bytes import load_rank, node_at, replace_nodes, set_attribute
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError

_PEERS = ("comm_src", "comm_dst")


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


def write_permuted(folder: Path, inputs: RunInputs, workload: Workload, npu_of_rank: Ints) -> RunInputs:
    """Write the run with every rank on another NPU into an empty directory; returns its files.

    Parameters
    ----------
    npu_of_rank
        int64[num_ranks], a permutation.

    Raises
    ------
    ConfigError
        If a file cannot be read again.
    """
    run, nodes = workload.run, workload.instances.nodes
    trace, columns = run.workload, run.columns
    place = npu_of_rank.tolist()
    (folder / WORKLOAD).mkdir()
    moved = not np.array_equal(npu_of_rank, np.arange(len(place)))
    root_of = dict(zip(nodes.row.tolist(), nodes.root.tolist(), strict=True))
    rooted = {row for row, pattern in zip(nodes.row.tolist(), nodes.pattern.tolist(), strict=True) if pattern in ROOTED}
    for rank in range(trace.num_ranks):
        data = load_rank(trace, rank)
        begin, end = int(trace.rank_first[rank]), int(trace.rank_first[rank + 1])
        changed: dict[int, Any] = {}
        for row in range(begin, end) if moved else ():
            is_message = trace.kind[row] in (NodeType.COMM_SEND, NodeType.COMM_RECV)
            if not is_message and row not in rooted:
                continue
            node = node_at(data, int(columns.byte_offset[row]))
            if is_message:
                _move_peers(node, place)
            else:
                _move_root(node, place[root_of[row]])
            changed[row - begin] = node
        path = folder / WORKLOAD / f"{inputs.workload.name}.{place[rank]}.et"
        path.write_bytes(replace_nodes(data, columns.byte_offset[begin:end], changed, f"{trace.prefix}.{rank}.et"))
    shutil.copyfile(inputs.system, folder / SYSTEM)
    copy_network(inputs.network, folder)
    if inputs.remote_memory is not None:
        shutil.copyfile(inputs.remote_memory, folder / MEMORY)
    if inputs.groups is not None and not moved:
        shutil.copyfile(inputs.groups, folder / GROUPS)
    else:
        write_groups(folder, {group: _moved(ranks, place) for group, ranks in run.groups.members.items()})
    return RunInputs.in_folder(folder, inputs.workload.name, inputs.ns3)


def _moved(ranks: Sequence[int], place: list[int]) -> list[int]:
    """A group whose file lists it in ascending order stays so, as rings go in the order of the list."""
    members = [place[rank] for rank in ranks]
    return sorted(members) if list(ranks) == sorted(ranks) else members


def _move_peers(node: Any, place: list[int]) -> None:
    for entry in node.attr:
        kind = entry.WhichOneof("value") if entry.name in _PEERS else None
        if kind is not None and 0 <= int(getattr(entry, kind)) < len(place):
            setattr(entry, kind, place[int(getattr(entry, kind))])


def _move_root(node: Any, root: int) -> None:
    """The attribute that names the root; one is added where the root was the lowest rank of the group."""
    for entry in node.attr:
        kind = entry.WhichOneof("value") if entry.name in ROOT_ATTRIBUTES else None
        if kind is not None:
            setattr(entry, kind, root)
            return
    set_attribute(node, ROOT_ATTRIBUTES[0], "int64_val", root)
