"""Data of a run's page: the states of ranks over time, and the use of links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.pages.html.page import span
from astra_tacos.pages.rank_states import NO_NODE, Segments
from astra_tacos.run.recording import Nodes, RecordedReplay, Recording
from astra_tacos.support.arrays import Floats, Ints
from astra_tacos.support.grouping import members_of

MOST_SEGMENTS = 600_000
"""Largest number of segments of all replays together. Each takes a few bytes in the page, because ranks are similar."""
_ALL_SHOWN = 64
"""Number of ranks up to which each has a row of its own, even if ranks do the same."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a timeline, from top to bottom."""

    ranks: tuple[int, ...]
    labels: tuple[str, ...]
    rule: str


def choose_rows(nodes: Nodes, replays: list[Segments], finish_ns: Ints, most_segments: int = MOST_SEGMENTS) -> Rows:
    """Choose all ranks if they fit on the page, or else a selection; of many ranks, those that do the same share a row.

    Parameters
    ----------
    finish_ns
        int64[num_ranks], time at which each rank finishes.
    """
    num_ranks = nodes.num_ranks
    groups = [[rank] for rank in range(num_ranks)] if num_ranks <= _ALL_SHOWN else _same(num_ranks, replays, nodes)
    sizes = np.sum([np.diff(segments.rank_first) for segments in replays], axis=0)
    total = int(sum(sizes[group[0]] for group in groups))
    if total <= most_segments:
        rule = "Every rank is a row."
        if nodes.owners:
            rule = f"Every class is a row, named by one of its {nodes.num_alike:,} ranks, which do the same at the same times."
        if len(groups) < num_ranks:
            rule = (
                f"All {num_ranks:,} ranks are shown; those that do the same at the same times share one of {len(groups):,} rows."
            )
        return Rows(tuple(group[0] for group in groups), tuple(_label(nodes, group) for group in groups), rule)
    chosen, kinds = _representatives(nodes, groups, finish_ns)
    room = int(np.searchsorted(np.cumsum(sizes[chosen]), most_segments, side="right"))
    shown = sorted(chosen[: max(room, 1)])
    of_rank = {group[0]: group for group in groups}
    rule = (
        f"Of {num_ranks:,} ranks, {len(shown):,} are rows, as many as the page can hold: of each of the {kinds:,} kinds of "
        "ranks (the same nodes in the same order) the first and the last to finish, then others at equal distances. "
        "The picture above is of all ranks."
    )
    return Rows(tuple(shown), tuple(_label(nodes, of_rank[rank]) for rank in shown), rule)


def _label(nodes: Nodes, ranks: list[int]) -> str:
    """Numbers of ranks as text: `3`, `0-7`, or `0-3, 8, +12` where 12 more are not listed."""
    runs: list[list[int]] = []
    for rank in (nodes.numbers[rank] for rank in ranks):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    rest = sum(last - first + 1 for first, last in runs[2:])
    return ", ".join(span(*run) for run in runs[:2]) + (f", +{rest:,}" if rest else "")


def _same(num_ranks: int, replays: list[Segments], nodes: Nodes) -> list[list[int]]:
    """Groups of ranks that do the same at the same times in all replays, in the order of their first ranks."""
    groups: dict[bytes, list[int]] = {}
    for rank in range(num_ranks):
        parts = [_kind(nodes, rank)]
        for segments in replays:
            span = slice(*segments.rank_first[rank : rank + 2].tolist())
            causes = (segments.compute[span], segments.communication[span])
            parts += [segments.end_ns[span].tobytes(), segments.state[span].tobytes()]
            parts += [np.where(node >= 0, node - nodes.rank_first[rank], NO_NODE).tobytes() for node in causes]
        groups.setdefault(b"|".join(parts), []).append(rank)
    return list(groups.values())


def _kind(nodes: Nodes, rank: int) -> bytes:
    """A key that is equal for ranks with equal nodes in the same order."""
    span = slice(*nodes.rank_first[rank : rank + 2].tolist())
    return b"|".join(column[span].tobytes() for column in (nodes.kind, nodes.pattern, nodes.size_bytes))


