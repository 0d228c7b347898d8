"""Timelines of ranks for a page: the ranks that are shown, and their states over time as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.report.rank_states import NO_NODE, Segments
from astra_tacos.run.recording import Nodes, RecordedReplay, Recording

MOST_SEGMENTS = 600_000
"""Largest number of segments of all replays together. Each takes a few bytes in the page, because ranks are similar."""
_ALL_SHOWN = 64
"""Number of ranks up to which each has a row of its own, even if ranks do the same."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a timeline, from top to bottom.

    Parameters
    ----------
    ranks
        The rank whose segments each row shows.
    labels
        The ranks for which each row stands, as text.
    rule
        Sentences that say which ranks are shown, and what was left out.
    """

    ranks: tuple[int, ...]
    labels: tuple[str, ...]
    rule: str


def choose_rows(nodes: Nodes, replays: list[Segments], finish_ns: NDArray[np.int64], most_segments: int = MOST_SEGMENTS) -> Rows:
    """Choose all ranks if they fit on the page, or else a selection; of many ranks, those that do the same share a row.

    Parameters
    ----------
    nodes
        Nodes of the run.
    replays
        States of the ranks in each replay.
    finish_ns
        int64[num_ranks], time at which each rank finishes.
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
    """Ranks as text: `3`, `0-7`, or `0-3, 8, +12` where 12 more are not listed."""
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
    """Groups of ranks that do the same at the same times in all replays, in the order of their first ranks."""
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
    """A key that is equal for ranks with equal nodes in the same order."""
    own = slice(*nodes.rank_first[rank : rank + 2].tolist())
    return b"|".join(column[own].tobytes() for column in (nodes.kind, nodes.pattern, nodes.size_bytes))


def _representatives(nodes: Nodes, groups: list[list[int]], finish_ns: NDArray[np.int64]) -> tuple[list[int], int]:
    """The first rank of each group, the most representative ones first, and the number of kinds of ranks.

    Those are the last and the first rank of each kind to finish, and then ranks at halves, quarters, ... of the list.
    """
    firsts = [group[0] for group in groups]
    kinds: dict[bytes, list[int]] = {}
    for rank in firsts:
        kinds.setdefault(_kind(nodes, rank), []).append(rank)
    chosen = [min(ranks, key=lambda rank: (-finish_ns[rank], rank)) for ranks in kinds.values()]
    chosen += [min(ranks, key=lambda rank: (finish_ns[rank], rank)) for ranks in kinds.values()]
    step = 1 << (len(firsts) - 1).bit_length()
    while step:  # ranks at halves, quarters, ... of the list
        chosen += firsts[::step]
        step //= 2
    return list(dict.fromkeys(chosen)), len(kinds)


def timeline_data(recording: Recording, replays: list[tuple[RecordedReplay, Segments]], rows: Rows) -> dict[str, Any]:
    """The data from which the page's script draws bars.

    Segments of a row follow one another from 0 on, so that their durations determine their times. Indices of nodes count from the
    first node of their rank; -1 means none.

    Parameters
    ----------
    recording
        The recorded run.
    replays
        Replays with the states of their ranks.
    rows
        Ranks to show.
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
    """The entries of some ranks, one rank after another.

    Returns int64[len(ranks) + 1], where the entries of each rank begin, and the index of each entry.
    """
    chosen = np.array(ranks, np.int64)
    counts = first[chosen + 1] - first[chosen]
    begin = np.concatenate(([0], np.cumsum(counts)))
    return begin, np.repeat(first[chosen] - begin[:-1], counts) + np.arange(begin[-1])


def _ids(node_id: NDArray[np.uint64]) -> list[str] | NDArray[np.int64]:
    """Ids as numbers, or as texts if a browser could not represent them exactly as numbers."""
    return [str(node) for node in node_id.tolist()] if node_id.max(initial=0) >= 1 << 53 else node_id.astype(np.int64)
