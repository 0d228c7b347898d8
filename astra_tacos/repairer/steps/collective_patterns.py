"""Patterns that ASTRA-sim runs."""

from __future__ import annotations

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.patterns import pattern_of_name
from astra_tacos.repairer.rank_order import issue_order
from astra_tacos.repairer.step import Step
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.trace.schema import CommType

_STANDS_FOR = {
    CommType.REDUCE: (CommType.REDUCE_SCATTER, "whose ring takes the time of a pipelined Reduce"),
    CommType.GATHER: (CommType.ALL_GATHER, "in which every rank receives what the root of a Gather does"),
    CommType.SCATTER: (CommType.REDUCE_SCATTER, "in which every rank sends what the root of a Scatter does"),
    CommType.REDUCE_SCATTER_BLOCK: (CommType.REDUCE_SCATTER, "which is the same for equal blocks"),
    CommType.BARRIER: (CommType.ALL_REDUCE, "of a byte per rank, in which all ranks wait for one another"),
}


def mend_patterns(draft: Draft, log: Log) -> None:
    """Read absent patterns from names or other ranks, and let patterns that ASTRA-sim lacks run as others of the same time.

    Reduce and Scatter run as Reduce-Scatter, Gather as All-Gather, a barrier as a small All-Reduce. A Broadcast sends nothing in
    ASTRA-sim and takes its measured duration; without one it runs as the All-Gather of its parts. The pattern of other ranks is
    that at the same place among the collectives of the group, on all ranks that say one there, where they run as many of them.
    """
    # Patterns are asked for before any of them is replaced.
    said = _said_by_ranks(draft) if any(_is_absent(node) for _, node in draft.collectives()) else {}
    for rank, node in draft.collectives():
        pattern = node.number("comm_type")
        if pattern is None or _is_absent(node):
            named = pattern_of_name(node.name)
            reason = f"its name is {node.name!r}"
            if named is None:
                named, reason = _said_elsewhere(draft, said, rank, node), "the same collective on other ranks is one"
            if named is None:
                raise ConfigError(
                    f"{draft.name}.{rank}.et node {node.id}: a collective without comm_type; neither {node.name!r} nor "
                    "other ranks tell it"
                )
            log.add(f"comm_type became {named.name}", reason, rank, node.id)
            node.set("comm_type", int(named))
            pattern = int(named)
        if pattern in PATTERN_KEYS:
            continue
        if pattern == CommType.BROADCAST:
            _broadcast(draft, log, rank, node)
        elif 0 <= pattern <= max(CommType):
            _stand_in(draft, log, rank, node, CommType(pattern))
        else:
            raise ConfigError(f"{draft.name}.{rank}.et node {node.id}: comm_type {pattern} is no pattern of the Chakra schema")


def _is_absent(node: DraftNode) -> bool:
    pattern = node.number("comm_type")
    return pattern is None or pattern < 0


def _of_group(draft: Draft, rank: int, group: str) -> list[DraftNode]:
    """A rank's collectives of a group, in the order in which they are issued."""
    return [node for node in issue_order(draft.ranks[rank]) if node.is_collective and (node.get("pg_name") or "") == group]


def _said_by_ranks(draft: Draft) -> dict[tuple[str, int, int], set[int]]:
    """Patterns that nodes state, by group, by the number of its collectives on the rank, and by place among them."""
    found: dict[tuple[str, int, int], set[int]] = {}
    for nodes in draft.ranks:
        sequences: dict[str, list[DraftNode]] = {}
        for node in issue_order(nodes):
            if node.is_collective:
                sequences.setdefault(node.get("pg_name") or "", []).append(node)
        for group, own in sequences.items():
            for place, node in enumerate(own):
                if not _is_absent(node):
                    found.setdefault((group, len(own), place), set()).add(node.number("comm_type") or 0)
    return found


def _said_elsewhere(draft: Draft, said: dict[tuple[str, int, int], set[int]], rank: int, node: DraftNode) -> CommType | None:
    """The pattern of the same collective on other ranks; None where they say none, several, or one that the schema lacks."""
    group = node.get("pg_name") or ""
    own = _of_group(draft, rank, group)
    place = next(place for place, other in enumerate(own) if other == node)
    patterns = said.get((group, len(own), place), set())
    return CommType(min(patterns)) if len(patterns) == 1 and min(patterns) <= max(CommType) else None


def _broadcast(draft: Draft, log: Log, rank: int, node: DraftNode) -> None:
    members = draft.members(node.get("pg_name"))
    size = node.number("comm_size") or node.tensor_bytes() or 0
    if node.duration_us or size <= 0 or not members:
        return
    log.add(
        f"BROADCAST of {size:,} bytes became ALL_GATHER of {-(-size // len(members)):,} from each rank",
        "ASTRA-sim sends nothing for a Broadcast, and the node has no duration",
        rank,
        node.id,
        is_assumed=True,
    )
    node.set("comm_type", int(CommType.ALL_GATHER))
    node.set("comm_size", -(-size // len(members)))


def _stand_in(draft: Draft, log: Log, rank: int, node: DraftNode, pattern: CommType) -> None:
    other, why = _STANDS_FOR[pattern]
    log.add(
        f"{pattern.name} became {other.name}, {why}",
        "ASTRA-sim does not run this pattern",
        rank,
        node.id,
        is_assumed=pattern != CommType.REDUCE_SCATTER_BLOCK,
    )
    node.set("comm_type", int(other))
    if pattern == CommType.BARRIER:
        node.set("comm_size", max(len(draft.members(node.get("pg_name")) or ()), 1))


STEP = Step("collective-patterns", ("A15",), mend_patterns)
