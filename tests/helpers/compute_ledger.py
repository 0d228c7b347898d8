"""Computation before and after a repair, node by node, read by protobuf's parser."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from astra_tacos.run.trace.node_bytes import read_messages
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.workload.repairer.draft import Change


def _durations(file: Path) -> list[tuple[int, str, int]]:
    if not file.is_file():
        return []
    return [(n.id, n.name, n.duration_micros) for n in read_messages(file)[1] if n.type == NodeType.COMP]


def unexplained(before: Path, after: Path, changes: Iterable[Change], num_ranks: int) -> list[str]:
    """What a repair did to computation without saying so; `before` and `after` are prefixes of traces."""
    said: dict[int, int] = defaultdict(int)
    touched: set[tuple[int | None, int | None]] = set()
    found: list[str] = []
    for change in changes:
        touched.add((change.rank, change.node))
        if change.rank is not None:
            said[change.rank] += change.compute_us
        elif change.compute_us:
            found.append(f"{change.compute_us} us of no rank: {change.what}")
    for rank in range(num_ranks):
        old, new = (_durations(Path(f"{prefix}.{rank}.et")) for prefix in (before, after))
        difference = sum(us for _, _, us in new) - sum(us for _, _, us in old)
        if difference != said[rank]:
            found.append(f"rank {rank}: {difference} us more, but {said[rank]} us are said")
        lost = Counter((name, us) for number, name, us in old if (rank, number) not in touched)
        lost.subtract(Counter((name, us) for _, name, us in new))
        found += [f"rank {rank}: {name} of {us} us is gone" for (name, us), count in lost.items() if count > 0]
    return found
