"""The oracle for planned runs: every collective's members end with what its pattern says, and all else is as it was.

It reads the written files only, and knows nothing of how they were made:

- the traces compute, by what their messages say that they move, the collectives that plan.json says they are for, whatever ranks
  that are no members pass on;
- every collective node runs a trace of its own pattern, size, root and ranks, or stays native;
- the nodes of all ranks that run one trace in one group are in one order on every rank, so that those that meet belong together;
- if the run before is given: nodes are the same, with the same compute, messages and collectives, and wait for what they waited;
  where they are not, and say what of the run before they were made of, `scheduled_oracle` judges them by that.

Whether a run goes to its end is for the replay to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from astra_tacos.collective.collective import Collective
from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.run.chunks import TraceParts
from astra_tacos.run.groups import ALL_RANKS, group_ids, members_of
from astra_tacos.run.patterns import COLLECTIVE_NAMES, pattern_name
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Bools, Ints
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.grouping import group_by, row_places
from astra_tacos.verifier.chakra_program import chakra_program
from astra_tacos.verifier.program import verify_trace_of
from astra_tacos.verifier.run_collectives import CollectiveNodes, collective_nodes
from astra_tacos.verifier.scheduled_oracle import Rewriting, has_other_origins, judge_scheduled
from astra_tacos.verifier.trace_conditions import shortest_message
from astra_tacos.verifier.violation import Violation

_KEPT = ("kind", "duration_us", "size_bytes", "peer", "tag")
_KEPT_COLUMNS = ("num_ops", "tensor_size", "comm_priority", "is_cpu_op", "own")


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The oracle's verdict on a planned run.

    Parameters
    ----------
    unchecked
        Traces whose result was not checked, and why.
    rewriting
        How much of the run is not as it was, if its nodes were made of others; None if they are those of the run before, or that
        is not known.
    """

    num_collectives: int
    num_native: int
    num_traces: int
    num_messages: int
    unchecked: tuple[str, ...]
    violations: tuple[Violation, ...]
    rewriting: Rewriting | None = None

    @property
    def proven(self) -> bool:
        """Whether everything was checked and there are no violations."""
        return not self.unchecked and not self.violations


def verify_run(
    after: Run,
    parts: dict[str, TraceParts],
    before: Run | None = None,
    most_messages: int | None = None,
    npu_of_rank: Ints | None = None,
) -> RunVerdict:
    """Judge a planned run.

    Parameters
    ----------
    before
        The run that was planned; None if it is not known. Then nodes have to do what they themselves say.
    most_messages
        Traces with more messages are not looked into; None to look into all.
    npu_of_rank
        int64[num_ranks], where the ranks of the run before are; its traces and groups already have these numbers, but peers and
        roots in its nodes do not. None if they stay where they are.

    Raises
    ------
    ConfigError
        If a file cannot be read again.
    """
    violations: list[Violation] = []
    unchecked: list[str] = []
    collectives_of: dict[int, list[Collective]] = {}
    num_messages = 0
    shortest = shortest_message(_fastest_gibps(after.network))
    for number, (prefix, trace) in enumerate(zip(after.prefixes, after.collectives, strict=True)):
        assert isinstance(trace, Trace)  # compact ones are of compact runs
        count = int(np.count_nonzero(trace.kind == NodeType.COMM_SEND))
        num_messages += count
        trace_parts = parts.get(prefix)
        if trace_parts is None or trace_parts.parts is None:
            unchecked.append(f"{prefix}: no file says which collective the traces are for")
            continue
        if trace.num_ranks != trace_parts.num_positions:
            text = f"{prefix}: traces of {trace.num_ranks} ranks, expected {trace_parts.num_positions}"
            violations.append(Violation("rank-count", text))
            continue
        try:
            collectives_of[number] = [part.make(trace_parts.num_positions) for part in trace_parts.parts]
        except ConfigError as error:
            violations.append(Violation("no-such-collective", f"{prefix}: {error}"))
            continue
        if most_messages is not None and count > most_messages:
            unchecked.append(f"{prefix}: its {count:,} messages are more than {most_messages:,}")
            continue
        problems, is_checked = _check_trace(after.directory / prefix, trace.num_ranks, collectives_of[number], shortest)
        violations += problems
        if not is_checked:
            unchecked.append(f"{prefix}: it does not name the chunks that it moves")
    nodes, rewriting = None, None
    if before is not None:
        moved = np.arange(before.workload.num_ranks) if npu_of_rank is None else npu_of_rank
        place, differences = _compare(before, after, moved)
        first = next(differences, None)
        same_ranks = before.workload.num_ranks == after.workload.num_ranks
        if first is not None and same_ranks and has_other_origins(before, after):
            problems, rewriting = judge_scheduled(before, after, moved)
            violations += problems
        else:
            violations += () if first is None else (first, *differences)
            if place is not None:
                nodes_before = collective_nodes(before, moved)
                nodes = replace(nodes_before, row=place[nodes_before.row])
    if nodes is None:
        nodes = collective_nodes(after)
    violations += _check_nodes(after, nodes, collectives_of)
    violations += _check_sequences(after, nodes)
    is_native = after.implementation[nodes.row] == NATIVE
    counts = len(nodes.row), int(np.count_nonzero(is_native)), len(after.prefixes), num_messages
    return RunVerdict(*counts, tuple(unchecked), tuple(violations), rewriting)


