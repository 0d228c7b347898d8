# mypy: ignore-errors
"""Kernels: shortest paths that share the links between them, and logical sends merged into trees of physical ones.

Paths lead away from their source: out of a channel's near end, into its far end.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_NEVER = np.int64(1) << 62


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _push(heap, size, time, npu):
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap[parent, 0] <= time:
            break
        heap[child, 0] = heap[parent, 0]
        heap[child, 1] = heap[parent, 1]
        child = parent
    heap[child, 0] = time
    heap[child, 1] = npu


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _drop_first(heap, size):
    """Take the earliest out of a heap that has `size` entries left after that."""
    time = heap[size, 0]
    npu = heap[size, 1]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if time <= heap[child, 0]:
            break
        heap[parent, 0] = heap[child, 0]
        heap[parent, 1] = heap[child, 1]
        parent = child
    heap[parent, 0] = time
    heap[parent, 1] = npu


@njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _distances(source, far, delay, out_first, out_of, heap, distance, nearest):
    """Dijkstra: the delay of the shortest path to each NPU, and the NPUs by ascending distance; how many can be reached."""
    for npu in range(len(distance)):
        distance[npu] = _NEVER
    distance[source] = 0
    heap[0, 0] = 0
    heap[0, 1] = source
    size = 1
    reached = 0
    while size > 0:
        time = heap[0, 0]
        npu = heap[0, 1]
        size -= 1
        _drop_first(heap, size)
        if time > distance[npu]:
            continue
        nearest[reached] = npu
        reached += 1
        for at in range(out_first[npu], out_first[npu + 1]):
            channel = out_of[at]
            later = time + delay[channel]
            if later < distance[far[channel]]:
                distance[far[channel]] = later
                _push(heap, size, later, far[channel])
                size += 1
    return reached


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def shortest_paths(
    source,
    need_first,
    need,
    is_shared,
    rounds,
    near,
    far,
    delay,
    out_first,
    out_of,
    into_first,
    into,
    up,
    down,
    up_busy,
    down_busy,
    num_links,
    last,
):
    """For each row, the last channel of the path from `source[row]` to each NPU in `need[need_first[row]:need_first[row + 1]]`.

    Also of the paths to the NPUs on the way, so that `last[row]` is a tree. Of equally short ways the one whose links have the
    least to carry is taken, where each need counts, or, if a row's paths are shared, as all are for one chunk, each NPU on the
    way once. Rows of one source should be neighbours, as they share its distances.
    """
    num_npus = len(out_first) - 1
    load = np.zeros(num_links, np.int64)
    needs = np.zeros(num_npus, np.int64)
    distance = np.empty(num_npus, np.int64)
    nearest = np.empty(num_npus, np.int64)
    heap = np.empty((len(far) + 1, 2), np.int64)
    reached = 0
    measured = -1
    for turn in range(len(source) * 2 * rounds):
        # Every round takes each row's paths away, and lays them again.
        row = turn // 2 % len(source)
        lays = turn % 2 == 1
        if not lays and turn < 2 * len(source):
            continue
        if source[row] != measured:
            measured = source[row]
            reached = _distances(source[row], far, delay, out_first, out_of, heap, distance, nearest)
        for at in range(need_first[row], need_first[row + 1]):
            needs[need[at]] += 1
        for at in range(reached - 1, 0, -1):
            npu = nearest[at]
            if needs[npu] == 0:
                continue
            if lays:
                best = -1
                least = _NEVER
                for i in range(into_first[npu], into_first[npu + 1]):
                    channel = into[i]
                    if distance[near[channel]] + delay[channel] != distance[npu]:
                        continue
                    carries = load[up[channel]]
                    if down[channel] >= 0:
                        carries = max(carries, load[down[channel]])
                    if carries < least:
                        least = carries
                        best = channel
                last[row, npu] = best
            used = last[row, npu]
            carries = 1 if is_shared else needs[npu]
            if not lays:
                carries = -carries
            load[up[used]] += carries * up_busy[used]
            if down[used] >= 0:
                load[down[used]] += carries * down_busy[used]
            needs[near[used]] += needs[npu]
            needs[npu] = 0
        needs[source[row]] = 0


@njit(cache=True, nogil=True, no_cfunc_wrapper=True)
def merge(chunk, src, dst, step, channel, row, near, last, out_chunk, out_channel, out_step):
    """Sends over channels instead of paths, so that each chunk comes to each NPU once; how many there are.

    Sends are sorted by chunk, and a chunk comes to an NPU before it leaves it. The path of a send begins at the last NPU on it
    that has the chunk already. The first send of a chunk is from the NPU where it starts out.
    """
    has = np.full(last.shape[1], -1, np.int64)
    made = 0
    for send in range(len(chunk)):
        what = chunk[send]
        if send == 0 or chunk[send - 1] != what:
            has[src[send]] = what
        npu = dst[send]
        used = channel[send]
        while has[npu] != what:
            if used < 0:
                used = last[row[send], npu]
            out_chunk[made] = what
            out_channel[made] = used
            out_step[made] = step[send]
            made += 1
            has[npu] = what
            npu = near[used]
            used = -1
    return made
