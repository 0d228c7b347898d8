"""Schedules as MSCCL steps: the thread block and position of each step, and the steps that it waits for.

A *send* is a run of neighbouring chunks of one message, at most as many as parsers take. An *access* is one end of a send, the
reading at its source or the writing at its destination: `2 * send + end`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from astra_tacos.schedule.schedule import Schedule

SEND, RECV = 0, 1
_MAX_BLOCKS_OF_CHANNEL = 32
_MAX_COUNT = 71
"""Most chunks of a step (microsoft/msccl, `src/include/msccl.h`: fewer than `MSCCL_MAX_COUNT`)."""


@dataclass(frozen=True, slots=True)
class ChunkRuns:
    """The sends of a program.

    Parameters
    ----------
    row
        int64[num_sends], the schedule's row of the first chunk of each.
    count
        int64[num_sends], how many neighbouring chunks each carries.
    of_row
        int64[num_rows], the send that carries each row of the schedule.
    """

    row: NDArray[np.int64]
    count: NDArray[np.int64]
    of_row: NDArray[np.int64]


def chunk_runs(schedule: Schedule) -> ChunkRuns:
    """Runs of neighbouring chunks in the messages of a schedule, in the order of its messages."""
    message = schedule.message_of
    order = np.lexsort((schedule.chunk, message))
    message, chunk = message[order], schedule.chunk[order].astype(np.int64)
    follows = (message[1:] == message[:-1]) & (chunk[1:] == chunk[:-1] + 1)
    begins = np.flatnonzero(np.concatenate(([True], ~follows))) if len(chunk) else np.empty(0, np.int64)
    within = np.arange(len(chunk)) - np.repeat(begins, np.diff(np.append(begins, len(chunk))))
    begins = np.flatnonzero(within % _MAX_COUNT == 0)
    count = np.diff(np.append(begins, len(chunk)))
    of_row = np.empty(len(chunk), np.int64)
    of_row[order] = np.repeat(np.arange(len(begins)), count)
    return ChunkRuns(order[begins], count, of_row)


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
    sends
        What accesses are the ends of.
    blocks, number, num_steps
        Thread blocks by NPU, the id of each at its NPU, and how many steps it has, `nop`s included.
    needs
        Accesses in other thread blocks that each access waits for; all but the last wait takes a `nop` before it.
    block_of, step_of
        Index in `blocks` and step of each access.
    awaited
        Accesses that others wait for.
    """

    sends: ChunkRuns
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
    sends = chunk_runs(schedule)
    needs = _of_sends(_prerequisites(schedule), sends)
    blocks = _thread_blocks(schedule, sends, needs, max_steps)
    block_of, step_of, num_steps = _steps(blocks, needs)
    first: dict[int, int] = {}
    number = [index - first.setdefault(block.npu, index) for index, block in enumerate(blocks)]
    awaited = frozenset(other for others in needs for other in others)
    return Layout(sends, blocks, number, num_steps, needs, block_of, step_of, awaited)


def _of_sends(needs: list[list[int]], sends: ChunkRuns) -> list[list[int]]:
    """What each send's ends wait for, from what the ends of its rows do."""
    if np.array_equal(sends.of_row, np.arange(len(sends.row))):
        return needs
    of_row = sends.of_row.tolist()
    joined: list[dict[int, None]] = [{} for _ in range(2 * len(sends.row))]
    for access, others in enumerate(needs):
        own = 2 * of_row[access >> 1] + (access & 1)
        joined[own] |= dict.fromkeys(2 * of_row[other >> 1] + (other & 1) for other in others)
    return [list(others) for others in joined]


def _prerequisites(schedule: Schedule) -> list[list[int]]:
    """Accesses of single chunks that each of them has to wait for, except those that messages of its chunk order already.

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


def _thread_blocks(schedule: Schedule, sends: ChunkRuns, needs: list[list[int]], max_steps: int) -> list[ThreadBlock]:
    """Thread blocks by NPU; receiving ones first, since most dependencies are on them and only low ids can be depended on.

    `needs` gains the dependency of each continued connection.
    """
    sends_of: dict[int, list[int]] = {}
    for send, channel in enumerate(schedule.channel[sends.row].tolist()):
        sends_of.setdefault(channel, []).append(send)
    used: Counter[tuple[int, int, int]] = Counter()
    blocks = []
    for connection in sorted(sends_of):
        src, dst = int(schedule.topology.channel_src[connection]), int(schedule.topology.channel_dst[connection])
        channel = -1
        for part in _parts(sends_of[connection], needs, max_steps):
            channel += 1
            while max(used[src, SEND, channel], used[dst, RECV, channel]) >= _MAX_BLOCKS_OF_CHANNEL:
                channel += 1
            used[src, SEND, channel] += 1
            used[dst, RECV, channel] += 1
            blocks.append(ThreadBlock(src, SEND, dst, channel, [2 * send + SEND for send in part]))
            blocks.append(ThreadBlock(dst, RECV, src, channel, [2 * send + RECV for send in part]))
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
