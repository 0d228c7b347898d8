"""Checks G: communicator groups, and the nodes that use them."""

from __future__ import annotations

import numpy as np

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.node_facts import NodeFacts
from astra_tacos.rules.rule import Findings, Found, rule
from astra_tacos.rules.trace_view import listed
from astra_tacos.run.chunks import twice_freed
from astra_tacos.run.groups import ALL_RANKS, UNKNOWN, is_member
from astra_tacos.run.patterns import pattern_name
from astra_tacos.run.run import NATIVE, PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.rows import Severity
from astra_tacos.support.units import format_size


@rule("G01", "group id that is not a whole number of 1 or more")
def group_id_bad(facts: Facts) -> Findings:
    """A group's name is not an integer of 1 or more.

    ASTRA-sim reserves 0 for the group of all ranks. It aborts at "0" and negative ids with `Assertion 'id > 0' failed`, at words
    with `std::invalid_argument: stoi` (`CommunicatorGroup.cc`, `set_id`; `workload/Workload.cc`, `initialize_comm_groups`). If
    two names stand for one number ("1" and "01"), it uses the last one.

    Remedy: number the groups from 1. Nodes without pg_name, or with "0", use all ranks.
    """
    yield from facts.problems("group_id", "number the groups from 1")


@rule("G02", "group that is not a list of distinct ranks")
def group_members_bad(facts: Facts) -> Findings:
    """A group is not a list of distinct ranks.

    ASTRA-sim aborts at entries that are not numbers. If a rank is listed twice, it has the first of these positions only: the
    other ranks wait for messages from the second one and stall (`CommunicatorGroup.cc`).

    Remedy: list each rank once, in ascending order.
    """
    yield from facts.problems("group_members", "list each rank once")


@rule("G03", "custom collective in a group not in ascending order")
def group_unsorted(facts: Facts) -> Findings:
    """A group that runs a custom collective does not list its ranks in ascending order.

    ASTRA-sim chooses a rank's trace by its place in the *sorted* list, but converts the positions in that trace into ranks by the
    list *as it is written* (`CommunicatorGroup.cc`, pos_in_group; `CustomAlgorithm.cc`, `convert_algo_rank_to_real_rank`).
    Messages then go to the wrong ranks, and the run aborts or stalls. Native collectives work with any order.

    Remedy: sort the list, and number the positions in the trace by ascending rank.
    """
    used = sorted({group for groups in facts.uses.values() for group in groups} - {ALL_RANKS})
    for group in used:
        members = facts.inputs.groups[group]
        if list(members) != sorted(members):
            message = f"group {group} is [{listed(members)}]: custom collectives need ascending ranks"
            yield Found(message, "sort it", str(facts.inputs.groups_path))


@rule("G04", "unknown group")
def group_unknown(facts: NodeFacts) -> Findings:
    """A node uses a group that does not exist.

    ASTRA-sim exits: `communicator group not found` (`workload/Workload.cc`, `extract_comm_group`).

    Remedy: add the group to the file that `--comm-group` names.
    """
    view = facts.communicating
    group = view.group
    where = view.rows(NodeType.COMM_COLL) & ~np.isin(group, [ALL_RANKS, UNKNOWN, *facts.listed_groups])
    remedy = f"add it to {facts.groups.source}" if facts.groups.is_given else "give a file of groups (--comm-group)"
    yield view.each(where, lambda row: f"uses group {group[row]}, which does not exist", remedy)


@rule("G05", "pg_name that is not a number")
def group_name_bad(facts: NodeFacts) -> Findings:
    """A node's pg_name is not a number.

    ASTRA-sim throws in `std::stoi` (`workload/Workload.cc`, `extract_comm_group`): it aborts at time 0; later, the rank stalls.

    Remedy: set pg_name to the id of a group, or to "" or "0" for all ranks.
    """
    view = facts.communicating
    names = view.columns.group_names
    where = view.rows(NodeType.COMM_COLL) & (view.group == UNKNOWN)
    yield view.each(
        where,
        lambda row: f"pg_name is {names[view.columns.group[row]]!r}, no group's number",
        'write a number, or "" for all ranks',
    )


@rule("G06", "rank outside its group")
def rank_outside(facts: NodeFacts) -> Findings:
    """A rank uses a group that it is not in.

    For a native collective ASTRA-sim aborts with `Assertion 'index_in_ring >= 0' failed` (`RingTopology.cc`); for a custom one it
    looks for the trace `PREFIX.-1.et`. A BROADCAST does not check its group's ranks.

    Remedy: add the rank to the group, or use another group.
    """
    view, members = facts.communicating, facts.groups.members
    group = view.group
    coll = view.rows(NodeType.COMM_COLL) & np.isin(group, list(members))
    coll &= view.columns.comm_type != CommType.BROADCAST
    where = coll & ~is_member(members, np.where(coll, group, ALL_RANKS), view.owner)

    def describe(row: int) -> str:
        return f"uses group {group[row]}, whose ranks are {listed(members[group[row]])}"

    yield view.each(where, describe, "use a group that holds the rank")


