"""The critical path of a replay: the chain of nodes that determined when the run ended.

The replay says of each node what had it issued, and with whose issue the events began that led to its end. From the last node
back to the start of the run, these make a chain without gaps: each stretch of time belongs to the node that ends with it. A
collective is on the path from the issue of the member that it waited for, so what other members wait is not on the path.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tacos.run.recording import COLLECTIVE, KINDS, Nodes, RecordedReplay, Recording
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.arrays import Ints
from astra_tacos.support.units import format_size

_MOST_LONGEST = 10
"""Parts of the path that a summary lists."""


@dataclass(frozen=True, slots=True, eq=False)
class CriticalPath:
    """Stretches of time that follow one another from 0 to the end of the run, without gaps; none is empty.

    Parameters
    ----------
    node
        int64[n], the node whose end ends the stretch.
    origin
        int64[n], the node whose issue begins it: the same one, or another rank's node that it waited for.
    start_ns, end_ns
        int64[n], the stretch.
    """

    node: Ints
    origin: Ints
    start_ns: Ints
    end_ns: Ints

    @property
    def took_ns(self) -> Ints:
        """int64[n], duration of each stretch."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class PathShare:
    """What nodes of one kind (compute, sends, collectives of one pattern and size) add to the path: how often, ns, share."""

    what: str
    kind: str
    count: int
    spent_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class PathSummary:
    """The critical path of a run in figures, for `plan.json` and pages.

    Parameters
    ----------
    shares
        By kind of node, the largest first; their times add up to the length.
    longest
        The longest stretches: rank, id and name of the node, start and duration in ns.
    """

    end_ns: int
    stretches: int
    ranks: tuple[int, ...]
    shares: tuple[PathShare, ...]
    longest: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """The object in `plan.json`."""
        shares = [
            {"what": share.what, "kind": share.kind, "count": share.count, "ns": share.spent_ns, "share": share.share}
            for share in self.shares
        ]
        document = {"end_ns": self.end_ns, "stretches": self.stretches, "ranks": list(self.ranks)}
        return document | {"shares": shares, "longest": list(self.longest)}


def critical_path(replay: RecordedReplay) -> CriticalPath:
    """Follow a replay from its end back to its start.

    Raises
    ------
    ValueError
        If the recorded causes are no chain, as in a damaged file.
    """
    stretches: list[tuple[int, int, int, int]] = []
    now = replay.run_end_ns
    node = int(np.argmax(replay.end_ns)) if len(replay.end_ns) else -1
    left = len(replay.end_ns)
    while node >= 0:
        origin = int(replay.origin[node])
        if origin < 0 or left == 0 or replay.end_ns[node] != now or not 0 <= replay.issue_ns[origin] <= now:
            raise ValueError("what nodes were issued by is no chain")
        start = int(replay.issue_ns[origin])
        if start < now:
            stretches.append((node, origin, start, now))
        now, left = start, left - 1
        node = int(replay.cause[origin])
    if now != 0:
        raise ValueError("what nodes were issued by does not begin with the run")
    columns = np.array(stretches[::-1], np.int64).reshape(-1, 4).T
    return CriticalPath(*columns)


def summarize_path(recording: Recording, replay: RecordedReplay) -> PathSummary:
    """The critical path of one of a recording's replays in figures.

    Raises
    ------
    ValueError
        As for `critical_path`.
    """
    nodes, path = recording.nodes, critical_path(replay)
    spent: Counter[tuple[str, str]] = Counter()
    count: Counter[tuple[str, str]] = Counter()
    for node, took in zip(path.node.tolist(), path.took_ns.tolist(), strict=True):
        activity = KINDS[nodes.kind[node]], describe_kind(nodes, node)
        spent[activity] += took
        count[activity] += 1
    end_ns = max(replay.run_end_ns, 1)
    shares = [
        PathShare(activity[1], activity[0], count[activity], took, round(took / end_ns, 6)) for activity, took in spent.items()
    ]
    rank = nodes.owner
    longest = np.argsort(-path.took_ns, kind="stable")[:_MOST_LONGEST]
    return PathSummary(
        end_ns=replay.run_end_ns,
        stretches=len(path.node),
        ranks=tuple(np.unique(rank[path.node]).tolist()),
        shares=tuple(sorted(shares, key=lambda share: (-share.spent_ns, share.kind, share.what))),
        longest=tuple(
            {
                "rank": int(rank[path.node[at]]),
                "node": int(nodes.node_id[path.node[at]]),
                "name": recording.texts[nodes.name[path.node[at]]] if nodes.name[path.node[at]] >= 0 else "",
                "what": describe_kind(nodes, int(path.node[at])),
                "start_ns": int(path.start_ns[at]),
                "ns": int(path.took_ns[at]),
            }
            for at in longest.tolist()
        ),
    )


def describe_kind(nodes: Nodes, node: int) -> str:
    """What a node is: `compute`, `all-reduce 4 MiB`, `send`."""
    kind = int(nodes.kind[node])
    if kind == COLLECTIVE:
        pattern = CommType(int(nodes.pattern[node])).name.lower().replace("_", "-")
        return f"{pattern} {format_size(int(nodes.size_bytes[node]))}"
    return KINDS[kind]
