"""The number of chunks into which ASTRA-sim cuts a native collective; each chunk is a stream (`system/Sys.cc`).

A custom trace is for a collective of all its positions, or several of some of them, each with its own chunks. A planned run
states this of every trace that it has (`traces` in plan.json), so that the traces can be judged by what they say that they move.
Positions are the places of ranks in the group that runs the trace, in ascending order.

Some algorithms ASTRA-sim frees twice when it ends, so that it may abort after it has printed all cycles. A rank keeps one plan
per communicator group and pattern. In a group of fewer than all ranks the plan frees its list of algorithms
(`system/CollectivePlan.cc`, `~CollectivePlan`), though a list of one entry is that of the system file itself, or the custom trace
of a whole pattern, which the plans of all groups share (`CommunicatorGroup.cc`, `get_collective_plan`; longer lists are replaced
by a new ring). So two groups of a rank that run one pattern free it twice. Whether the memory allocator notices is chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
import numpy as np

from astra_tacos.collective import ROOTED, make_collective
from astra_tacos.collective.collective import MAX_CHUNKS, Collective
from astra_tacos.network.network_config import MAX_NPUS
from astra_tacos.run.groups import ALL_RANKS, group_ids
from astra_tacos.run.run import NATIVE, PATTERN_KEYS, Run
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.own_files import read_own
from astra_tacos.support.units import MAX_SIZE_BYTES

_Position = Annotated[int, msgspec.Meta(ge=0, le=MAX_NPUS)]
_KEYS = ("collective", "size_bytes", "chunks_per_npu", "num_owners", "root", "members")


@dataclass(frozen=True, slots=True)
class TracePart:
    """One collective of a trace; its chunks follow those of the parts before it.

    Parameters
    ----------
    collective, size_bytes, chunks_per_npu
        As for `make_collective`.
    members
        Positions that take part, ascending; the others may pass on what they get.
    root
        Position of the root; None for patterns without.
    num_owners
        As for `make_collective`.
    """

    collective: str
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_SIZE_BYTES)]
    chunks_per_npu: Annotated[int, msgspec.Meta(ge=0, le=MAX_CHUNKS)]
    members: tuple[_Position, ...]
    root: _Position | None = None
    num_owners: _Position | None = None

    def make(self, num_positions: int) -> Collective:
        """The collective, among so many positions.

        Raises
        ------
        ConfigError
            If there is no such collective.
        """
        arguments = self.collective, num_positions, self.size_bytes, self.chunks_per_npu, self.root
        return make_collective(*arguments, self.members, self.num_owners)

    def to_json(self) -> dict[str, Any]:
        """Its parameters."""
        return {key: list(self.members) if key == "members" else getattr(self, key) for key in _KEYS}


@dataclass(frozen=True, slots=True)
class TraceParts:
    """A trace of so many positions, and what it is for; no parts if it moves nothing, None if that is not known."""

    num_positions: int
    parts: tuple[TracePart, ...] | None

    def to_json(self) -> dict[str, Any]:
        """One object for plan.json."""
        parts = None if self.parts is None else [part.to_json() for part in self.parts]
        return {"positions": self.num_positions, "parts": parts}


def part_of(collective: Collective) -> TracePart:
    """The part that a collective is, of a trace with a position for each of its NPUs."""
    is_reduced = collective.name == "all-reduce"
    return TracePart(
        collective.name,
        collective.size_bytes,
        collective.chunks_per_npu,
        tuple(collective.member_npus.tolist()),
        collective.root if collective.name in ROOTED else None,
        collective.num_chunks // collective.chunks_per_npu if is_reduced else None,
    )


class _Trace(msgspec.Struct):
    """An entry of `traces` in `plan.json`."""

    positions: Annotated[int, msgspec.Meta(ge=0, le=MAX_NPUS)]
    parts: tuple[TracePart, ...] | None


class _Plan(msgspec.Struct):
    traces: dict[str, _Trace]


def read_trace_parts(path: Path) -> dict[str, TraceParts]:
    """What the traces of a planned run are for, by prefix.

    Raises
    ------
    ConfigError
        If the file does not say it.
    """
    traces = read_own(path, _Plan, "plan --output").traces
    return {prefix: TraceParts(trace.positions, trace.parts) for prefix, trace in traces.items()}


Shared = dict[CommType, tuple[int, int, int]]
"""By pattern, a rank and two of its groups whose plans share an algorithm."""


def shared_plans(run: Run) -> Shared:
    """The patterns of a run whose algorithm ASTRA-sim frees twice."""
    trace = run.workload
    rows = np.flatnonzero(trace.kind == NodeType.COMM_COLL)
    group = group_ids(run.columns)[rows]
    sizes = {number: len(set(ranks)) for number, ranks in run.groups.members.items()}
    small = np.array([sizes.get(number, 0) for number in group.tolist()], np.int64)
    is_small = (group != ALL_RANKS) & (small > 0) & (small < run.network.num_npus)
    native = {pattern for pattern, key in PATTERN_KEYS.items() if len(run.system.native.get(key, ())) == 1}
    pattern = run.columns.comm_type[rows]
    is_shared = is_small & (run.implementation[rows] == NATIVE) & np.isin(pattern, list(native))
    return twice_freed(trace.rank[rows][is_shared], group[is_shared], pattern[is_shared])


def twice_freed(rank: Ints, group: Ints, pattern: Ints) -> Shared:
    """For each pattern, the first rank with two groups.

    Parameters
    ----------
    rank, group, pattern
        Of plans that do not own their algorithm.
    """
    shared_plans: Shared = {}
    first: dict[tuple[int, int], int] = {}
    plans = np.unique(np.stack((rank, pattern, group)), axis=1)
    for group_id, kind, number in plans.T.tolist():
        before = first.setdefault((group_id, kind), number)
        if before != number:
            shared_plans.setdefault(CommType(kind), (group_id, before, number))
    return shared_plans


class SplitSystem(Protocol):
    """The settings of a system JSON that the number of chunks depends on; `SystemConfig` has them."""

    @property
    def source(self) -> str:
        """Name of the system file, for errors."""

    @property
    def preferred_dataset_splits(self) -> int | None:
        """`preferred-dataset-splits`, if the file has it."""


def why_not_split(system: SplitSystem) -> str | None:
    """Why ASTRA-sim cannot split a collective under a system; None where it can."""
    splits = system.preferred_dataset_splits
    if splits is not None and splits > 0:
        return None
    splits_text = "absent" if splits is None else str(splits)
    return f"preferred-dataset-splits is {splits_text}: the first collective ends ASTRA-sim"


def cut_into_chunks(pattern: str, size_bytes: int, num_npus: int, system: SplitSystem) -> tuple[int, int]:
    """Size in bytes and number of chunks (`Sys::determine_chunk_size`). The last one has this size even if fewer bytes are left.

    Parameters
    ----------
    num_npus
        Number of NPUs of the network, also for a communicator group of fewer.

    Raises
    ------
    ConfigError
        If ASTRA-sim would stop, stall or never end.
    """
    splits = system.preferred_dataset_splits or 0
    if why := why_not_split(system):
        raise ConfigError(f"{system.source}: {why}; set it to 1")
    chunk_bytes = size_bytes // splits
    if pattern != "all-gather" and chunk_bytes < num_npus:
        return num_npus, splits
    if chunk_bytes < 1:
        outcome = "never ends" if size_bytes else "stalls"
        raise ConfigError(
            f"{system.source}: preferred-dataset-splits is {splits}, with which ASTRA-sim {outcome} in an all-gather of "
            f"{size_bytes} bytes; expected a byte per split or more"
        )
    return chunk_bytes, -(-size_bytes // chunk_bytes)


def count_chunks(pattern: str, size_bytes: Ints, num_npus: int, system: SplitSystem) -> Ints:
    """int64[len(size_bytes)], chunks of native collectives of one pattern; 0 for those that `cut_into_chunks` refuses.

    Parameters
    ----------
    size_bytes
        int64[n], sizes of the collectives.
    """
    sizes, which = np.unique(size_bytes, return_inverse=True)
    counts = np.zeros(len(sizes), np.int64)
    for entry, size in enumerate(sizes.tolist()):
        try:
            counts[entry] = cut_into_chunks(pattern, size, num_npus, system)[1]
        except ConfigError:
            continue
    return counts[which.reshape(-1)]