@rule("G07", "group beyond the network")
def group_beyond(facts: NodeFacts) -> Findings:
    """A group that is used contains ranks beyond the network.

    ASTRA-sim aborts when one of its ranks sends to such a rank, and stalls when one waits for it.

    Remedy: list ranks from 0 to the number of NPUs minus 1 only.
    """
    view = facts.communicating
    for group in np.unique(view.group[view.rows(NodeType.COMM_COLL)]).tolist():
        beyond = [rank for rank in facts.groups.members.get(group, ()) if rank >= facts.num_npus]
        if beyond:
            message = f"group {group} holds rank {listed(beyond)}, the network has {facts.num_npus:,} NPUs"
            yield Found(message, "take it out", facts.groups.source)


@rule("G08", "native collective in a group of one rank")
def group_of_one(facts: Facts) -> Findings:
    """A native collective in a group of one rank.

    Such a collective has no phases, and ASTRA-sim never notices its end: the rank stalls silently (`system/Sys.cc`,
    `generate_collective`, dataset->active). Custom collectives of one rank do end.

    Remedy: leave the node out.
    """
    view, collectives = facts.workload, facts.collectives
    single = [group for group, members in collectives.members.items() if len(members) == 1]
    rows = collectives.row[np.isin(collectives.group, single) & (collectives.run == NATIVE)]
    group = view.group
    yield view.each(rows, lambda row: f"{view.kind_name(row)} in group {group[row]} of one rank never ends", "leave it out")


@rule("G09", "node that runs the plan of another node")
def plan_clash(facts: Facts) -> Findings:
    """A node runs the collective of another node, because its group remembers one plan per pattern.

    In a communicator group the first node of a pattern decides what all later nodes of that pattern run on that rank: ASTRA-sim
    ignores the per-node traces of later nodes (`CommunicatorGroup.cc`, `get_collective_plan`). Nodes of other sizes then move the
    wrong data. The group of all ranks remembers no plan.

    Remedy: for each distinct trace, add a group of the same ranks under a new id, and use that id as pg_name.
    """
    view, collectives = facts.workload, facts.collectives
    programs = ["the native algorithm", *facts.implementations[0]]
    for entry in np.flatnonzero(collectives.named != collectives.run).tolist():
        planner = collectives.planner[entry]
        pattern, group = pattern_name(collectives.comm_type[entry]), collectives.group[entry]
        sizes = [collectives.size_bytes[which] for which in (entry, planner)]
        names = [programs[collectives.named[which] + 1] for which in (entry, planner)]
        clash = f"runs {names[1]}, which node {view.node(collectives.row[planner])} names, not {names[0]}"
        if sizes[0] != sizes[1]:
            clash += f": made for {format_size(sizes[1])}, not {format_size(sizes[0])}"
        harmless = sizes[0] == sizes[1] and _alike(facts, collectives.named[entry], collectives.run[entry])
        severity = Severity.WARNING if harmless else Severity.ERROR
        remedy = f"copy group {group} under a new id for this collective: ASTRA-sim keeps one plan per group for {pattern}"
        yield view.at(collectives.row[entry], clash, remedy, severity)


@rule("G10", "algorithm freed twice", Severity.WARNING)
def plans_shared(facts: Facts) -> Findings:
    """Two groups of a rank run one pattern by one algorithm, which ASTRA-sim frees twice when it ends.

    The cycles of the run are right. But ASTRA-sim may abort at its end (`free(): invalid pointer`, `malloc_consolidate():
    unaligned fastbin chunk detected`); that depends on the memory allocator alone. A second thread prints the cycles, so the
    abort may come before the line of any rank (`Logging.cc`). The plan of a group of fewer than all ranks frees a list of one
    algorithm, which plans share (`CommunicatorGroup.cc`, `get_collective_plan`; `CollectivePlan.cc`).

    Remedy: start ASTRA-sim by the `run_astra_sim.sh` that `generate`, `plan` and `lint --fix` write. This script gives a logging
    configuration, with which each line is printed at once: all ranks are printed before the abort. Or give the nodes custom
    traces of their own (`plan` does).
    """
    view, collectives, system = facts.workload, facts.collectives, facts.system
    has_own = np.isin(view.trace.node_id[collectives.row[collectives.planner]], list(system.per_node))
    is_shared = np.zeros(len(collectives.row), np.bool_)
    for pattern, key in PATTERN_KEYS.items():
        is_shared |= (collectives.comm_type == pattern) & (key in system.custom or len(system.native.get(key, ())) == 1)
    is_shared &= ~has_own
    is_shared &= ~facts.spans_network(collectives.group)
    columns = (column[is_shared] for column in (collectives.rank, collectives.group, collectives.comm_type))
    for kind, (rank, first, second) in twice_freed(*columns).items():
        message = (
            f"rank {rank} runs {pattern_name(kind)} in groups {first} and {second} by one algorithm, which ASTRA-sim frees twice"
        )
        remedy = "start the run by a run_astra_sim.sh of generate or plan, which prints all ranks before the abort"
        yield Found(f"{message}: ASTRA-sim may abort at its end, before it has printed any rank", remedy)


def _alike(facts: Facts, first: int, second: int) -> bool:
    """Whether two traces have the same number of ranks and move the same number of bytes."""
    if first not in facts.custom or second not in facts.custom:
        return False
    views = [facts.custom[number] for number in (first, second)]
    moved = [view.trace.size_bytes[view.rows(NodeType.COMM_SEND)].clip(0).sum() for view in views]
    return views[0].num_ranks == views[1].num_ranks and moved[0] == moved[1]
