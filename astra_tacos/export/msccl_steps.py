"""Schedules as MSCCL steps: the thread block and position of each step, and the steps that it waits for.

An *access* is one end of a send, the reading at its source or the writing at its destination: `2 * send + end`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from astra_tacos.schedule.schedule import Schedule

SEND, RECV = 0, 1
_MAX_BLOCKS_OF_CHANNEL = 32


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """A thread block: `accesses` are its steps without `nop`s; access `2 * send + end` is one end of a send."""

    npu: int
    end: int
    peer: int
    channel: int
    accesses: list[int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Thread blocks with their steps.

    Parameters
    ----------
    blocks, number, num_steps
        Thread blocks by NPU, the id of each at its NPU, and how many steps it has, `nop`s included.
    needs
        Accesses in other thread blocks that each access waits for; all but the last wait takes a `nop` before it.
    block_of, step_of
        Index in `blocks` and step of each access.
    awaited
        Accesses that others wait for.
    """

    blocks: list[ThreadBlock]
    number: list[int]
    num_steps: list[int]
    needs: list[list[int]]
    block_of: list[int]
    step_of: list[int]
    awaited: frozenset[int]

    @property
    def num_channels(self) -> int:
        """Number of MSCCL channels."""
        return max((block.channel for block in self.blocks), default=0) + 1


def lay_out(schedule: Schedule, max_steps: int) -> Layout:
    """Thread blocks of a schedule, of at most `max_steps` steps as far as that is possible."""
    needs = _prerequisites(schedule)
    blocks = _thread_blocks(schedule, needs, max_steps)
    block_of, step_of, num_steps = _steps(blocks, needs)
    first: dict[int, int] = {}
    number = [index - first.setdefault(block.npu, index) for index, block in enumerate(blocks)]
    awaited = frozenset(other for others in needs for other in others)
    return Layout(blocks, number, num_steps, needs, block_of, step_of, awaited)


def _prerequisites(schedule: Schedule) -> list[list[int]]:
    """Accesses that each access has to wait for, except those that messages of its chunk order already.

    In the order of time, a send waits for the last delivery of its chunk, and a delivery for the sends since the one before
    it, or else for that one. So reductions into one chunk never meet.
    """
    num_sends = schedule.num_sends
    rows = np.arange(num_sends)
    access = np.concatenate((2 * rows + RECV, 2 * rows + SEND))
    time = np.concatenate((schedule.done_ns, schedule.start_ns))
    # What arrives at an instant can leave at it, as in the schedule.
    leaves = np.repeat((False, True), num_sends)
    chunk = np.tile(schedule.chunk, 2)
    order = np.lexsort((access, leaves, time, chunk))
    bounds = np.searchsorted(chunk[order], np.arange(schedule.collective.num_chunks + 1))
    events = access[order].tolist()
    src, dst = schedule.src.tolist(), schedule.dst.tolist()
    needs: list[list[int]] = [[] for _ in range(2 * num_sends)]
    for begin, end in pairwise(bounds.tolist()):
        _order_accesses(events[begin:end], src, dst, needs)
    return needs


def _order_accesses(events: list[int], src: list[int], dst: list[int], needs: list[list[int]]) -> None:
    """Fill in the prerequisites of the accesses of one chunk, by time; sets of earlier accesses are integers used as bit sets."""
    bit_of: dict[int, int] = {}
    before_send: dict[int, int] = {}
    delivered: dict[int, int] = {}
    before_next: dict[int, int] = {}
    sent_since: dict[int, list[int]] = {}
    for place, event in enumerate(events):
        bit_of[event] = bit = 1 << place
        send = event >> 1
        if event & 1 == SEND:
            npu = src[send]
            if npu in delivered:
                needs[event].append(delivered[npu])
            before_send[send] = before_next.get(npu, 0) | bit
            sent_since.setdefault(npu, []).append(event)
            continue
        npu = dst[send]
        earlier = sent_since.pop(npu, None) or ([delivered[npu]] if npu in delivered else [])
        before = before_send[send]
        needs[event] += [other for other in earlier if not before & bit_of[other]]
        for other in earlier:
            before |= bit_of[other]
        before_next[npu] = before_next.get(npu, 0) | before | bit
        delivered[npu] = event


def _thread_blocks(schedule: Schedule, needs: list[list[int]], max_steps: int) -> list[ThreadBlock]:
    """Thread blocks by NPU; receiving ones first, since most dependencies are on them and only low ids can be depended on.

    `needs` gains the dependency of each continued connection.
    """
    rows_of: dict[int, list[int]] = {}
    for row, channel in enumerate(schedule.channel.tolist()):
        rows_of.setdefault(channel, []).append(row)
    used: Counter[tuple[int, int, int]] = Counter()
    blocks = []
    for connection in sorted(rows_of):
        src, dst = int(schedule.topology.channel_src[connection]), int(schedule.topology.channel_dst[connection])
        channel = -1
        for part in _parts(rows_of[connection], needs, max_steps):
            channel += 1
            while max(used[src, SEND, channel], used[dst, RECV, channel]) >= _MAX_BLOCKS_OF_CHANNEL:
                channel += 1
            used[src, SEND, channel] += 1
            used[dst, RECV, channel] += 1
            blocks.append(ThreadBlock(src, SEND, dst, channel, [2 * row + SEND for row in part]))
            blocks.append(ThreadBlock(dst, RECV, src, channel, [2 * row + RECV for row in part]))
    return sorted(blocks, key=lambda block: (block.npu, -block.end, block.peer, block.channel))


def _parts(rows: list[int], needs: list[list[int]], max_steps: int) -> list[list[int]]:
    """The sends of a connection, cut so that neither end has more steps than a thread block may."""
    parts: list[list[int]] = [[]]
    steps = [0, 0]
    for row in rows:
        more = [max(1, len(needs[2 * row + end])) for end in (SEND, RECV)]
        if parts[-1] and max(steps[0] + more[0], steps[1] + more[1]) > max_steps:
            needs[2 * row + SEND].append(2 * parts[-1][-1] + SEND)
            more[SEND] = len(needs[2 * row + SEND])
            parts.append([])
            steps = [0, 0]
        parts[-1].append(row)
        steps = [steps[0] + more[0], steps[1] + more[1]]
    return parts


def _steps(blocks: list[ThreadBlock], needs: list[list[int]]) -> tuple[list[int], list[int], list[int]]:
    """Block and step of each access, and the steps of each block; `needs` loses what program order covers."""
    block_of, step_of = [-1] * len(needs), [-1] * len(needs)
    for index, block in enumerate(blocks):
        for access in block.accesses:
            block_of[access] = index
    num_steps = []
    for index, block in enumerate(blocks):
        step = 0
        for access in block.accesses:
            if needs[access]:
                needs[access] = [other for other in needs[access] if block_of[other] != index]
            step += max(1, len(needs[access]))
            step_of[access] = step - 1
        num_steps.append(step)
    return block_of, step_of, num_steps
