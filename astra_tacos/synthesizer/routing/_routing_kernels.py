# mypy: ignore-errors
"""Kernels: shortest paths that share the links between them, and logical sends merged into trees of physical ones.

Paths lead away from their source: out of a channel's near end, into its far end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I32_2D, I32_2D_OUT, I32_OUT, I64, kernel
from astra_tacos.support.kernels.shared import nearest_first

_NEVER = np.int64(1) << 62


class Channels(NamedTuple):
    """Channels: near and far end, delay in ns, those by their near end and by their far end (CSR), links and busy times in ns."""

    near: I32
    far: I32
    delay: I64
    out_first: I64  # [num_npus + 1]
    out_of: I64
    into_first: I64  # [num_npus + 1]
    into: I64
    up: I32
    down: I32  # -1 if none
    up_busy: I64
    down_busy: I64


class Wants(NamedTuple):
    """Rows of paths: from `source[row]` to each NPU in `need[need_first[row] : need_first[row + 1]]`.

    `is_shared`: a row's paths are of one chunk, so that a link on several of them carries it once.
    """

    source: I64
    need_first: I64
    need: I64
    is_shared: bool


class Sends(NamedTuple):
    """Sends between NPUs far apart, by chunk, a chunk's in an order in which it comes to an NPU before it leaves it."""

    chunk: I32
    src: I32
    dst: I32
    step: I32
    channel: I32  # -1 if there is none
    row: I32  # of paths


@kernel
def shortest_paths(wants: Wants, rounds: int, channels: Channels, num_links: int, last: I32_2D_OUT):
    """For each row, the last channel of the path from its source to each NPU that it needs.

    Also of the paths to the NPUs on the way, so that `last[row]` is a tree. Of equally short ways the one whose links have the
    least to carry is taken, where each need counts, or, if a row's paths are shared, each NPU on the way once. Rows of one source
    should be neighbours, as they share its distances.

    Parameters
    ----------
    rounds
        How often every path is laid; from the second time on, it knows all others.
    last
        [num_rows, num_npus], the result.
    """
    num_npus = len(channels.out_first) - 1
    load = np.zeros(num_links, np.int64)
    needs = np.zeros(num_npus, np.int64)
    distance = np.empty(num_npus, np.int64)
    nearest = np.empty(num_npus, np.int64)
    edges = (channels.out_first, channels.out_of, channels.far, channels.delay)
    ways = (distance, np.empty(num_npus, np.int64), nearest)
    everyone = np.ones(num_npus, np.bool_)
    heap = (np.empty(len(channels.far) + 1, np.int64), np.empty(len(channels.far) + 1, np.int64))
    reached = 0
    measured = -1
    for turn in range(len(wants.source) * 2 * rounds):
        # Every round takes each row's paths away, and lays them again.
        row = turn // 2 % len(wants.source)
        lays = turn % 2 == 1
        if not lays and turn < 2 * len(wants.source):
            continue
        if wants.source[row] != measured:
            measured = wants.source[row]
            for npu in range(num_npus):
                distance[npu] = _NEVER
            reached = nearest_first(measured, everyone, num_npus, edges, ways, heap)
        for at in range(wants.need_first[row], wants.need_first[row + 1]):
            needs[wants.need[at]] += 1
        for at in range(reached - 1, 0, -1):
            npu = nearest[at]
            if needs[npu] == 0:
                continue
            if lays:
                best = -1
                least = _NEVER
                for i in range(channels.into_first[npu], channels.into_first[npu + 1]):
                    channel = channels.into[i]
                    if distance[channels.near[channel]] + channels.delay[channel] != distance[npu]:
                        continue
                    carries = load[channels.up[channel]]
                    if channels.down[channel] >= 0:
                        carries = max(carries, load[channels.down[channel]])
                    if carries < least:
                        least = carries
                        best = channel
                last[row, npu] = best
            used = last[row, npu]
            carries = 1 if wants.is_shared else needs[npu]
            if not lays:
                carries = -carries
            load[channels.up[used]] += carries * channels.up_busy[used]
            if channels.down[used] >= 0:
                load[channels.down[used]] += carries * channels.down_busy[used]
            needs[channels.near[used]] += needs[npu]
            needs[npu] = 0
        needs[wants.source[row]] = 0


@kernel
def merge(sends: Sends, near: I32, last: I32_2D, chunk: I32_OUT, channel: I32_OUT, step: I32_OUT):
    """Sends over channels instead of paths, so that each chunk comes to each NPU once; how many there are.

    The path of a send begins at the last NPU on it that has the chunk already. The first send of a chunk is from the NPU where
    it starts out.

    Parameters
    ----------
    near, last
        The near end of each channel, and of each row of paths the last channel to each NPU.
    chunk, channel, step
        Results.
    """
    has = np.full(last.shape[1], -1, np.int64)
    made = 0
    for send in range(len(sends.chunk)):
        what = sends.chunk[send]
        if send == 0 or sends.chunk[send - 1] != what:
            has[sends.src[send]] = what
        npu = sends.dst[send]
        used = sends.channel[send]
        while has[npu] != what:
            if used < 0:
                used = last[sends.row[send], npu]
            chunk[made] = what
            channel[made] = used
            step[made] = sends.step[send]
            made += 1
            has[npu] = what
            npu = near[used]
            used = -1
    return made
