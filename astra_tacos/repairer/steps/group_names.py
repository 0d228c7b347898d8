"""Communicator groups that have numbers for names."""

from __future__ import annotations

from astra_tacos.config.communicator import group_id
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.group_text import ALL_RANKS
from astra_tacos.repairer.step import Step


def number_groups(draft: Draft, log: Log) -> None:
    """Number groups from 1, in comm_group.json and in the nodes that name them.

    ASTRA-sim takes whole numbers of 1 or more, and "" and "0" for all ranks. A group "0" of some of the ranks, or with another
    name, gets a number of its own; "4.0" is 4. One group may have different names on different ranks where its ranks do.
    """
    _canonical(draft, log)
    taken = {int(name) for name in draft.groups if group_id(name) is not None and str(int(name)) == name}
    taken |= {
        int(name) for _, node in draft.collectives() if _is_fine(name := node.get("pg_name") or "") and name not in ALL_RANKS
    }
    everyone = list(range(draft.num_ranks))
    new: dict[str, str] = {}

    def number(name: str) -> str:
        if name not in new:
            new[name] = str(next(number for number in range(1, len(taken) + 2) if number not in taken))
            taken.add(int(new[name]))
        return new[name]

    groups = {}
    for name, members in draft.groups.items():
        if name in ALL_RANKS and sorted(set(members)) == everyone:
            log.add(f"group {name!r} left out of comm_group.json", 'ASTRA-sim reserves "0" for all ranks, which it lists')
        elif _is_fine(name) and name not in ALL_RANKS:
            groups[name] = members
        else:
            groups[number(name)] = members
            log.add(f"group {name!r} became {new[name]}", "ASTRA-sim takes whole numbers of 1 or more")
    zero = {name: set(members) for name, members in draft.groups.items() if name in new and name in ALL_RANKS}
    draft.groups = groups
    for rank, node in draft.collectives():
        name = node.get("pg_name")
        if name is None or (_is_fine(name) and name not in zero):
            continue
        if name in zero and rank not in zero[name]:
            continue  # the rank is not in the group of that name: it means all ranks
        node.set("pg_name", number(name))
        log.add(f"pg_name {name!r} became {new[name]!r}", "ASTRA-sim takes whole numbers", rank, node.id)


def _is_fine(name: str) -> bool:
    return name in ALL_RANKS or (group_id(name) is not None and str(int(name)) == name)


def _canonical(draft: Draft, log: Log) -> None:
    """Write whole numbers as such, in the nodes and in the file: `4.0` and `04` are 4."""
    for rank, node in draft.collectives():
        name = node.get("pg_name")
        if name is not None and (whole := _whole(name)) != name:
            node.set("pg_name", whole)
            log.add(f"pg_name {name!r} became {whole!r}", "ASTRA-sim takes whole numbers", rank, node.id)
    groups = {}
    for name, members in draft.groups.items():
        whole = _whole(name)
        if whole != name and whole not in draft.groups and whole not in groups:
            log.add(f"group {name!r} became {whole}", "ASTRA-sim takes whole numbers of 1 or more")
            groups[whole] = members
        else:
            groups[name] = members
    draft.groups = groups


def _whole(name: str) -> str:
    try:
        number = float(name)
    except ValueError:
        return name
    return str(int(number)) if name.isascii() and 0 <= number < 1 << 31 and number == int(number) else name


STEP = Step("group-names", ("G01", "G05"), number_groups)