def _representatives(nodes: Nodes, groups: list[list[int]], finish_ns: Ints) -> tuple[list[int], int]:
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
    """
    nodes = recording.nodes
    first, rows_shown = members_of(nodes.rank_first, np.array(rows.ranks, np.int64))
    names = [nodes.name[rows_shown], nodes.group[rows_shown], *(replay.algorithm[rows_shown] for replay, _ in replays)]
    used, entries = np.unique(np.concatenate(names), return_inverse=True)
    texts = ["" if entry < 0 else recording.texts[entry] for entry in used.tolist()]
    name, group, *algorithms = np.split(entries.reshape(-1), len(names))
    return {
        "labels": list(rows.labels),
        "texts": texts,
        "nodes": {
            "first": first,
            "id": _ids(nodes.node_id[rows_shown]),
            "kind": nodes.kind[rows_shown],
            "pattern": nodes.pattern[rows_shown],
            "size": nodes.size_bytes[rows_shown],
            "group": group,
            "name": name,
        },
        "replays": [
            _segment_data(nodes, segments, rows) | {"algorithm": algorithm}
            for (_, segments), algorithm in zip(replays, algorithms, strict=True)
        ],
    }


def _segment_data(nodes: Nodes, segments: Segments, rows: Rows) -> dict[str, Any]:
    first, segments_shown = members_of(segments.rank_first, np.array(rows.ranks, np.int64))
    base = nodes.rank_first[segments.rank[segments_shown]]
    compute, communication = segments.compute[segments_shown], segments.communication[segments_shown]
    return {
        "first": first,
        "duration": segments.end_ns[segments_shown] - segments.start_ns[segments_shown],
        "state": segments.state[segments_shown],
        "compute": np.where(compute >= 0, compute - base, -1),
        "communication": np.where(communication >= 0, communication - base, -1),
    }


def _ids(node_id: NDArray[np.uint64]) -> list[str] | Ints:
    """Ids as numbers, or as texts if a browser could not represent them exactly as numbers."""
    return [str(node) for node in node_id.tolist()] if node_id.max(initial=0) >= 1 << 53 else node_id.astype(np.int64)


_MOST_DEVICES = 96
"""Number of devices up to which each has a row and a column of the matrix; more are merged into blocks."""
_MOST_BLOCKS = 64
_MOST_LINKS = 500
_CURVE_POINTS = 201


def link_data(recording: Recording, replays: list[RecordedReplay]) -> dict[str, Any] | None:
    """Matrices, curves by dimension, and the busiest links of replays on one network; None if the network has no links.

    Shares are the time for which a link is busy, divided by the time at which the run ends.
    """
    last = replays[-1]
    if not len(last.link_src):
        return None
    shares = [replay.link_busy_ns / max(replay.run_end_ns, 1) for replay in replays]
    labels, block, size = _blocks(recording, last)
    place = block[last.link_src] * len(labels) + block[last.link_dst]
    dimensions = {number: last.link_dimension == number for number in np.unique(last.link_dimension).tolist()}
    names = recording.shape.split(" x ")
    busiest = np.lexsort((np.arange(len(shares[-1])), -np.maximum.reduce(shares)))[:_MOST_LINKS]
    return {
        "labels": labels,
        "block_size": size,
        "num_links": len(last.link_src),
        "routed": last.links_are_routed,
        "matrices": [_matrix(share, place, len(labels)) for share in shares],
        "dimensions": [
            {
                "name": f"dimension {number}: {names[number]}" if number >= 0 else "all links",
                "links": int(inside.sum()),
                "curves": [_curve(share[inside]) for share in shares],
                "mean": [float(share[inside].mean()) for share in shares],
                "most": [float(share[inside].max()) for share in shares],
                "bytes": [int(replay.link_bytes[inside].sum()) for replay in replays],
            }
            for number, inside in dimensions.items()
        ],
        "busiest": {
            "link": [
                " → ".join(_device(recording, int(end[link])) for end in (last.link_src, last.link_dst)) for link in busiest
            ],
            "dimension": last.link_dimension[busiest],
            "bytes": [replay.link_bytes[busiest] for replay in replays],
            "share": [share[busiest] for share in shares],
        },
    }


def _device(recording: Recording, device: int) -> str:
    return str(device) if device < recording.num_npus else f"switch {device}"


def _blocks(recording: Recording, replay: RecordedReplay) -> tuple[list[str], Ints, int]:
    """Labels of the matrix's rows, the row of each device (int64[num_devices]), and the number of NPUs per row.

    If there are many devices, the NPUs of the innermost dimensions share a row, and so do the switches of each dimension.
    """
    num_npus = recording.num_npus
    num_devices = 1 + max(int(replay.link_src.max()), int(replay.link_dst.max()), num_npus - 1)
    if num_devices <= _MOST_DEVICES:
        return [_device(recording, device) for device in range(num_devices)], np.arange(num_devices), 1
    size = 1
    for dimension in recording.block_sizes:
        if num_npus <= size * _MOST_BLOCKS:
            break
        size *= dimension
    if num_npus > size * _MOST_BLOCKS or size >= num_npus:
        size = -(-num_npus // _MOST_BLOCKS)
    firsts = range(0, num_npus, size)
    labels = [str(first) if size == 1 else f"{first}-{min(first + size, num_npus) - 1}" for first in firsts]
    block = np.arange(num_devices) // size
    for dimension in np.unique(replay.link_dimension).tolist():
        chosen = replay.link_dimension == dimension
        ends = np.unique(np.concatenate((replay.link_src[chosen], replay.link_dst[chosen])))
        switches = ends[ends >= num_npus]
        if len(switches):
            block[switches] = len(labels)
            labels.append(f"switches {dimension}")
    return labels, block, size


def _matrix(share: Floats, place: Ints, size: int) -> dict[str, Any]:
    """Mean share, largest share and number of links of each source and destination, [size, size]; NaN where no link is."""
    count = np.bincount(place, minlength=size * size)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(place, share, minlength=size * size) / count
    most = np.full(size * size, np.nan)
    np.fmax.at(most, place, share)
    return {
        "mean": mean.reshape(size, size).astype(np.float32),
        "most": most.reshape(size, size).astype(np.float32),
        "links": count.reshape(size, size),
    }


def _curve(share: Floats) -> NDArray[np.float32]:
    """Shares in descending order, float32; of many links, at `_CURVE_POINTS` evenly spaced places."""
    ordered = -np.sort(-share)
    if len(ordered) <= _CURVE_POINTS:
        return ordered.astype(np.float32)
    at = np.linspace(0, len(ordered) - 1, _CURVE_POINTS).round().astype(np.int64)
    curve: NDArray[np.float32] = ordered[at].astype(np.float32)
    return curve
