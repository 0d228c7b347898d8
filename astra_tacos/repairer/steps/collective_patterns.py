"""Patterns that ASTRA-sim runs."""

from __future__ import annotations

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.patterns import pattern_of_name
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
    """Read absent patterns from the nodes' names, and let patterns that ASTRA-sim lacks run as others that take the same time.

    Reduce and Scatter run as Reduce-Scatter, Gather as All-Gather, a barrier as a small All-Reduce. A Broadcast sends nothing in
    ASTRA-sim and takes its measured duration; without one it runs as the All-Gather of its parts.
    """
    for rank, node in draft.collectives():
        pattern = node.number("comm_type")
        if pattern is None or pattern < 0:
            named = pattern_of_name(node.name)
            if named is None:
                raise ConfigError(
                    f"{draft.name}.{rank}.et node {node.id}: a collective without comm_type, and {node.name!r} names none"
                )
            log.add(f"comm_type became {named.name}", f"its name is {node.name!r}", rank, node.id)
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
