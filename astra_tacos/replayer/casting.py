"""Casts: the collectives of a run, each as a program and the communicator group whose members run it.

A collective node names an implementation: the custom trace for its id, else the one for its pattern, else ASTRA-sim's native
algorithm. In a communicator group (not in the group of all ranks, which nodes without a group name use) the first node of a
pattern that a rank issues decides for all later ones of that pattern (`CommunicatorGroup.cc`, `get_collective_plan`): these nodes
share a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer.collective_program import CollectiveProgram
from astra_tacos.replayer.native import NativeCollective, native_program
from astra_tacos.replayer.workload_actions import check_tags
from astra_tacos.rules.refusal import refuse_custom, refuse_groups, refuse_system
from astra_tacos.run.chunks import count_chunks
from astra_tacos.run.groups import (
    ALL_RANKS,
    NO_PLAN,
    UsedGroups,
    listed_position,
    plan_numbers,
    sorted_position,
    used_groups,
)
from astra_tacos.run.lattice import CompactTrace
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, Run, pattern_key
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools, Ints, Ints32
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import group_by, row_places
from astra_tacos.support.units import NS_PER_US

NO_CAST = -1
NO_LIST = -1
_DIMENSIONS_INVOLVED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Casts:
    """The collectives of a run. A cast is one program run by one group.

    Parameters
    ----------
    members
        Ranks of each group that is used, int64 arrays; entry 0 is the group of all ranks.
    cast_program, cast_group
        int64[num_casts], the entry of each cast in `programs` and in `members`.
    players
        For each cast, the rank that plays each position of the program: int64 arrays.
    custom, native
        int32[num_nodes], the casts of a collective node's custom and native implementations; NO_CAST where there is none, or
        where it cannot be needed.
    native_position
        int32[num_nodes], the position of the node's rank in its native implementation.
    plan, num_plans
        int32[num_nodes], the plan that a node shares with others, NO_PLAN without a group; and the number of plans.
    position
        int32[num_nodes], the position of the node's rank among the ranks of its group in ascending order, in which
        `CommunicatorGroup.cc` sorts them; a peer, in contrast, is an entry of the group in the order of its file.
    """

    programs: tuple[CollectiveProgram, ...]
    members: tuple[Ints, ...]
    cast_program: Ints
    cast_group: Ints
    players: tuple[Ints, ...]
    custom: Ints32
    native: Ints32
    plan: Ints32
    num_plans: int
    position: Ints32
    native_position: Ints32


@dataclass(slots=True)
class _Casting:
    """Collects casts, each distinct program and group once."""

    members: list[Ints]
    ids: list[int]
    programs: list[CollectiveProgram] = field(default_factory=list)
    program_of: dict[object, int] = field(default_factory=dict)
    cast_of: dict[tuple[int, int], int] = field(default_factory=dict)
    players: list[Ints] = field(default_factory=list)
    native_group_of: dict[int, int] = field(default_factory=dict)

    def cast(self, program: int, group: int, positions: Ints | None) -> int:
        if (program, group) not in self.cast_of:
            self.cast_of[program, group] = len(self.cast_of)
            members = self.members[group]
            players = members if self.programs[program].native else np.sort(members)
            self.players.append(players if positions is None else players[positions])
        return self.cast_of[program, group]

    def program(self, case: object, make: Callable[[], CollectiveProgram]) -> int:
        if case not in self.program_of:
            program = make()
            self.program_of[case] = len(self.programs)
            self.programs.append(program)
        return self.program_of[case]

    def native_group(self, group: int) -> int:
        """Entry of `members` for native implementations: in a group of all ranks, positions are ranks."""
        if group == ALL_RANKS or len(self.members[group]) < len(self.members[ALL_RANKS]):
            return group
        if group not in self.native_group_of:
            self.native_group_of[group] = len(self.members)
            self.members.append(self.members[ALL_RANKS])
        return self.native_group_of[group]


def cast_collectives(run: Run) -> Casts:
    """Find the casts of all collective nodes of a run.

    Raises
    ------
    ConfigError
        If a node names a group that does not exist or does not contain its rank, a trace has too few ranks or a node that
        ASTRA-sim cannot run, or a pattern has no implementation.
    ReplayError
        If a node of a trace waits for one that does not exist, or `preferred-dataset-splits` would split a custom collective.
    """
    trace, columns = run.workload, run.columns
    collectives = (trace.kind == NodeType.COMM_COLL) & (not run.system.replay_only)
    refuse_groups(run)
    rows = np.flatnonzero(collectives & np.isin(columns.comm_type, list(PATTERN_KEYS)))
    rank = trace.owner[rows]
    if rows.size:
        refuse_system(run)
    groups = used_groups(run, rows)
    ids, members, group = _entries(run, groups)
    pattern, size = columns.comm_type[rows], trace.size_bytes[rows]
    implementation = run.implementation[rows]
    plan, num_plans = plan_numbers(rank, groups.group, pattern)

    everyone = np.array([len(ranks) == run.network.num_npus for ranks in members])[group]
    position, native_position = _positions(rank, groups, everyone)

    def played(places: Ints, which: Ints) -> Ints | None:
        """The positions that are played if there are nodes of some ranks only, which get their places among these."""
        if trace.owners is None:
            return None
        some, places[which] = np.unique(places[which], return_inverse=True)
        return some

    casting = _Casting(members, ids)
    custom, native = (np.full(trace.num_nodes, NO_CAST, np.int32) for _ in range(2))
    chosen = np.flatnonzero(implementation != NATIVE)
    for case, which in _distinct(implementation[chosen], group[chosen]):
        first = trace.describe_node(int(rows[chosen[which[0]]]))
        some = played(position, chosen[which])
        custom[rows[chosen[which]]] = casting.cast(_custom(run, casting, case, first, some), case[1], some)
    chosen = np.flatnonzero(_may_be_native(plan, num_plans, implementation))
    involved = np.where(group == ALL_RANKS, columns.involved_dims[rows], NO_LIST)
    count = columns.involved_count[rows]
    turn = _turns(run, rows, rank, pattern, everyone)
    for case, which in _distinct(*(column[chosen] for column in (pattern, size, group, involved, count, turn))):
        first = trace.describe_node(int(rows[chosen[which[0]]]))
        some = played(native_position, chosen[which])
        its_group = casting.native_group(case[2])
        native[rows[chosen[which]]] = casting.cast(_native(run, casting, case, first, some), its_group, some)
    spread = np.full((3, trace.num_nodes), NO_PLAN, np.int32)
    spread[:, rows] = plan, position, native_position
    of_casts = np.array(list(casting.cast_of), np.int64).reshape(-1, 2)
    return Casts(
        programs=tuple(casting.programs),
        members=tuple(members),
        cast_program=of_casts[:, 0],
        cast_group=of_casts[:, 1],
        players=tuple(casting.players),
        custom=custom,
        native=native,
        plan=spread[0],
        num_plans=num_plans,
        position=spread[1],
        native_position=spread[2],
    )


def _distinct(*columns: NDArray[Any]) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Each distinct row over some columns, and the indices at which it occurs."""
    if not len(columns[0]):
        return
    row, which = row_places(*columns)
    first, places = group_by(which, np.arange(len(which)), len(row))
    for number, case in enumerate(zip(*(column[row].astype(np.int64).tolist() for column in columns), strict=True)):
        yield case, places[first[number] : first[number + 1]]


