"""Sizes of collectives that are absent or negative."""

from __future__ import annotations

from astra_tacos.errors import ConfigError
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft
from astra_tacos.repairer.node import DraftNode
from astra_tacos.repairer.rank_order import issue_order
from astra_tacos.repairer.step import Step


def find_sizes(draft: Draft, log: Log) -> None:
    """Take the size of a collective that states none from its tensors, or from the same collective on other ranks.

    The same collective is the one at the same place among those of the group and pattern, on ranks that run as many of them.
    """
    if all(_is_known(node) for _, node in draft.collectives()):
        return
    sequences = _sequences(draft)
    for (rank, group, pattern), nodes in sequences.items():
        for place, node in enumerate(nodes):
            if _is_known(node):
                continue
            size, reason = node.tensor_bytes(), "the size of its tensors"
            if size is None:
                peers = [
                    (other, theirs[place])
                    for (other, *key), theirs in sequences.items()
                    if key == [group, pattern] and len(theirs) == len(nodes) and _is_known(theirs[place])
                ]
                sizes = {there.number("comm_size") for _, there in peers}
                if len(sizes) != 1:
                    raise ConfigError(
                        f"{draft.name}.{rank}.et node {node.id}: a collective without a size, and neither its tensors nor other "
                        "ranks tell it"
                    )
                size, reason = sizes.pop(), f"the size of the same collective on rank {peers[0][0]}, node {peers[0][1].id}"
            given = node.number("comm_size")
            log.add(f"comm_size became {size:,}", f"{reason}; it was {'absent' if given is None else given}", rank, node.id)
            node.set("comm_size", size)


def _is_known(node: DraftNode) -> bool:
    return (node.number("comm_size") or 0) >= 0 and node.number("comm_size") is not None


def _sequences(draft: Draft) -> dict[tuple[int, str, int], list[DraftNode]]:
    """Collectives of each rank, group and pattern, in order."""
    found: dict[tuple[int, str, int], list[DraftNode]] = {}
    for rank, nodes in enumerate(draft.ranks):
        for node in issue_order(nodes):
            if node.is_collective:
                key = rank, node.get("pg_name") or "", node.number("comm_type") or 0
                found.setdefault(key, []).append(node)
    return found


STEP = Step("collective-sizes", ("A01", "A06"), find_sizes)
