# mypy: ignore-errors
"""Kernel: which contributions every NPU's copy of a chunk holds, event by event."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.arrays import BOOL, I32, I64, I64_OUT
from astra_tacos.support.kernels.compiled import kernel

ABSENT = 0
COUNTED_TWICE = 1
OVERWRITTEN = 2
REDUNDANT = 3
BASELESS = 4
MISSING = 5

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class Events(NamedTuple):
    """What sends do: each chunk's departures and arrivals by time (CSR), and of each send the ends and whether it adds."""

    chunk_first: I64  # [num_chunks + 1]
    send: I64
    departs: BOOL
    src: I32
    dst: I32
    reduces: BOOL


class Goal(NamedTuple):
    """What the collective is to do: sum up over all members or not, for every member or for one target."""

    owner: I32  # [num_chunks]
    target: I32  # [num_chunks]
    is_member: BOOL  # [num_npus]
    reduces: bool
    gathers: bool


class Faults(NamedTuple):
    """Results, as many as there is room for: kind, send (-1 if none), NPU and chunk."""

    kind: I64_OUT
    send: I64_OUT
    npu: I64_OUT
    chunk: I64_OUT


@kernel
def follow_contributions(events: Events, goal: Goal, found: Faults):
    """Play the events of each chunk and write down what goes wrong; returns the number of faults.

    `ABSENT`: the source has nothing of the chunk yet. `COUNTED_TWICE`: a reduction adds what is in there already. `OVERWRITTEN`:
    a copy lacks a contribution of what it replaces. `REDUNDANT`: a copy brings nothing new. `BASELESS`: a reduction adds to
    nothing (but NPUs that are no members of a reduction begin with zeros). `MISSING`: in the end an NPU lacks contributions that
    it must have: the target, or every member.
    """
    num_npus = len(goal.is_member)
    words = (num_npus + 63) // 64 if goal.reduces else 1
    full = np.zeros(words, np.uint64)
    if goal.reduces:
        for npu in range(num_npus):
            if goal.is_member[npu]:
                full[npu // 64] |= _ONE << np.uint64(npu % 64)
    else:
        full[0] = _ONE
    longest = 0
    for chunk in range(len(events.chunk_first) - 1):
        longest = max(longest, events.chunk_first[chunk + 1] - events.chunk_first[chunk])
    held = np.zeros((num_npus, words), np.uint64)
    carried = np.zeros((longest // 2 + 1, words), np.uint64)
    slot_of = np.zeros(len(events.src), np.int64)
    faults = 0
    room = len(found.kind)
    for chunk in range(len(events.chunk_first) - 1):
        for npu in range(num_npus):
            for word in range(words):
                held[npu, word] = _ZERO
            if goal.reduces and goal.is_member[npu]:
                held[npu, npu // 64] = _ONE << np.uint64(npu % 64)
        if not goal.reduces:
            held[goal.owner[chunk], 0] = _ONE
        slots = 0
        for event in range(events.chunk_first[chunk], events.chunk_first[chunk + 1]):
            send = events.send[event]
            kind = -1
            npu = events.src[send] if events.departs[event] else events.dst[send]
            if events.departs[event]:
                slot_of[send] = slots
                nothing = True
                for word in range(words):
                    carried[slots, word] = held[npu, word]
                    nothing = nothing and held[npu, word] == _ZERO
                slots += 1
                if nothing:
                    kind = ABSENT
            else:
                slot = slot_of[send]
                overlap = False
                empty = True
                lost = False
                news = False
                for word in range(words):
                    empty = empty and held[npu, word] == _ZERO
                    overlap = overlap or (held[npu, word] & carried[slot, word]) != _ZERO
                    lost = lost or (held[npu, word] & ~carried[slot, word]) != _ZERO
                    news = news or (carried[slot, word] & ~held[npu, word]) != _ZERO
                    if events.reduces[send]:
                        held[npu, word] |= carried[slot, word]
                    else:
                        held[npu, word] = carried[slot, word]
                if events.reduces[send]:
                    if overlap:
                        kind = COUNTED_TWICE
                    elif empty and not (goal.reduces and not goal.is_member[npu]):
                        kind = BASELESS
                elif lost:
                    kind = OVERWRITTEN
                elif not news:
                    kind = REDUNDANT
            if kind >= 0:
                if faults < room:
                    found.kind[faults] = kind
                    found.send[faults] = send
                    found.npu[faults] = npu
                    found.chunk[faults] = chunk
                faults += 1
        for npu in range(num_npus):
            if not (goal.is_member[npu] if goal.gathers else npu == goal.target[chunk]):
                continue
            complete = True
            for word in range(words):
                complete = complete and held[npu, word] == full[word]
            if not complete:
                if faults < room:
                    found.kind[faults] = MISSING
                    found.send[faults] = -1
                    found.npu[faults] = npu
                    found.chunk[faults] = chunk
                faults += 1
    return faults