def _turns(run: Run, rows: Ints, rank: Ints, pattern: Ints, everyone: Bools) -> Ints:
    """int64[len(rows)], the tree of `doubleBinaryTree` (0 or 1) of each collective's first chunk; 0 for other algorithms.

    The trees alternate over all chunks of the collectives of a pattern that a rank runs among all ranks. The collectives are
    assumed to run in order of ids. ASTRA-sim may cut one chunk more than `preferred-dataset-splits`
    (`Sys::determine_chunk_size`).
    """
    turn, node_id = np.zeros(len(rank), np.int64), run.workload.node_id[rows]
    for number in np.unique(pattern).tolist():
        if "doubleBinaryTree" not in run.system.native.get(pattern_key(number), ()):
            continue
        chosen = np.flatnonzero((pattern == number) & everyone & (run.implementation[rows] == NATIVE))
        in_order = chosen[np.lexsort((node_id[chosen], rank[chosen]))]
        size_bytes = run.workload.size_bytes[rows[in_order]]
        num_chunks = count_chunks(pattern_key(number), size_bytes, run.network.num_npus, run.system)
        before = np.cumsum(num_chunks) - num_chunks
        turn[in_order] = (before - before[np.searchsorted(rank[in_order], rank[in_order])]) % 2
    return turn


