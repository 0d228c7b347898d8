"""Communicator groups that exist and hold the ranks that use them."""

from __future__ import annotations

from collections import Counter

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.group_text import ALL_RANKS
from astra_tacos.repairer.step import Step

_SHOWN = 8


def complete_groups(draft: Draft, log: Log) -> None:
    """Complete comm_group.json: groups that it lacks, ranks that use a group, and no ranks that do not exist.

    A group that the file lacks has the ranks whose nodes name it: that is assumed. A rank that uses a group as often as its
    members do, and is not listed, belongs to it: that is assumed, too. A group that runs a custom collective lists its ranks in
    ascending order, as ASTRA-sim finds their traces by that order.
    """
    for name, members in list(draft.groups.items()):
        _clean(draft, log, name, members)
    uses: dict[str, Counter[int]] = {}
    for rank, node in draft.collectives():
        name = node.get("pg_name") or ""
        if name not in ALL_RANKS:
            uses.setdefault(name, Counter())[rank] += 1
    for name, counts in uses.items():
        if name not in draft.groups:
            ranks = draft.groups[name] = sorted(counts)
            log.add(
                f"group {name} of {_listed(ranks)} added", "nodes name it: assumed to have the ranks that do", is_assumed=True
            )
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
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    return f"rank{'s' * (len(ranks) != 1)} {shown}{f', ... ({len(ranks):,})' if len(ranks) > _SHOWN else ''}"


STEP = Step("group-members", ("G02", "G03", "G04", "G06", "G07"), complete_groups)
