"""Collectives: patterns and sizes that ASTRA-sim runs, the same ones in one order on all ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from astra_tacos.planner.run_bound import estimate_durations
from astra_tacos.planner.solution import CaseSolution
from astra_tacos.planner.workload import find_workload
from astra_tacos.run.graph.global_order import order_dependencies, order_instances
from astra_tacos.run.run import PATTERN_KEYS
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.workload.mends.mend import mend
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.node import ALL_RANKS, DraftNode, pattern_of_name
from astra_tacos.workload.repairer.rank_nodes import CollectiveKind

_Key = TypeVar("_Key", bound=Hashable)
_STANDS_FOR = {
    CommType.REDUCE: (CommType.REDUCE_SCATTER, "whose ring takes the time of a pipelined Reduce"),
    CommType.GATHER: (CommType.ALL_GATHER, "in which every rank receives what the root of a Gather does"),
    CommType.SCATTER: (CommType.REDUCE_SCATTER, "in which every rank sends what the root of a Scatter does"),
    CommType.REDUCE_SCATTER_BLOCK: (CommType.REDUCE_SCATTER, "which is the same for equal blocks"),
    CommType.BARRIER: (CommType.ALL_REDUCE, "of a byte per rank, in which all ranks wait for one another"),
}
_ASSUMED = 4
"""Dimensions that ASTRA-sim assumes where a node has no `involved_dim`."""


@mend("collective-patterns", "A15")
def mend_patterns(draft: Draft, log: Log) -> None:
    """Read absent patterns from names or other ranks, and let patterns that ASTRA-sim lacks run as others of the same time.

    Reduce and Scatter run as Reduce-Scatter, Gather as All-Gather, a barrier as a small All-Reduce. A Broadcast sends nothing in
    ASTRA-sim and takes its measured duration; without one it runs as the All-Gather of its parts. The pattern of other ranks is
    that at the same place among the collectives of the group, on all ranks that say one there, where they run as many of them.
    """
    absent = any(_is_absent(kind) for nodes in draft.ranks for kind in nodes.collective_kinds())
    alike = _alike(draft, lambda node: node.group) if absent else {}
    patterns = {node: {other.pattern or 0 for other in nodes if not _is_absent(other)} for node, nodes in alike.items()}
    for node in draft.collectives_of(lambda kind: kind.pattern not in PATTERN_KEYS):
        pattern = node.pattern
        if pattern is None or _is_absent(node):
            named, reason = pattern_of_name(node.name), f"its name is {node.name!r}"
            if named is None:
                known = patterns[node]
                named = CommType(max(known)) if len(known) == 1 and max(known) <= max(CommType) else None
                reason = "the same collective on other ranks is one"
            if named is None:
                why = f"a collective without comm_type; neither {node.name!r} nor other ranks tell it"
                raise draft.fault(node, why)
            log.add(f"comm_type became {named.name}", reason, node)
            node.set("comm_type", int(named))
            pattern = int(named)
        if pattern in PATTERN_KEYS:
            continue
        if pattern == CommType.BROADCAST:
            _broadcast(draft, log, node)
        elif 0 <= pattern <= max(CommType):
            _stand_in(draft, log, node, CommType(pattern))
        else:
            raise draft.fault(node, f"comm_type {pattern} is no pattern of the Chakra schema")


def _is_absent(node: DraftNode | CollectiveKind) -> bool:
    return node.pattern is None or node.pattern < 0


def _sequences(draft: Draft, key: Callable[[DraftNode], _Key]) -> dict[tuple[int, _Key], list[DraftNode]]:
    """Collectives of each rank that have one key, in the order in which they are issued."""
    nodes_of: dict[tuple[int, _Key], list[DraftNode]] = {}
    for rank, nodes in enumerate(draft.ranks):
        for node in nodes.issued():
            if node.is_collective:
                nodes_of.setdefault((rank, key(node)), []).append(node)
    return nodes_of


def _alike(draft: Draft, key: Callable[[DraftNode], Hashable]) -> dict[DraftNode, list[DraftNode]]:
    """Each collective with those at its place among the collectives of one key, on all ranks that run as many of them."""
    nodes_of: dict[Hashable, list[DraftNode]] = {}
    for (_, value), nodes in _sequences(draft, key).items():
        for place, node in enumerate(nodes):
            nodes_of.setdefault((value, len(nodes), place), []).append(node)
    return {node: nodes for nodes in nodes_of.values() for node in nodes}


def _broadcast(draft: Draft, log: Log, node: DraftNode) -> None:
    members = draft.members(node.group)
    size = node.size or node.tensor_bytes() or 0
    if node.duration_us or size <= 0 or not members:
        return
    log.add(
        f"BROADCAST of {size:,} bytes became ALL_GATHER of {-(-size // len(members)):,} from each rank",
        "ASTRA-sim sends nothing for a Broadcast, and the node has no duration",
        node,
        is_assumed=True,
    )
    node.set("comm_type", int(CommType.ALL_GATHER))
    node.set("comm_size", -(-size // len(members)))


def _stand_in(draft: Draft, log: Log, node: DraftNode, pattern: CommType) -> None:
    other, why = _STANDS_FOR[pattern]
    log.add(
        f"{pattern.name} became {other.name}, {why}",
        "ASTRA-sim does not run this pattern",
        node,
        is_assumed=pattern != CommType.REDUCE_SCATTER_BLOCK,
    )
    node.set("comm_type", int(other))
    if pattern == CommType.BARRIER:
        node.set("comm_size", max(len(draft.members(node.group) or ()), 1))


@mend("collective-sizes", "A01", "A06")
def find_sizes(draft: Draft, log: Log) -> None:
    """Take the size of a collective that states none from its tensors, or from the same collective on other ranks.

    The same collective is the one at the same place among those of the group and pattern, on ranks that run as many of them.
    """
    if all(_is_known(kind) for nodes in draft.ranks for kind in nodes.collective_kinds()):
        return
    for node, nodes in _alike(draft, lambda node: (node.group, node.pattern or 0)).items():
        if _is_known(node):
            continue
        size, reason = node.tensor_bytes(), "the size of its tensors"
        if size is None:
            peers = [other for other in nodes if _is_known(other)]
            sizes = {other.size for other in peers}
            if len(sizes) != 1:
                raise draft.fault(node, "a collective without a size, and neither its tensors nor other ranks tell it")
            size, reason = sizes.pop(), f"the size of the same collective on rank {peers[0].rank}, node {peers[0].id}"
        given = "absent" if node.size is None else node.size
        log.add(f"comm_size became {size:,}", f"{reason}; it was {given}", node)
        node.set("comm_size", size)


def _is_known(node: DraftNode | CollectiveKind) -> bool:
    return node.size is not None and node.size >= 0


@mend("lonely-collectives", "G08", "A04", "A05")
def drop_idle(draft: Draft, log: Log) -> None:
    """Remove collectives of one rank, and of no bytes; what depended on them depends on what they depended on.

    Nothing moves in them, but ASTRA-sim's native algorithms never end in a group of one, and an All-Gather of 0 bytes stalls.
    """
    nodes = draft.collectives_of(lambda kind: _why_idle(draft, kind) is not None)
    idle = ((node, _why_idle(draft, node)) for node in nodes)
    draft.remove(log, ((node, _pattern_name(node), reason) for node, reason in idle if reason))


def _pattern_name(node: DraftNode) -> str:
    return CommType(node.pattern or 0).name


def _why_idle(draft: Draft, node: DraftNode | CollectiveKind) -> str | None:
    if node.pattern == CommType.BROADCAST:
        return None
    if node.size == 0:
        return "it has 0 bytes: nothing moves"
    members = draft.members(node.group_name or "")
    return f"group {node.group_name} has one rank: nothing moves" if members is not None and len(members) == 1 else None


@mend("matching-collectives", "C01", "C02", "C03")
def match_ranks(draft: Draft, log: Log) -> None:
    """Have all ranks of a group run the same collectives: remove those that a rank lacks, and equalise sizes.

    If all ranks run as many collectives of each pattern, the n-th ones of a pattern belong together, and the largest size counts
    on all ranks (an All-to-All of unequal parts), as ASTRA-sim has one size for all. Otherwise, all others have to run the
    collectives of the rank with the fewest, in its order; what they run in between has no partner and would wait for ever. Ranks
    that have other patterns in another order are refused.
    """
    differing = _differing_groups(draft)
    if not differing:
        return
    sequences = _sequences(draft, lambda node: _one_name(node.group))
    for group in differing:
        nodes_of = {
            rank: [node for node in sequences.get((rank, group), ()) if node.pattern != CommType.BROADCAST]
            for rank in draft.members(group) or ()
            if rank < draft.num_ranks
        }
        _align(draft, log, group, nodes_of)


def _one_name(group: str) -> str:
    """The name of a group, of which the group of all ranks has one."""
    return "" if group in ALL_RANKS else group


def _differing_groups(draft: Draft) -> list[str]:
    """Groups of several ranks that do not run as many collectives of each pattern and size, by name."""
    counts: dict[str, dict[int, Counter[tuple[int, int]]]] = {}
    for rank, nodes in enumerate(draft.ranks):
        for kind, count in nodes.collective_kinds().items():
            of_rank = counts.setdefault(_one_name(kind.group_name or ""), {}).setdefault(rank, Counter())
            if kind.pattern != CommType.BROADCAST:
                of_rank[kind.pattern or 0, kind.size or 0] += count
    groups = []
    for group, of_ranks in sorted(counts.items()):
        members = draft.members(group) or ()
        kinds = [of_ranks.get(rank, Counter()) for rank in members if rank < draft.num_ranks]
        if len(members) > 1 and any(kind != kinds[0] for kind in kinds):
            groups.append(group)
    return groups


def _kind(node: DraftNode) -> tuple[int, ...]:
    return node.pattern or 0, node.size or 0


def _pattern(node: DraftNode) -> tuple[int, ...]:
    return (node.pattern or 0,)


def _align(draft: Draft, log: Log, group: str, nodes_of: dict[int, list[DraftNode]]) -> None:
    fewest = min(nodes_of, key=lambda rank: len(nodes_of[rank]))
    if not nodes_of[fewest]:
        most = max(nodes_of, key=lambda rank: len(nodes_of[rank]))
        raise ConfigError(
            f"{draft.name}: rank {fewest} runs no collective in group {group or 'of all ranks'}, rank {most} runs "
            f"{len(nodes_of[most]):,}: which ranks take part is not known"
        )
    patterns = {rank: Counter(map(_pattern, nodes)) for rank, nodes in nodes_of.items()}
    if all(counts == patterns[fewest] for counts in patterns.values()):
        for pattern in patterns[fewest]:
            _equalise(log, [[node for node in nodes if _pattern(node) == pattern] for nodes in nodes_of.values()])
        return
    for key in (_kind, _pattern):
        model = [key(node) for node in nodes_of[fewest]]
        places = {rank: _subsequence(model, [key(node) for node in nodes]) for rank, nodes in nodes_of.items()}
        if all(place is not None for place in places.values()):
            break
    else:
        rank = next(rank for rank, place in places.items() if place is None)
        raise ConfigError(
            f"{draft.name}: ranks {fewest} and {rank} run different collectives in group {group or 'of all ranks'}: "
            f"{_told(nodes_of[fewest])} and {_told(nodes_of[rank])}"
        )
    for rank, nodes in nodes_of.items():
        kept = set(places[rank] or ())
        why = f"rank {fewest} runs no such collective: it would wait for ever"
        gone = [(node, _pattern_name(node), why) for place, node in enumerate(nodes) if place not in kept]
        draft.remove(log, gone)
    _equalise(log, [[nodes[place] for place in places[rank] or ()] for rank, nodes in nodes_of.items()])


def _equalise(log: Log, nodes_of: list[list[DraftNode]]) -> None:
    """Give the n-th nodes of all ranks the largest size of them."""
    for nodes in zip(*nodes_of, strict=True):
        size = max(node.size or 0 for node in nodes)
        for node in nodes:
            if node.size != size:
                reason = "the ranks of the collective have different sizes: the largest one counts"
                log.set(node, "comm_size", size, reason, is_assumed=True)


def _subsequence(model: Sequence[_Key], keys: Sequence[_Key]) -> list[int] | None:
    """Places of `model` in `keys`, in order; None if it is not contained."""
    places: list[int] = []
    for wanted in model:
        try:
            places.append(keys.index(wanted, places[-1] + 1 if places else 0))
        except ValueError:
            return None
    return places


def _told(nodes: list[DraftNode], most: int = 3) -> str:
    return ", ".join(map(_pattern_name, nodes[:most])) + (", ..." if len(nodes) > most else "")


@mend("involved-dimensions", "A17")
def involve_dimensions(draft: Draft, log: Log) -> None:
    """Write `involved_dim` with an entry per dimension, where ASTRA-sim would read past its end, or no dimension is involved.

    Dimensions that the list lacks are involved, as they are where there is no list.
    """
    count = len(draft.network.dimensions)
    for node in draft.collectives_of(lambda kind: (kind.group_name or "") in ALL_RANKS):
        if node.group not in ALL_RANKS or not count:
            continue
        given = node.get("involved_dim")
        flags = None if given is None else list(given.values)
        if flags is None and count <= _ASSUMED:
            continue
        if flags is not None and len(flags) >= count and any(flags[:count]):
            continue
        new = [*(flags or []), *[True] * count][:count]
        new = new if any(new) else [True] * count
        log.add(f"involved_dim became {new}", f"the network has {count} dimensions, and it was {flags}", node)
        node.set("involved_dim", new)


@mend("collective-order", "C04", "C05", "C06", "C07")
def order_collectives(draft: Draft, log: Log) -> None:
    """Chain the collectives of each rank by control dependencies, in one order for all ranks, where nothing orders them.

    ASTRA-sim runs one collective of a rank at a time, and all ranks of a collective wait for one another. The order is that in
    which a rough simulation starts them. Ranks whose dependencies contradict one another are refused.
    """
    if not draft.found("C04", "C05", "C06", "C07"):
        return
    workload = find_workload(draft.run())
    duration_ns, instance_ns = estimate_durations(workload, tuple(CaseSolution(None) for _ in workload.cases))
    order = order_instances(workload.graph, duration_ns, instance_ns)
    trace = workload.run.workload
    after, before = order_dependencies(workload.graph, order)
    by_id = [nodes.finder() for nodes in draft.ranks]
    for row, needed, rank in zip(after.tolist(), before.tolist(), trace.rank[after].tolist(), strict=True):
        node, other = (by_id[rank](int(trace.node_id[place])) for place in (row, needed))
        if node is None or other is None:
            continue
        node.depend((other.id,))
        log.add(f"waits for node {other.id}", "one order of collectives on all ranks", node)
