"""Timelines of ranks for a page: the ranks shown and their states over time, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.report.rank_states import NO_NODE, Segments
from astra_tacos.run.recording import Nodes, RecordedReplay, Recording

MOST_SEGMENTS = 600_000
"""Of all replays together; some bytes each in the page, as those of one rank are much like those of the next."""
_ALL_SHOWN = 64
"""Up to here no ranks are put together, even if they do the same."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Ranks that a timeline shows, from top to bottom.

    Parameters
    ----------
    ranks
        One of each row.
    labels
        The ranks that it stands for, as text.
    rule
        Which ranks these are, and what was left out, in words.
    """

    ranks: tuple[int, ...]
    labels: tuple[str, ...]
    rule: str


def choose_rows(nodes: Nodes, replays: list[Segments], finish_ns: NDArray[np.int64], most_segments: int = MOST_SEGMENTS) -> Rows:
    """All ranks if they fit on the page, with ranks of equal states at all times as one row; otherwise a selection of them.

    Parameters
    ----------
    nodes
        Nodes of the run.
    replays
        The states of ranks in each replay.
    finish_ns
        int64[num_ranks], when each rank is done.
    most_segments
        Largest number of segments on the page.
    """
    num_ranks = nodes.num_ranks
    groups = [[rank] for rank in range(num_ranks)] if num_ranks <= _ALL_SHOWN else _same(num_ranks, replays, nodes)
    sizes = np.sum([np.diff(segments.rank_first) for segments in replays], axis=0)
    total = int(sum(sizes[group[0]] for group in groups))
    if total <= most_segments:
        rule = "Every rank is a row."
        if len(groups) < num_ranks:
            rule = (
                f"All {num_ranks:,} ranks are shown; those that do the same at the same times share one of {len(groups):,} rows."
            )
        return Rows(tuple(group[0] for group in groups), tuple(map(_label, groups)), rule)
    chosen, kinds = _representatives(nodes, groups, finish_ns)
    room = int(np.searchsorted(np.cumsum(sizes[chosen]), most_segments, side="right"))
    shown = sorted(chosen[: max(room, 1)])
    of_rank = {group[0]: group for group in groups}
    rule = (
        f"Of {num_ranks:,} ranks, {len(shown):,} are rows, as many as the page can hold: of each of the {kinds:,} kinds of "
        "ranks (the same nodes in the same order) the first and the last to finish, then others at equal distances. "
        "The picture above is of all ranks."
    )
    return Rows(tuple(shown), tuple(_label(of_rank[rank]) for rank in shown), rule)


def _label(ranks: list[int]) -> str:
    """`3`, `0-7`, or `0-3, 8, +12`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    rest = sum(last - first + 1 for first, last in runs[2:])
    return ", ".join(texts[:2]) + (f", +{rest:,}" if rest else "")


def _same(num_ranks: int, replays: list[Segments], nodes: Nodes) -> list[list[int]]:
    """Ranks that do the same at the same times, in all replays, in order of the first."""
    groups: dict[bytes, list[int]] = {}
    for rank in range(num_ranks):
        parts = [_kind(nodes, rank)]
        for segments in replays:
            own = slice(*segments.rank_first[rank : rank + 2].tolist())
            found = (segments.compute[own], segments.communication[own])
            parts += [segments.end_ns[own].tobytes(), segments.state[own].tobytes()]
            parts += [np.where(node >= 0, node - nodes.rank_first[rank], NO_NODE).tobytes() for node in found]
        groups.setdefault(b"|".join(parts), []).append(rank)
    return list(groups.values())


def _kind(nodes: Nodes, rank: int) -> bytes:
    """What is the same of ranks whose nodes are the same in the same order."""
    own = slice(*nodes.rank_first[rank : rank + 2].tolist())
    return b"|".join(column[own].tobytes() for column in (nodes.kind, nodes.pattern, nodes.size_bytes))


def _representatives(nodes: Nodes, groups: list[list[int]], finish_ns: NDArray[np.int64]) -> tuple[list[int], int]:
    """The first ranks of all groups, those first that stand for others best, and how many kinds of ranks there are."""
    firsts = [group[0] for group in groups]
    kinds: dict[bytes, list[int]] = {}
    for rank in firsts:
        kinds.setdefault(_kind(nodes, rank), []).append(rank)
    chosen = [min(ranks, key=lambda rank: (-finish_ns[rank], rank)) for ranks in kinds.values()]
    chosen += [min(ranks, key=lambda rank: (finish_ns[rank], rank)) for ranks in kinds.values()]
    step = 1 << (len(firsts) - 1).bit_length()
    while step:  # halves, quarters, ...
        chosen += firsts[::step]
        step //= 2
    return list(dict.fromkeys(chosen)), len(kinds)


def timeline_data(recording: Recording, replays: list[tuple[RecordedReplay, Segments]], rows: Rows) -> dict[str, Any]:
    """What the page's script makes bars of.

    Segments of a row follow one another from 0 on, so that durations say when they are. Nodes are counted from the first of their
    rank, -1 for none.
    """
    nodes = recording.nodes
    first, own = _gathered(nodes.rank_first, rows.ranks)
    names = [nodes.name[own], nodes.group[own], *(replay.algorithm[own] for replay, _ in replays)]
    used, entries = np.unique(np.concatenate(names), return_inverse=True)
    texts = ["" if entry < 0 else recording.texts[entry] for entry in used.tolist()]
    name, group, *algorithms = np.split(entries.reshape(-1), len(names))
    return {
        "labels": list(rows.labels),
        "texts": texts,
        "nodes": {
            "first": first,
            "id": _ids(nodes.node_id[own]),
            "kind": nodes.kind[own],
            "pattern": nodes.pattern[own],
            "size": nodes.size_bytes[own],
            "group": group,
            "name": name,
        },
        "replays": [
            _segment_data(nodes, segments, rows) | {"algorithm": algorithm}
            for (_, segments), algorithm in zip(replays, algorithms, strict=True)
        ],
    }


def _segment_data(nodes: Nodes, segments: Segments, rows: Rows) -> dict[str, Any]:
    first, own = _gathered(segments.rank_first, rows.ranks)
    base = nodes.rank_first[segments.rank[own]]
    compute, communication = segments.compute[own], segments.communication[own]
    return {
        "first": first,
        "duration": segments.end_ns[own] - segments.start_ns[own],
        "state": segments.state[own],
        "compute": np.where(compute >= 0, compute - base, -1),
        "communication": np.where(communication >= 0, communication - base, -1),
    }


def _gathered(first: NDArray[np.int64], ranks: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the entries of some ranks begin, one after another, and which these are."""
    chosen = np.array(ranks, np.int64)
    counts = first[chosen + 1] - first[chosen]
    begin = np.concatenate(([0], np.cumsum(counts)))
    return begin, np.repeat(first[chosen] - begin[:-1], counts) + np.arange(begin[-1])


def _ids(node_id: NDArray[np.uint64]) -> list[str] | NDArray[np.int64]:
    """Ids as numbers, or as texts where a browser's numbers would not hold them exactly."""
    return [str(node) for node in node_id.tolist()] if node_id.max(initial=0) >= 1 << 53 else node_id.astype(np.int64)
