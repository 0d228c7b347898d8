"""The traces of a generated run of many ranks: one for all ranks that translations of the network move to one another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.run.compact_run import fixed_dimensions, read_compact, smallest_period, write_ranks
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.run import CLASSES
from astra_tacos.run.trace.writer import encode_trace
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.generator.columns import StageColumns
from astra_tacos.workload.generator.parallelism import GroupKind, Groups

if TYPE_CHECKING:
    from astra_tacos.workload.generator.layered_step import LayeredStep
    from astra_tacos.workload.generator.step import Step

_MOST_CLASSES = 1024


def write_classes(step: Step | LayeredStep, columns: list[StageColumns], folder: Path, network: NetworkConfig) -> Groups:
    """Write `classes/w.<class>.et` and `ranks.json` beside a system file, and return the groups that are named there.

    Raises
    ------
    ConfigError
        If there are too many classes, or a group is no product of coordinates of the network.
    """
    split = step.parallelism
    npu = split.npu
    rank_of = np.empty(len(npu), np.int64)
    rank_of[npu] = np.arange(len(npu))
    partition = {kind: split.first_of_group(kind)[rank_of] for kind in sorted(step.group_kinds)}
    stage, lane = split.coordinate("pp"), split.lane()
    following = np.arange(len(npu)) + ((stage + 1) % split.pp - stage) * split.stride["pp"]
    after = npu[following[rank_of]]
    size = tuple(dimension.size for dimension in network.dimensions)
    lattice, own = Lattice(size, size), np.arange(len(npu))

    def keeps(index: int, turn: int) -> bool:
        stride = int(lattice.columns[0][index])
        here = own // stride % size[index]
        moved = own + ((here + turn) % size[index] - here) * stride
        same = (stage[rank_of][moved] == stage[rank_of]).all() and (after[moved] == moved[after]).all()
        return bool(same) and all(_maps(group, group[moved]) for group in partition.values())

    period = [
        smallest_period(dimension.size, dimension, lambda turn, index=index: keeps(index, turn))  # type: ignore[misc]
        for index, dimension in enumerate(network.dimensions)
    ]
    (folder / CLASSES).parent.mkdir()
    while True:
        lattice = Lattice(size, tuple(period))
        ranks = lattice.representatives
        if len(ranks) > _MOST_CLASSES:
            raise ConfigError(
                f"{network.source}: {len(ranks):,} classes of ranks, expected at most {_MOST_CLASSES:,}: "
                "let each axis fill whole dimensions (--order, --placement)"
            )
        groups = _groups(partition, rank_of, ranks)
        write_ranks(folder, lattice, groups.members)
        for place, rank in enumerate(rank_of[ranks].tolist()):
            of_stage = columns[int(stage[rank])]
            num_lanes = len(npu) // split.pp
            table = of_stage.of_rank(rank, npu, groups, split.stride["pp"], int(lane[rank]), num_lanes)
            (folder / f"{CLASSES}.{place}.et").write_bytes(encode_trace(table, 0, of_stage.num_nodes))
        fixed = fixed_dimensions(read_compact(folder, network, checks=False))
        if not fixed:
            return Groups(groups.members, groups.of_rank[:, rank_of[ranks]])
        for index in fixed:
            period[index] = size[index]


def _maps(one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether equal entries of one array have equal entries in the other."""
    image = np.empty(len(one), np.int64)
    image[one] = other
    return bool((image[one] == other).all())


def _groups(partition: dict[GroupKind, NDArray[np.int64]], rank_of: NDArray[np.int64], ranks: NDArray[np.int64]) -> Groups:
    """The groups that some ranks of the network are in; groups of the same ranks get one id."""
    members: dict[int, list[int]] = {}
    ids: dict[tuple[int, ...], int] = {}
    of_rank = np.zeros((len(GroupKind), len(rank_of)), np.int64)
    for kind, group in partition.items():
        for rank in ranks.tolist():
            listed = np.flatnonzero(group == group[rank]).tolist()
            number = ids.setdefault(tuple(listed), len(ids) + 1)
            members[number] = listed
            of_rank[kind, rank_of[rank]] = number
    return Groups(members, of_rank)
