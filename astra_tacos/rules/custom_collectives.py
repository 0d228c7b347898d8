"""Checks T: traces of custom collectives, and whether they fit the nodes that use them."""

from __future__ import annotations

import numpy as np

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.node_facts import NodeFacts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.trace_view import TraceView, listed
from astra_tacos.run.groups import ALL_RANKS
from astra_tacos.run.patterns import pattern_name
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT
from astra_tacos.support.grouping import row_places
from astra_tacos.support.rows import Severity
from astra_tacos.support.units import format_size


def _group_text(group: int) -> str:
    return "the group of all ranks" if group == ALL_RANKS else f"group {group}"


@rule("T01", "no trace for a position")
def too_few_positions(facts: NodeFacts) -> Findings:
    """A custom collective has no trace for some position of a group that uses it.

    ASTRA-sim opens `PREFIX.<position in the group>.et`. If the file does not exist it exits with `Cannot access et file for
    collective algorithm` (`CustomAlgorithm.cc`). A trace is made for one number of ranks.

    Remedy: use a trace that is made for the group's number of ranks.
    """
    for files, group in facts.played:
        size = facts.group_size(group)
        missing = sorted(set(range(size)) - set(files.ranks)) if files.ranks else ()
        if missing:
            message = f"no such file, but {_group_text(group)} has {size:,} ranks: none for position {listed(missing)}"
            yield Found(message, "use a trace for so many ranks", files.file(missing[0]), missing[0])


@rule("T02", "traces beyond the group")
def too_many_positions(facts: Facts) -> Findings:
    """A custom collective has traces for more positions than a group that uses it.

    ASTRA-sim never reads the traces of positions beyond the group. It is an error if other positions exchange messages with them:
    ASTRA-sim uses the position as an index into the group's ranks without a bounds check, so that messages go to arbitrary ranks
    or the run aborts (`CustomAlgorithm.cc`, `convert_algo_rank_to_real_rank`).

    Remedy: use a trace that is made for the group's number of ranks.
    """
    for number, groups in facts.uses.items():
        files = facts.custom_files[number]
        for group in groups:
            size = facts.group_size(group)
            if not files.ranks or files.ranks[-1] < size:
                continue
            message = f"made for {files.ranks[-1] + 1:,} positions, used by {_group_text(group)} of {size:,}"
            severity = Severity.WARNING
            if number in facts.custom:
                view = facts.custom[number]
                beyond = view.sends_or_receives & (view.rank < size) & (view.trace.peer >= size)
                if beyond.any():
                    severity = Severity.ERROR
                    message += f": {beyond.sum():,} messages of its ranks go beyond the group"
            first = next(rank for rank in files.ranks if rank >= size)
            yield Found(message, "use a trace for so many ranks", files.file(first), severity=severity)


@rule("T03", "node kind that ASTRA-sim does not run in custom collectives")
def other_kinds(facts: NodeFacts) -> Findings:
    """A node in a custom collective is not a send, receive or COMP.

    ASTRA-sim issues the node but never finishes it: its rank stalls silently (`CustomAlgorithm.cc`, `issue`).

    Remedy: use COMM_SEND, COMM_RECV and COMP only.
    """
    for view in facts.custom_views:
        where = ~view.rows(NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMP)
        yield view.each(where, "{kind} in a custom collective never ends", "use COMM_SEND, COMM_RECV and COMP")


@rule("T04", "trace made for another size", Severity.WARNING)
def other_size(facts: Facts) -> Findings:
    """A custom collective does not move the amount of data that its node states.

    ASTRA-sim ignores the node's comm_size and sends the messages of the trace (`CustomAlgorithm.cc`): a trace fits one size only.
    If the messages of the trace name their chunks, lint computes the size from these. Otherwise it compares the bytes that all
    ranks receive with the least that the pattern needs. Nodes of joint traces (`plan`) are left to `verify`.

    Remedy: use a trace that is made for this size.
    """
    workload, collectives = facts.workload, facts.collectives
    for number, view in facts.custom.items():
        if view.files.unreadable:
            continue
        buffer = _buffer_bytes(view)
        received = int(view.trace.size_bytes[view.rows(NodeType.COMM_RECV)].clip(0).sum())
        entries = np.flatnonzero((collectives.run == number) & (collectives.size_bytes > 0))
        first, _ = row_places(collectives.comm_type[entries], collectives.size_bytes[entries], collectives.group[entries])
        for entry in entries[first].tolist():
            comm_type, size = int(collectives.comm_type[entry]), int(collectives.size_bytes[entry])
            ranks = facts.group_size(collectives.group[entry])
            if ranks != view.num_ranks:
                continue
            mismatch = _mismatch(comm_type, size, ranks, buffer, received)
            row = collectives.row[entry]
            is_one_of_several = workload.columns.own_group[row] != ABSENT
            if mismatch and not is_one_of_several:
                pattern = f"{pattern_name(comm_type)} of {format_size(size)} on {ranks} ranks"
                yield workload.at(row, f"{pattern} runs {view.files.prefix}, {mismatch}", "use a trace made for this size")


