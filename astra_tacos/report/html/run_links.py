"""Data of the use of links for a page: by source and destination, and sorted from the busiest link to the idlest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.recording import RecordedReplay, Recording

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
    dimensions = np.unique(last.link_dimension).tolist()
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
                "links": int((last.link_dimension == number).sum()),
                "curves": [_curve(share[last.link_dimension == number]) for share in shares],
                "mean": [float(share[last.link_dimension == number].mean()) for share in shares],
                "most": [float(share[last.link_dimension == number].max()) for share in shares],
                "bytes": [int(replay.link_bytes[last.link_dimension == number].sum()) for replay in replays],
            }
            for number in dimensions
        ],
        "busiest": {
            "link": [_name(recording, last, link) for link in busiest.tolist()],
            "dimension": last.link_dimension[busiest],
            "bytes": [replay.link_bytes[busiest] for replay in replays],
            "share": [share[busiest] for share in shares],
        },
    }


def _name(recording: Recording, replay: RecordedReplay, link: int) -> str:
    return f"{_device(recording, int(replay.link_src[link]))} → {_device(recording, int(replay.link_dst[link]))}"


def _device(recording: Recording, device: int) -> str:
    return str(device) if device < recording.num_npus else f"switch {device}"


def _blocks(recording: Recording, replay: RecordedReplay) -> tuple[list[str], NDArray[np.int64], int]:
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


def _matrix(share: NDArray[np.float64], place: NDArray[np.int64], size: int) -> dict[str, Any]:
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


def _curve(share: NDArray[np.float64]) -> NDArray[np.float32]:
    """Shares in descending order, float32; of many links, at `_CURVE_POINTS` evenly spaced places."""
    ordered = -np.sort(-share)
    if len(ordered) <= _CURVE_POINTS:
        return ordered.astype(np.float32)
    at = np.linspace(0, len(ordered) - 1, _CURVE_POINTS).round().astype(np.int64)
    curve: NDArray[np.float32] = ordered[at].astype(np.float32)
    return curve