def _check_trace(
    prefix: Path, num_ranks: int, collectives: list[Collective], shortest_bytes: int
) -> tuple[list[Violation], bool]:
    """Violations of one trace by its data, and whether its result could be checked."""
    trace = read_trace(prefix, chunks=True, most_ranks=num_ranks)
    if not collectives:
        program, problems = chakra_program(trace)
        if program.num_messages:
            problems.append(Violation("needless-message", f"{program.num_messages} messages, expected none"))
        return _named(prefix, problems), True
    verdict = verify_trace_of(trace, collectives, shortest_bytes)
    return _named(prefix, verdict.violations), bool(verdict.violations) or verdict.unchecked is None


def _fastest_gibps(network: NetworkConfig) -> float:
    """The bandwidth of the fastest link."""
    rates = [dimension.bandwidth_gibps for dimension in network.dimensions]
    rates += [link.bandwidth_gibps or 0.0 for link in (*network.links, *network.link_overrides)]
    return max(rates)


def _named(prefix: Path, violations: Iterable[Violation]) -> list[Violation]:
    return [replace(violation, message=f"{prefix.name}: {violation.message}") for violation in violations]


def _compare(before: Run, after: Run, moved: Ints) -> tuple[Ints | None, Iterator[Violation]]:
    """The place after of each node before, see `_places`, and violations for nodes that are not what they were.

    `moved` says where the ranks of the run before are now.
    """
    place, lost = _places(before.workload, after.workload)
    return place, iter(lost) if place is None else _differences(before, after, place, moved)


def _differences(before: Run, after: Run, place: Ints, moved: Ints) -> Iterator[Violation]:
    new, old = after.workload, before.workload
    old = replace(old, peer=_renumbered(old.peer, moved))
    columns = replace(before.columns, own=_renumbered(before.columns.own, moved))
    faults = np.zeros(old.num_nodes, np.bool_)
    is_collective = old.kind == NodeType.COMM_COLL
    for name in _KEPT:
        faults |= getattr(old, name) != getattr(new, name)[place]
    for name in _KEPT_COLUMNS:
        faults |= getattr(columns, name) != getattr(after.columns, name)[place]
    faults |= ~is_collective & (old.node_id != new.node_id[place])
    for row in np.flatnonzero(faults).tolist():
        yield Violation("nodes-changed", f"{old.describe_node(row)} differs from the run before", npu=_rank(old, row))
    waiting, awaited = (column[old.dep >= 0] for column in (_owners(old), old.dep))
    waits = np.sort((_owners(new) * new.num_nodes + new.dep)[new.dep >= 0])
    wanted = place[waiting] * new.num_nodes + place[awaited]
    kept = np.append(waits, -1)[np.searchsorted(waits, wanted)] == wanted
    for lost in np.flatnonzero(~kept).tolist():
        text = f"{old.describe_node(int(waiting[lost]))} no longer waits for {old.describe_node(int(awaited[lost]))}"
        yield Violation("dependency-lost", text, npu=_rank(old, int(waiting[lost])))
    extra = np.ones(new.num_nodes, np.bool_)
    extra[place] = False
    for added in np.flatnonzero(extra).tolist():
        yield Violation("nodes-added", f"{new.describe_node(added)} is new", npu=_rank(new, added))


def _renumbered(ranks: Ints, moved: Ints) -> Ints:
    """Ranks under the numbers that they have now; what is none stays."""
    named = (ranks >= 0) & (ranks < len(moved))
    renumbered: Ints = np.where(named, moved[np.where(named, ranks, 0)], ranks)
    return renumbered