def _buffer_bytes(view: TraceView) -> tuple[int, int] | None:
    """Lower and upper bound on the buffer's bytes, from the chunks that messages name; None if messages name no chunks."""
    chunks = view.trace.chunks
    if chunks is None:
        raise ValueError("the trace has to be read with its chunks")
    moved = chunks.moved
    rows = np.flatnonzero(view.rows(NodeType.COMM_SEND) & (moved > 0) & (chunks.total_chunks > 0))
    if not len(rows) or len(rows) < np.count_nonzero(view.rows(NodeType.COMM_SEND)):
        return None
    chunk_bytes = view.trace.size_bytes[rows] / moved[rows]
    total = int(chunks.total_chunks[rows].max())
    return int(np.floor(chunk_bytes.min() * total)), int(np.ceil(chunk_bytes.max() * total))


def _mismatch(comm_type: int, size: int, ranks: int, buffer: tuple[int, int] | None, received: int) -> str | None:
    gathers = comm_type == CommType.ALL_GATHER
    if buffer is not None:
        # An All-Gather's node states the size of one rank's shard, an All-to-All's what one rank has for all, itself included;
        # converters number the chunks of that or of the whole.
        shares: dict[int, tuple[int, ...]] = {CommType.ALL_GATHER: (1, ranks), CommType.ALL_TO_ALL: (1, ranks - 1, ranks)}
        fits = any(buffer[0] <= size * share <= buffer[1] for share in shares.get(comm_type, (1,)))
        moved = max(buffer) // (ranks if gathers and buffer[0] > size else 1)
        return None if fits else f"whose chunks make up {format_size(moved)}"
    least = (2 if comm_type == CommType.ALL_REDUCE else 1) * (ranks - 1) * size  # of an All-Gather's size as the whole
    slack = ranks * ranks  # for sizes that do not divide evenly
    if received < least - slack:
        return f"whose ranks receive {format_size(received)} in all, less than the {format_size(least)} it takes"
    return None


@rule("T05", "ranks of one collective run different traces")
def different_traces(facts: Facts) -> Findings:
    """Ranks of one collective run different traces, or some run a trace and others a native algorithm.

    ASTRA-sim looks up per-node traces by node id, in one table for all ranks (`CollectiveImplLookup.cc`). If ranks have different
    ids for one collective, or different nodes decided their group's plan, the ranks' messages do not match, and all ranks stall.

    Remedy: give the nodes of one collective the same id on every rank.
    """
    view, collectives = facts.workload, facts.collectives
    if not facts.uses:
        return
    names = ["the native algorithm", *facts.implementations[0]]
    for group in collectives.members:
        entries = np.flatnonzero(collectives.group == group)
        ranks, member = np.unique(collectives.rank[entries], return_inverse=True)
        counts = np.zeros((len(names), len(ranks)), np.int64)
        np.add.at(counts, (collectives.run[entries] + 1, member), 1)
        differs = (counts != counts[:, :1]).any(axis=0)
        if not differs.any() or np.ptp(counts.sum(axis=0)):
            continue  # all run the same, or a rank lacks a node, which C01 reports
        other = np.flatnonzero(differs)[0]
        run = np.argmax(counts[:, other] - counts[:, 0])
        entry = entries[(member == other) & (collectives.run[entries] == run - 1)][0]
        uneven = f"rank {ranks[other]} runs {names[run]} {counts[run, other]} times in {_group_text(group)}"
        message = f"{uneven}, rank {ranks[0]} {counts[run, 0]} times"
        yield view.at(collectives.row[entry], message, "give a collective's nodes the same id on every rank")