def program_of_trace(trace: Trace, source: str) -> CollectiveProgram:
    """The program of a custom collective's trace. A COMP takes its duration, and 1 ns if that is 0 (`CustomAlgorithm.cc`)."""
    return CollectiveProgram(
        source=source,
        rank_first=trace.rank_first,
        node_id=trace.node_id.view(np.int64),
        kind=trace.kind,
        delay_ns=np.maximum(trace.duration_us * NS_PER_US, 1),
        size_bytes=trace.size_bytes,
        peer=trace.peer,
        tag=trace.tag,
        dep_first=trace.dep_first,
        dep=trace.dep,
        native=False,
    )


def _entries(run: Run, groups: UsedGroups) -> tuple[list[int], list[Ints], Ints]:
    """Ids and members of the groups that are used, the group of all ranks first, and the entry of each row's group among them."""
    ids = [ALL_RANKS, *sorted(set(groups.members) - {ALL_RANKS})]
    members = [np.arange(run.network.num_npus), *(np.array(groups.members[number], np.int64) for number in ids[1:])]
    return ids, members, np.searchsorted(ids, groups.group)


def _positions(rank: Ints, groups: UsedGroups, everyone: Bools) -> tuple[Ints, ...]:
    """The position of each row's rank in a custom trace, and in a native algorithm, where positions of all ranks are ranks."""
    custom, native = rank.copy(), rank.copy()
    for number in set(groups.members) - {ALL_RANKS}:
        chosen = np.flatnonzero(groups.group == number)
        custom[chosen] = sorted_position(groups.members[number], rank[chosen])
        some = chosen[~everyone[chosen]]
        native[some] = listed_position(groups.members[number], rank[some])
    return custom, native


def _may_be_native(plan: Ints, num_plans: int, implementation: Ints32) -> Bools:
    """bool[num_rows], whether a row may run a native implementation: its own, or that of a row with which it shares a plan."""
    native_plans = np.zeros(num_plans + 1, np.bool_)
    native_plans[plan[implementation == NATIVE]] = True
    return np.where(plan == NO_PLAN, implementation == NATIVE, native_plans[plan])


def _custom(run: Run, casting: _Casting, case: tuple[int, ...], node: str, some: Ints | None) -> int:
    """Number of the program of a custom collective; `case` is its entry in `run.prefixes` and the group that runs it."""
    name, group = case
    collective = run.collectives[name]
    if isinstance(collective, CompactTrace) and some is not None:
        if collective.num_ranks != len(casting.members[group]):
            mismatch = f"traces of {collective.num_ranks} ranks, but the group of {node} has {len(casting.members[group])}"
            raise ConfigError(f"{collective.prefix}: {mismatch}")
        collective = collective.of_ranks(some)
    assert isinstance(collective, Trace)  # compact ones have owners
    refuse_custom(collective, casting.ids[group], run)
    check_tags(collective)
    if some is not None and collective.owners is None:
        collective = collective.of_ranks(some)
    key = ("custom", name, None if some is None else tuple(some.tolist()))
    return casting.program(key, lambda: program_of_trace(collective, run.prefixes[name]))


def _native(run: Run, casting: _Casting, case: tuple[int, ...], node: str, some: Ints | None) -> int:
    """Number of the program of a native collective.

    A group of fewer than all ranks is one dimension, which runs `ring` if several algorithms are given. The same holds for a
    network that is a list of links, as it has no dimensions.
    """
    pattern, size_bytes, group, involved, count, turn = case
    system, key = run.system, pattern_key(pattern)
    members = casting.members[group]
    num_npus = run.network.num_npus
    everyone = len(members) == num_npus
    sizes = tuple(dimension.size for dimension in run.network.dimensions)
    dimensions = sizes if everyone and sizes else (len(members),)
    positions = None if some is None else tuple(some.tolist())
    flags: tuple[bool, ...] | None = None
    if group == ALL_RANKS and involved != NO_LIST:
        flags = tuple(bool(involved >> dimension & 1) for dimension in range(count))
    elif group == ALL_RANKS and len(dimensions) > _DIMENSIONS_INVOLVED:
        # Without a list ASTRA-sim makes one of four entries, whatever the number of dimensions (`Workload.cc`).
        flags = (True,) * _DIMENSIONS_INVOLVED

    collective = NativeCollective(key, system.native[key], size_bytes, dimensions, num_npus, flags, turn, positions)

    def make() -> CollectiveProgram:
        try:
            return native_program(collective, system)
        except ConfigError as error:
            raise ConfigError(f"{run.workload.prefix}: {node}: {error}") from None

    return casting.program(("native", collective), make)
