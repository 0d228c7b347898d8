"""A run of ASTRA-sim as the optimizer's workload: the sum of each rank's nodes, without overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.blocks import building_block
from astra_tacos.replayer.workload_actions import workload_actions
from astra_tacos.run.groups import ALL_RANKS, used_groups
from astra_tacos.run.run import Run, pattern_key
from astra_tacos.study.optimizer.shape import MESSAGE, Demand, Job, Profile, Shape
from astra_tacos.support.errors import ConfigError

_NO_LIST = -1


def trace_job(run: Run, shape: Shape) -> Job:
    """The job of a run: the compute and the communication of every kind of rank.

    Compute nodes take the time that a replay gives them (`replayer.workload_actions`). The group of a collective has to be a
    block of the network: a number of members per dimension. A message counts at its sender. Ranks with equal sums are one
    profile.

    Raises
    ------
    ConfigError
        If ASTRA-sim does not run a node, there are not as many ranks as NPUs, or a group is not a block of the network.
    """
    trace = run.workload
    alike, numbers = 1, np.arange(trace.num_ranks)
    if trace.owners is not None:
        alike, numbers = shape.num_npus // trace.num_ranks, trace.owners
    elif trace.num_ranks != shape.num_npus:
        raise ConfigError(
            f"{trace.prefix}: traces of {trace.num_ranks} ranks, expected {shape.num_npus}, as many as {shape.source} has NPUs"
        )
    actions = workload_actions(run)
    rank = trace.rank
    timed = actions.is_timed
    compute_ns = np.bincount(rank[timed], actions.amount[timed], trace.num_ranks)
    number: dict[Demand, int] = {}
    of_row = np.full(trace.num_nodes, -1, np.int64)
    _number_collectives(run, shape, np.flatnonzero(actions.is_collective), number, of_row)
    _number_messages(run, shape, np.flatnonzero(actions.is_send), number, of_row)
    counts = np.zeros((trace.num_ranks, len(number)), np.int64)
    rows = np.flatnonzero(of_row >= 0)
    np.add.at(counts, (rank[rows], of_row[rows]), 1)
    _, first, which = np.unique(np.column_stack((compute_ns, counts)), axis=0, return_index=True, return_inverse=True)
    num_alike = np.bincount(which.reshape(-1))
    profiles = tuple(
        Profile(int(numbers[leader]), int(num_alike[place]) * alike, float(compute_ns[leader]), tuple(counts[leader].tolist()))
        for place, leader in sorted(enumerate(first.tolist()), key=lambda pair: pair[1])
    )
    return Job(trace.prefix, tuple(number), profiles)


def block_of(ranks: Sequence[int] | NDArray[np.int64], shape: Shape, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Number of members per dimension of a group, and their strides.

    Raises
    ------
    ConfigError
        If the ranks are not all combinations of evenly spaced coordinates, or if the building block of a dimension does not know
        the links that belong to these coordinates.
    """
    rest = np.asarray(ranks, np.int64)
    if not rest.size or rest.max() >= shape.num_npus:
        found = "no ranks" if not rest.size else f"rank {rest.max()}"
        raise ConfigError(f"{name} has {found}, expected ranks below {shape.num_npus}")
    members, strides = [], []
    for block, size in zip(shape.blocks, shape.sizes, strict=True):
        coordinates = np.unique(rest % size)
        steps = np.unique(np.diff(coordinates))
        if len(steps) > 1:
            break
        if steps.size and building_block(block).shared_part(size, coordinates) is None:
            places = ", ".join(map(str, coordinates[:8].tolist())) + (", ..." if len(coordinates) > 8 else "")
            raise ConfigError(f"{name} has the members {places} of a {block} {size}, expected all of it or a part with own links")
        members.append(len(coordinates))
        strides.append(int(steps[0]) if steps.size else 1)
        rest = rest // size
    if len(members) < shape.num_dimensions or np.prod(members) != len(ranks):
        listed = ", ".join(map(str, list(ranks)[:8])) + (", ..." if len(ranks) > 8 else "")
        raise ConfigError(f"{name} has the ranks {listed}, expected a block of evenly spaced coordinates of {shape.describe()}")
    return tuple(members), tuple(strides)


def _number_collectives(
    run: Run, shape: Shape, rows: NDArray[np.int64], number: dict[Demand, int], of_row: NDArray[np.int64]
) -> None:
    """Enter the demand of each row of a collective."""
    trace, columns = run.workload, run.columns
    groups = used_groups(run, rows)
    group = groups.group
    listed = np.where((group == ALL_RANKS) & (columns.involved_count[rows] > 0), columns.involved_dims[rows], _NO_LIST)
    cases, which = _distinct(columns.comm_type[rows], trace.size_bytes[rows], group, listed)
    for case, (pattern, size, entry, dimensions) in enumerate(cases):
        if entry == ALL_RANKS:
            chosen = [dimensions == _NO_LIST or bool(dimensions >> index & 1) for index in range(shape.num_dimensions)]
            members = tuple(size if takes_part else 1 for size, takes_part in zip(shape.sizes, chosen, strict=True))
            strides = (1,) * shape.num_dimensions
        else:
            members, strides = block_of(groups.members[entry], shape, f"{run.groups.source}: group {entry}")
        demand = Demand(pattern_key(pattern), size, members, strides)
        if demand.num_npus > 1 and size > 0:
            of_row[rows[which == case]] = number.setdefault(demand, len(number))


def _number_messages(
    run: Run, shape: Shape, rows: NDArray[np.int64], number: dict[Demand, int], of_row: NDArray[np.int64]
) -> None:
    """Enter the demand of each row of a message: its bytes, and the dimensions in which its ends differ."""
    ends = [run.workload.owner[rows], run.workload.peer[rows]]
    differs = []
    for size in shape.sizes:
        differs.append(ends[0] % size != ends[1] % size)
        ends = [end // size for end in ends]
    cases, which = _distinct(run.workload.size_bytes[rows], *differs)
    for case, (size, *crossed) in enumerate(cases):
        members = tuple(2 if crosses else 1 for crosses in crossed)
        demand = Demand(MESSAGE, size, members, (1,) * shape.num_dimensions)
        if demand.num_npus > 1 and size > 0:
            of_row[rows[which == case]] = number.setdefault(demand, len(number))


def _distinct(*columns: NDArray[np.int64] | NDArray[np.bool_]) -> tuple[list[list[int]], NDArray[np.int64]]:
    """The distinct rows over some columns, and int64[n], the number of each row among them."""
    stacked = np.stack([column.astype(np.int64) for column in columns], axis=1)
    cases, which = np.unique(stacked, axis=0, return_inverse=True)
    return cases.tolist(), which.reshape(-1)
