"""The communicator group JSON of ASTRA-sim: `{"1": [0, 2], "2": [1, 3]}`.

Format: ASTRA-sim `workload/Workload.cc` (`initialize_comm_groups`) and `system/CommunicatorGroup.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import describe, read_json_object

MAX_RANK = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class CommunicatorGroups:
    """Members of each communicator group by its id, in the order of the file. The group of all ranks (id 0) is not among them."""

    source: str
    """The file they were read from, as error messages name it."""
    members: Mapping[int, tuple[int, ...]]


def read_communicator_groups(path: str | Path) -> CommunicatorGroups:
    """Read a communicator group JSON.

    Raises
    ------
    ConfigError
        If the file cannot be read, a name is no group id of 1 or more, or its value is no list of distinct ranks.
    """
    path = Path(path)
    members: dict[int, tuple[int, ...]] = {}
    for name, ranks in read_json_object(path).items():
        group = group_id(name)
        if group is None:
            raise ConfigError(f"{path}: found the group {describe(name)}, expected a whole number, 1 or more")
        if group in members:
            raise ConfigError(f"{path}: group {group} is given again as {describe(name)}, expected each group once")
        members[group] = group_members(path, group, ranks)
    return CommunicatorGroups(str(path), members)


def group_members(path: Path, group: int, ranks: object) -> tuple[int, ...]:
    """The ranks of a group, checked.

    Raises
    ------
    ConfigError
        If they are no list of distinct ranks.
    """
    if not isinstance(ranks, list):
        raise ConfigError(f"{path}: group {group} is {describe(ranks)}, expected a list of ranks")
    seen: set[int] = set()
    for index, rank in enumerate(ranks):
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank <= MAX_RANK:
            raise ConfigError(f"{path}: group {group} has {describe(rank)} at {index}, expected a rank")
        if rank in seen:
            raise ConfigError(f"{path}: group {group} has rank {rank} twice, expected each rank once")
        seen.add(rank)
    return tuple(ranks)


def group_id(name: str) -> int | None:
    """The group id in a name of a file or a `pg_name`; None if it is not a decimal number from 1 to 2**31 - 1."""
    if not (name.isascii() and name.isdigit() and len(name.lstrip("0")) <= 10):
        return None
    group = int(name)
    return group if 1 <= group <= MAX_RANK else None
