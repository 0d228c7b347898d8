"""The same collectives on all ranks of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.rank_order import issue_order
from astra_tacos.repairer.step import Step
from astra_tacos.trace.schema import CommType

_Key = tuple[int, ...]


def match_ranks(draft: Draft, log: Log) -> None:
    """Have all ranks of a group run the same collectives: remove those that a rank lacks, and equalise sizes.

    If all ranks run as many collectives of each pattern, the n-th ones of a pattern belong together, and the largest size counts
    on all ranks (an All-to-All of unequal parts), as ASTRA-sim has one size for all. Otherwise, all others have to run the
    collectives of the rank with the fewest, in its order; what they run in between has no partner and would wait for ever. Ranks
    that have other patterns in another order are refused.
    """
    orders = [[node for node in issue_order(nodes) if node.is_collective] for nodes in draft.ranks]
    groups = {node.get("pg_name") or "" for order in orders for node in order}
    for group in sorted(groups):
        members = draft.members(group)
        if members is None:
            continue
        own = {rank: [node for node in orders[rank] if _is_in(node, group)] for rank in members if rank < draft.num_ranks}
        if len(members) < 2 or _agree(own):
            continue
        _align(draft, log, group, own)


def _is_in(node: DraftNode, group: str) -> bool:
    name = node.get("pg_name") or ""
    return (name or "0") == (group or "0") and node.number("comm_type") != CommType.BROADCAST


def _agree(own: dict[int, list[DraftNode]]) -> bool:
    """Whether all ranks run the same collectives, in any order."""
    kinds = [sorted(map(_kind, nodes)) for nodes in own.values()]
    return all(kind == kinds[0] for kind in kinds)


def _kind(node: DraftNode) -> _Key:
    return node.number("comm_type") or 0, node.number("comm_size") or 0


def _pattern(node: DraftNode) -> _Key:
    return (node.number("comm_type") or 0,)


def _align(draft: Draft, log: Log, group: str, own: dict[int, list[DraftNode]]) -> None:
    fewest = min(own, key=lambda rank: len(own[rank]))
    if not own[fewest]:
        most = max(own, key=lambda rank: len(own[rank]))
        raise ConfigError(
            f"{draft.name}: rank {fewest} runs no collective in group {group or 'of all ranks'}, rank {most} runs "
            f"{len(own[most]):,}: which ranks take part is not known"
        )
    patterns = {rank: Counter(map(_pattern, nodes)) for rank, nodes in own.items()}
    if all(counts == patterns[fewest] for counts in patterns.values()):
        for pattern in patterns[fewest]:
            _equalise(log, {rank: [node for node in nodes if _pattern(node) == pattern] for rank, nodes in own.items()})
        return
    for key in (_kind, _pattern):
        model = [key(node) for node in own[fewest]]
        places = {rank: _subsequence(model, [key(node) for node in nodes]) for rank, nodes in own.items()}
        if all(place is not None for place in places.values()):
            break
    else:
        rank = next(rank for rank, place in places.items() if place is None)
        raise ConfigError(
            f"{draft.name}: ranks {fewest} and {rank} run different collectives in group {group or 'of all ranks'}: "
            f"{_told(own[fewest])} and {_told(own[rank])}"
        )
    for rank, nodes in own.items():
        kept = set(places[rank] or ())
        gone = [node for place, node in enumerate(nodes) if place not in kept]
        for node in gone:
            name = CommType(node.number("comm_type") or 0).name
            log.add(f"removed {name}", f"rank {fewest} runs no such collective: it would wait for ever", rank, node.id)
        draft.bypass(rank, gone)
    _equalise(log, {rank: [nodes[place] for place in places[rank] or ()] for rank, nodes in own.items()})


def _equalise(log: Log, own: dict[int, list[DraftNode]]) -> None:
    """Give the n-th nodes of all ranks the largest size of them."""
    for nodes in zip(*own.values(), strict=True):
        size = max(node.number("comm_size") or 0 for node in nodes)
        for rank, node in zip(own, nodes, strict=True):
            if node.number("comm_size") != size:
                reason = "the ranks of the collective have different sizes: the largest one counts"
                log.add(f"comm_size {node.number('comm_size')} became {size}", reason, rank, node.id, is_assumed=True)
                node.set("comm_size", size)


def _subsequence(model: Sequence[_Key], keys: Sequence[_Key]) -> list[int] | None:
    """Places of `model` in `keys`, in order; None if it is not contained."""
    found, at = [], 0
    for wanted in model:
        while at < len(keys) and keys[at] != wanted:
            at += 1
        if at == len(keys):
            return None
        found.append(at)
        at += 1
    return found


def _told(nodes: list[DraftNode], most: int = 3) -> str:
    names = [CommType(node.number("comm_type") or 0).name for node in nodes[:most]]
    return ", ".join(names) + (", ..." if len(nodes) > most else "")


STEP = Step("matching-collectives", ("C01", "C02", "C03"), match_ranks)
