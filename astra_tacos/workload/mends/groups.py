"""Communicator groups: names, members, and what ASTRA-sim remembers of them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from astra_tacos.rules.trace_view import listed
from astra_tacos.run.groups import group_id
from astra_tacos.run.run import PATTERN_KEYS, looked_up
from astra_tacos.run.system import COMM_KEYS
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import ALL_RANKS, DraftNode, groups_of_text, sound_text

_NAME = "process_group:init"


@mend("process-groups", "G04")
def define_groups(draft: Draft, log: Log) -> None:
    """Take communicator groups from nodes `## process_group:init ##` into comm_group.json.

    Such a node lists, for each group, its name and ranks. No ranks, or all of them, mean the group of all ranks. Groups that the
    file has already stay as they are.
    """
    for node in (node for nodes in draft.ranks for node in nodes.named(_NAME)):
        for name, ranks in (group for text in node.texts() for group in groups_of_text(sound_text(text))):
            if name in draft.groups or name in ALL_RANKS:
                continue
            members = draft.groups[name] = sorted(set(ranks)) or list(range(draft.num_ranks))
            log.add(f"group {name!r} of ranks {members} added to comm_group.json", "the node defines it", node)


@mend("group-names", "G01", "G05")
def number_groups(draft: Draft, log: Log) -> None:
    """Number groups from 1, in comm_group.json and in the nodes that name them.

    ASTRA-sim takes whole numbers of 1 or more, and "" and "0" for all ranks. A group "0" of some of the ranks, or with another
    name, gets a number of its own; "4.0" is 4. One group may have different names on different ranks where its ranks do.
    """
    _canonical(draft, log)
    names = {*draft.groups, *(kind.group_name or "" for nodes in draft.ranks for kind in nodes.collective_kinds())}
    numbered = {name for name in names if _is_number(name)}
    tags = set(map(int, numbered))
    everyone = list(range(draft.num_ranks))
    new: dict[str, str] = {}

    def number(name: str) -> str:
        if name not in new:
            new[name] = str(next(number for number in range(1, len(tags) + 2) if number not in tags))
            tags.add(int(new[name]))
        return new[name]

    groups = {}
    for name, members in draft.groups.items():
        if name in ALL_RANKS and sorted(set(members)) == everyone:
            log.add(f"group {name!r} left out of comm_group.json", 'ASTRA-sim reserves "0" for all ranks, which it lists')
        elif name in numbered:
            groups[name] = members
        else:
            groups[number(name)] = members
            log.add(f"group {name!r} became {new[name]}", "ASTRA-sim takes whole numbers of 1 or more")
    zero = {name: set(members) for name, members in draft.groups.items() if name in new and name in ALL_RANKS}
    draft.groups = groups
    for node in draft.collectives_of(lambda kind: kind.group_name is not None and kind.group_name not in numbered):
        named = node.group_name
        if named is None or named in numbered or (named in ALL_RANKS and node.rank not in zero.get(named, ())):
            continue  # a rank that is not in a group "0" means all ranks by that name
        node.set("pg_name", number(named))
        log.add(f"pg_name {named!r} became {new[named]!r}", "ASTRA-sim takes whole numbers", node)


def _is_number(name: str) -> bool:
    return group_id(name) is not None and str(int(name)) == name


def _canonical(draft: Draft, log: Log) -> None:
    """Write whole numbers as such, in the nodes and in the file: `4.0` and `04` are 4."""
    wholes: dict[str, str] = {}

    def whole_of(name: str | None) -> str | None:
        if name is not None and name not in wholes:
            wholes[name] = _whole(name)
        return wholes.get(name) if name is not None else None

    for node in draft.collectives_of(lambda kind: whole_of(kind.group_name) != kind.group_name):
        name = node.group_name
        number = whole_of(name)
        if number != name:
            node.set("pg_name", number)
            log.add(f"pg_name {name!r} became {number!r}", "ASTRA-sim takes whole numbers", node)
    groups = {}
    for name, members in draft.groups.items():
        number = _whole(name)
        if number != name and number not in draft.groups and number not in groups:
            log.add(f"group {name!r} became {number}", "ASTRA-sim takes whole numbers of 1 or more")
            groups[number] = members
        else:
            groups[name] = members
    draft.groups = groups


def _whole(name: str) -> str:
    try:
        number = float(name)
    except ValueError:
        return name
    return str(int(number)) if name.isascii() and 0 <= number < 1 << 31 and number == int(number) else name


@mend("group-members", "G02", "G03", "G04", "G06", "G07")
def complete_groups(draft: Draft, log: Log) -> None:
    """Complete comm_group.json: groups that it lacks, ranks that use a group, and no ranks that do not exist.

    A group that the file lacks has the ranks whose nodes name it: that is assumed. A rank that uses a group as often as its
    members do, and is not listed, belongs to it: that is assumed, too. A group that runs a custom collective lists its ranks in
    ascending order, as ASTRA-sim finds their traces by that order.
    """
    for name, members in list(draft.groups.items()):
        _clean(draft, log, name, members)
    uses: dict[str, Counter[int]] = {}
    for rank, nodes in enumerate(draft.ranks):
        for kind, count in nodes.collective_kinds().items():
            name = kind.group_name or ""
            if name not in ALL_RANKS:
                uses.setdefault(name, Counter())[rank] += count
    for name, counts in uses.items():
        if name not in draft.groups:
            ranks = draft.groups[name] = sorted(counts)
            reason = "nodes name it: assumed to have the ranks that do"
            log.add(f"group {name} of {_listed(ranks)} added", reason, is_assumed=True)
            continue
        outside = sorted(set(counts) - set(draft.groups[name]))
        inside = {counts[rank] for rank in draft.groups[name]}
        for rank in outside:
            if inside != {counts[rank]}:
                raise ConfigError(
                    f"{draft.name}.{rank}.et: the rank runs {counts[rank]} collectives in group {name}, which holds "
                    f"{_listed(draft.groups[name])}: whether it belongs to it is not known"
                )
            draft.groups[name] = sorted((*draft.groups[name], rank))
            reason = "it runs as many of its collectives as each of its ranks: assumed to belong to it"
            log.add(f"added to group {name}", reason, rank, is_assumed=True)


def _clean(draft: Draft, log: Log, name: str, members: list[int]) -> None:
    once = list(dict.fromkeys(members))
    if len(once) < len(members):
        log.add(f"group {name}: each rank listed once", "ASTRA-sim stalls where a rank is listed twice")
    there = [rank for rank in once if rank < draft.num_ranks]
    if len(there) < len(once):
        gone = _listed([rank for rank in once if rank >= draft.num_ranks])
        log.add(f"group {name}: without {gone}", f"there are {draft.num_ranks:,} ranks", is_assumed=True)
    if draft.custom and there != sorted(there):
        log.add(f"group {name}: ranks in ascending order", "ASTRA-sim finds traces of custom collectives by that order")
        there.sort()
    draft.groups[name] = there


def _listed(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) != 1)} {listed(ranks, 8)}"


@mend("one-plan-per-group", "G09")
def separate_plans(draft: Draft, log: Log) -> None:
    """Copy a group for each further custom collective that its nodes of one pattern name.

    ASTRA-sim remembers one plan per group and pattern: that of the first node.
    """
    if not draft.per_node or not draft.found("G09"):
        return
    first: dict[tuple[str, int], str | None] = {}
    copies: dict[tuple[str, int, str | None], str] = {}
    for node in draft.collectives():
        group, pattern = node.group, node.pattern or 0
        if group in ALL_RANKS:
            continue
        program = _program(draft, node, pattern)
        if first.setdefault((group, pattern), program) == program:
            continue
        key = group, pattern, program
        if key not in copies:
            copies[key] = draft.new_group(list(draft.groups[group]))
            log.add(f"group {copies[key]}: a copy of group {group}", f"for {program or 'the native algorithm'}")
        log.add(f"group {group} became {copies[key]}", "a group remembers one custom collective per pattern", node)
        node.set("pg_name", copies[key])


def _program(draft: Draft, node: DraftNode, pattern: int) -> str | None:
    """The prefix of the custom collective that a node names."""
    program = draft.per_node.get(int(looked_up(np.array([node.id], np.uint64))[0]))
    if program is not None:
        return program
    key = next((key for known, key in PATTERN_KEYS.items() if known == pattern), COMM_KEYS[0])
    entry = draft.system.get(f"{key}-implementation-custom")
    return str(entry[0]) if entry else None


@mend("stream-numbers", "C08")
def group_all_ranks(draft: Draft, log: Log) -> None:
    """Give collectives of all ranks a group of all ranks, where ranks run different numbers of collectives before them.

    ASTRA-sim numbers the collectives without a group by all collectives that the rank has started, so that they never meet. Those
    of a group are numbered by themselves.
    """
    if not draft.found("C08"):
        return
    name = draft.new_group(list(range(draft.num_ranks)))
    for node in draft.collectives():
        if node.group in ALL_RANKS:
            node.set("pg_name", name)
            change = f"became a collective of group {name}, which is all ranks"
            log.add(change, "ranks number them differently otherwise", node)