def _places(old: Trace, new: Trace) -> tuple[Ints | None, list[Violation]]:
    """int64[nodes before], the row of each node in the run after; None, and why, if ranks or nodes were lost."""
    if old.num_ranks != new.num_ranks:
        return None, [Violation("rank-count", f"{new.num_ranks} ranks, expected {old.num_ranks}")]
    is_short = np.diff(new.rank_first) < np.diff(old.rank_first)
    if is_short.any():
        short = int(np.argmax(is_short))
        return None, [Violation("nodes-changed", f"rank {short} has lost nodes", npu=short)]
    return np.arange(old.num_nodes) + np.repeat(new.rank_first[:-1] - old.rank_first[:-1], np.diff(old.rank_first)), []


def _owners(trace: Trace) -> Ints:
    return np.repeat(np.arange(trace.num_nodes), np.diff(trace.dep_first))


def _rank(trace: Trace, row: int) -> int:
    return int(np.searchsorted(trace.rank_first, row, side="right")) - 1


def _check_nodes(after: Run, nodes: CollectiveNodes, collectives_of: dict[int, list[Collective]]) -> list[Violation]:
    """Violations for nodes whose trace is not for them."""
    trace = after.workload
    in_group = group_ids(after.columns)[nodes.row]
    members = members_of(after.groups.members, after.network.num_npus, np.unique(in_group))
    sorted_members = {number: tuple(sorted(of_group)) for number, of_group in members.items()}
    position = {number: {rank: at for at, rank in enumerate(ranks)} for number, ranks in sorted_members.items()}
    runs = after.implementation[nodes.row], after.columns.comm_type[nodes.row], in_group, trace.rank[nodes.row]
    columns = *runs, nodes.pattern, nodes.size_bytes, nodes.root, nodes.group
    first, place = row_places(*columns)
    wrong: list[str] = []
    for of_first in zip(*(column[first].tolist() for column in columns), strict=True):  # nodes that are alike are judged once
        number, native, group, rank, pattern, size, root, group_key = of_first
        ranks = nodes.members.get(group_key, ())
        if number == NATIVE:
            kept = pattern not in COLLECTIVE_NAMES or (native == pattern and sorted_members.get(group) == ranks)
            wrong.append("" if kept else " runs a native collective of another pattern or group")
            continue
        why = (
            _why_not(collectives_of[number], position.get(group, {}), rank, (pattern, size, root, ranks))
            if number in collectives_of
            else ""
        )
        wrong.append(f" ({pattern_name(pattern)} of {size:,} bytes) runs {after.prefixes[number]}: {why}" if why else "")
    violations: list[Violation] = []
    is_wrong = np.array([why != "" for why in wrong], np.bool_)[place]
    for entry in np.flatnonzero(is_wrong).tolist():
        row = int(nodes.row[entry])
        violations.append(Violation("wrong-collective", trace.describe_node(row) + wrong[place[entry]], npu=_rank(trace, row)))
    return violations


def _why_not(
    collectives: list[Collective], position: dict[int, int], rank: int, instance: tuple[int, int, int, tuple[int, ...]]
) -> str:
    """Why a trace, run by ranks at those positions, is not what a rank's node has to do; "" if it is."""
    pattern, size, root, ranks = instance
    if not collectives:
        return "" if len(ranks) < 2 or size < 1 else "it does nothing"
    candidates = [collective for collective in collectives if position.get(rank, -1) in collective.member_npus]
    if len(candidates) != 1:
        return f"it is for {len(candidates)} collectives of this rank, expected one"
    (collective,) = candidates
    at = [position.get(member, -1) for member in ranks]
    if collective.name != COLLECTIVE_NAMES.get(CommType(pattern)) or collective.size_bytes != size:
        return f"which is for {collective.name} of {collective.size_bytes:,} bytes"
    if collective.member_npus.tolist() != at:
        return f"which is for other ranks than its group's {', '.join(map(str, ranks))}"
    if collective.root is not None and collective.root != position.get(root, -1):
        return f"whose root is not rank {root}"
    return ""


