"""Communicator groups as ASTRA-sim reads them: the group that a node names, its ranks, and the nodes that share a plan.

The file is a JSON such as `{"1": [0, 2], "2": [1, 3]}`.

Source: `workload/Workload.cc` (`extract_comm_group`, `initialize_comm_groups`) and `system/CommunicatorGroup.cc`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from astra_tacos.run.system import INT32_MAX
from astra_tacos.run.trace.trace import WorkloadColumns
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object
from astra_tacos.support.formats.numbers import is_whole
from astra_tacos.support.formats.values import describe, list_value
from astra_tacos.support.grouping import row_places

if TYPE_CHECKING:
    from astra_tacos.run.run import Run

ALL_RANKS = 0
"""Id of the group of all ranks, for nodes whose `pg_name` is absent, "" or "0"."""
UNKNOWN = -1
"""Id that stands for a group whose name is not a number."""
NO_PLAN = -1
"""Of a node whose group remembers nothing."""


@dataclass(frozen=True, slots=True)
class CommunicatorGroups:
    """Members of each communicator group by its id, in the order of the file. The group of all ranks (id 0) is not among them."""

    source: str
    """The file they were read from, as error messages name it."""
    members: Mapping[int, tuple[int, ...]]
    is_given: bool = True
    """Whether there is such a file."""
    is_ignored: bool = False
    """Whether ASTRA-sim reads no groups from the file, because its path contains "empty"."""


NO_GROUPS = CommunicatorGroups("no file (--comm-group)", {}, is_given=False)


def read_communicator_groups(path: str | Path) -> CommunicatorGroups:
    """Read a communicator group JSON.

    Raises
    ------
    ConfigError
        If the file cannot be read, a name is no group id of 1 or more, or its value is no list of distinct ranks.
    """
    path = Path(path)
    return parse_communicator_groups(path, read_json_object(path))


def parse_communicator_groups(path: Path, document: Mapping[str, object]) -> CommunicatorGroups:
    """The groups that a JSON object describes; the file's path is for messages.

    Raises
    ------
    ConfigError
        If a name is no group id of 1 or more, or its value is no list of distinct ranks.
    """
    members: dict[int, tuple[int, ...]] = {}
    for name, ranks in document.items():
        group = named_group(path, name, members)
        members[group] = group_members(path, group, ranks)
    return CommunicatorGroups(str(path), members)


def named_group(path: Path, name: str, others: Container[int]) -> int:
    """The id in a group's name in a file, checked.

    Raises
    ------
    ConfigError
        If the name is no id, or that of one of the other groups.
    """
    group = group_id(name)
    if group is None:
        raise ConfigError(f"{path}: group {describe(name)} is no whole number from 1 to {INT32_MAX:,}")
    if group in others:
        raise ConfigError(f"{path}: group {describe(name)} is given twice")
    return group


def group_members(path: Path, group: int, ranks: object) -> tuple[int, ...]:
    """The ranks of a group, checked.

    Raises
    ------
    ConfigError
        If they are no list of distinct ranks.
    """
    members = list_value(ranks, f"{path}: group {group}", "a list of ranks")
    seen: set[int] = set()
    for index, rank in enumerate(members):
        if not is_whole(rank, 0, INT32_MAX):
            raise ConfigError(f"{path}: group {group} has {describe(rank)} at {index}, expected a rank")
        if rank in seen:
            raise ConfigError(f"{path}: group {group} has rank {rank} twice, expected each rank once")
        seen.add(rank)
    return tuple(members)


def group_id(name: str) -> int | None:
    """The group id in a name of a file or a `pg_name`; None if it is not a decimal number from 1 to 2**31 - 1."""
    if not (name.isascii() and name.isdigit() and len(name.lstrip("0")) <= 10):
        return None
    group = int(name)
    return group if 1 <= group <= INT32_MAX else None


@dataclass(frozen=True, slots=True, eq=False)
class UsedGroups:
    """The groups that the nodes at some rows of a workload name.

    Parameters
    ----------
    group
        int64[num_rows], id of each node's group.
    """

    group: Ints
    members: Mapping[int, tuple[int, ...]]


def group_ids(columns: WorkloadColumns) -> Ints:
    """int64[num_nodes], id of each node's group: ALL_RANKS without a name, UNKNOWN where the name is not a number."""
    ids = [ALL_RANKS if name in ("", "0") else group_id(name) or UNKNOWN for name in columns.group_names]
    return np.array([*ids, ALL_RANKS], np.int64)[columns.group]


def members_of(groups: Mapping[int, tuple[int, ...]], num_npus: int, used: Ints) -> dict[int, tuple[int, ...]]:
    """Ranks of each group in `used`, in that order; groups that are not in `groups` are left out."""
    everyone = {ALL_RANKS: tuple(range(num_npus))} if (used == ALL_RANKS).any() else {}
    known = {**groups, **everyone}
    return {group: known[group] for group in dict.fromkeys(used.tolist()) if group in known}


def is_member(members: Mapping[int, tuple[int, ...]], group: Ints, rank: Ints) -> Bools:
    """bool[len(rank)], whether each rank is in its group; False for groups that `members` does not have."""
    inside = np.zeros(len(group), np.bool_)
    for number in np.unique(group).tolist():
        if number in members:
            where = group == number
            inside[where] = np.isin(rank[where], np.array(members[number], np.int64))
    return inside


def used_groups(run: Run, rows: Ints) -> UsedGroups:
    """The groups of these rows of the workload, of a run whose groups are sound (`rules.refusal.refuse_groups`)."""
    group = group_ids(run.columns)[rows]
    return UsedGroups(group, members_of(run.groups.members, run.network.num_npus, np.unique(group)))


def sorted_position(members: tuple[int, ...], rank: Ints) -> Ints:
    """int64[len(rank)], place of each rank among the group's ranks in ascending order (`pos_in_group`).

    It is the number of the trace of a custom collective that the rank runs.
    """
    return np.searchsorted(np.sort(np.array(members, np.int64)), rank)


def listed_position(members: tuple[int, ...], rank: Ints) -> Ints:
    """int64[len(rank)], place of each rank in the group as its file lists it.

    It is the number by which peers in a custom trace name the rank, and its place in a native ring over some of all ranks.
    """
    order = np.argsort(np.array(members, np.int64), kind="stable")
    listed: Ints = order[np.searchsorted(np.array(members, np.int64)[order], rank)]
    return listed


def plan_numbers(rank: Ints, group: Ints, pattern: Ints) -> tuple[Ints, int]:
    """int64[num_nodes], the plan of each node, equal for nodes that share one; and the number of plans.

    On each rank the first node of a pattern in a group sets the implementation of all later ones (`get_collective_plan`): they
    share a plan. The group of all ranks that is used without a name remembers nothing: its nodes have NO_PLAN.
    """
    plan = np.full(len(rank), NO_PLAN, np.int64)
    shared = np.flatnonzero(group != ALL_RANKS)
    if not shared.size:
        return plan, 0
    first, plan[shared] = row_places(rank[shared], group[shared], pattern[shared])
    return plan, len(first)