def _check_sequences(after: Run, nodes: CollectiveNodes) -> list[Violation]:
    """Violations where ranks do not agree on the order of nodes that run one trace, or native pattern, in one group.

    Where all collectives are native, as in a run that nobody planned, nothing needs to order them.
    """
    trace, rank_of = after.workload, after.workload.rank
    is_native = bool(np.all(after.implementation[nodes.row] == NATIVE))
    unordered: set[int] = set()
    violations: list[Violation] = []
    groups, of_node = nodes.groups
    ordered = np.zeros(trace.num_nodes, np.bool_)
    ordered[nodes.row] = np.array([len(ranks) > 1 for ranks in groups], np.bool_)[of_node]
    chains: list[Ints] = []
    known: dict[tuple[bytes, ...], tuple[Ints, Ints]] = {}
    for rank in range(trace.num_ranks):
        begin, end = int(trace.rank_first[rank]), int(trace.rank_first[rank + 1])
        first = trace.dep_first[begin : end + 1]
        waits = np.diff(first), trace.dep[first[0] : first[-1]] - begin, ordered[begin:end]
        key = tuple(column.tobytes() for column in waits)  # many ranks have the same dependencies
        if key not in known:
            depth = _depths(*waits)
            known[key] = np.array(list(depth), np.int64), np.flatnonzero(np.diff(list(depth.values())) != 1)
        chain, gaps = known[key]
        chains.append(begin + chain)
        if len(gaps) and is_native:
            unordered.add(rank)
        elif len(gaps):
            node, other = chains[-1][gaps[0] : gaps[0] + 2].tolist()
            text = f"nothing orders {trace.describe_node(node)} and {trace.describe_node(other)}"
            violations.append(Violation("no-order", text, npu=rank))
    identity = np.zeros((2, trace.num_nodes), np.int64)
    identity[:, nodes.row] = of_node, row_places(nodes.pattern, nodes.size_bytes, nodes.root)[1]
    row = np.concatenate(chains)
    in_group, runs = group_ids(after.columns)[row], after.implementation[row]
    earliest, sequence = row_places(in_group, runs, np.where(runs == NATIVE, after.columns.comm_type[row], 0))
    begins, rows = group_by(sequence, row, len(earliest))
    for use in np.argsort(earliest).tolist():
        group, number = int(in_group[earliest[use]]), int(runs[earliest[use]])
        own_rows = rows[begins[use] : begins[use + 1]]
        ranks, times = np.unique(rank_of[own_rows], return_counts=True)
        name = "native collectives" if number == NATIVE else after.prefixes[number]
        if times.min() < times.max():
            violations.append(Violation("out-of-step", f"group {group}: ranks run {name} unequally often"))
            continue
        expected = after.groups.members.get(group, tuple(range(trace.num_ranks)) if group == ALL_RANKS else ())
        if set(ranks.tolist()) != set(expected):
            text = f"group {group}: {len(ranks)} of {len(expected)} ranks run {name}"
            violations.append(Violation("rank-missing", text))
            continue
        turns = own_rows.reshape(len(ranks), -1)
        at = _disagreement(*identity[:, turns]) if unordered.isdisjoint(ranks.tolist()) else None
        if at is not None:
            whom = ", ".join(map(str, groups[identity[0, turns[at]]][:8]))
            text = f"group {group}: {name} meets different collectives of ranks {whom}"
            violations.append(Violation("out-of-step", f"{text} ({trace.describe_node(int(turns[0, at[1]]))})"))
    return violations


def _disagreement(ranks: Ints, identity: Ints) -> tuple[int, int] | None:
    """The first turn, as (rank, turn), at which collectives of the same ranks are different ones; None if there is none.

    Parameters
    ----------
    ranks, identity
        int64[num_ranks, num_turns], numbers of the ranks and of the work of the collective that each rank runs in each turn.
    """
    turn = np.broadcast_to(np.arange(ranks.shape[1]), ranks.shape).ravel()
    first, place = row_places(turn, ranks.ravel())
    differs = identity.ravel() != identity.ravel()[first][place]
    places = first[place[differs]]
    if not len(places):
        return None
    rank, at = np.divmod(places, ranks.shape[1])
    return min(zip(rank.tolist(), at.tolist(), strict=True), key=lambda place: (place[1], place[0]))


def _depths(num_waits: Ints, dep: Ints, counts: Bools) -> dict[int, int]:
    """How many collectives there are on the longest way to each, itself counted; they are in one order if no two are alike.

    Parameters
    ----------
    num_waits, dep
        How many nodes each node of a rank depends on, and which, counted from its first node; others are of no rank.
    counts
        bool[num_nodes], the collectives.
    """
    num_nodes = len(num_waits)
    following: list[list[int]] = [[] for _ in range(num_nodes)]
    waits = [0] * num_nodes
    for row, needed in zip(np.repeat(np.arange(num_nodes), num_waits).tolist(), dep.tolist(), strict=True):
        if 0 <= needed < num_nodes:
            following[needed].append(row)
            waits[row] += 1
    deepest = [0] * num_nodes
    ready = [row for row in range(num_nodes) if not waits[row]]
    depth: dict[int, int] = {}
    while ready:
        row = ready.pop()
        if counts[row]:
            deepest[row] += 1
            depth[row] = deepest[row]
        for later in following[row]:
            deepest[later] = max(deepest[later], deepest[row])
            waits[later] -= 1
            if not waits[later]:
                ready.append(later)
    return dict(sorted(depth.items(), key=lambda entry: entry[1]))
