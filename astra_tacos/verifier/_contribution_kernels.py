# mypy: ignore-errors
"""Kernel: which contributions every NPU's copy of a chunk holds, event by event."""

from __future__ import annotations

import numpy as np
from numba import njit

ABSENT = 0
COUNTED_TWICE = 1
OVERWRITTEN = 2
REDUNDANT = 3
BASELESS = 4
MISSING = 5

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def follow_contributions(
    chunk_first,
    event_send,
    event_departs,
    src,
    dst,
    reduces,
    num_npus,
    owner,
    target,
    is_member,
    every_member_contributes,
    every_member_needs,
    fault_kind,
    fault_send,
    fault_npu,
    fault_chunk,
):
    """Play the events of each chunk, sorted by time, and write down what goes wrong; returns the number of faults.

    Only as many faults as `fault_kind` has room for are written. `ABSENT`: the source has nothing of the chunk yet.
    `COUNTED_TWICE`: a reduction adds what is in there already. `OVERWRITTEN`: a copy lacks a contribution of what it replaces.
    `REDUNDANT`: a copy brings nothing new. `BASELESS`: a reduction adds to nothing (but NPUs that are no members of a reduction
    begin with zeros). `MISSING`: in the end an NPU lacks contributions that it must have: the target, or every member.
    """
    words = (num_npus + 63) // 64 if every_member_contributes else 1
    full = np.zeros(words, np.uint64)
    if every_member_contributes:
        for npu in np.flatnonzero(is_member):
            full[npu // 64] |= _ONE << np.uint64(npu % 64)
    else:
        full[0] = _ONE
    longest = 0
    for chunk in range(len(chunk_first) - 1):
        longest = max(longest, chunk_first[chunk + 1] - chunk_first[chunk])
    held = np.zeros((num_npus, words), np.uint64)
    carried = np.zeros((longest // 2 + 1, words), np.uint64)
    slot_of = np.zeros(len(src), np.int64)
    faults = 0
    room = len(fault_kind)
    for chunk in range(len(chunk_first) - 1):
        held[:] = _ZERO
        if every_member_contributes:
            for npu in np.flatnonzero(is_member):
                held[npu, npu // 64] = _ONE << np.uint64(npu % 64)
        else:
            held[owner[chunk], 0] = _ONE
        slots = 0
        for event in range(chunk_first[chunk], chunk_first[chunk + 1]):
            send = event_send[event]
            kind = -1
            npu = src[send] if event_departs[event] else dst[send]
            if event_departs[event]:
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
                    if reduces[send]:
                        held[npu, word] |= carried[slot, word]
                    else:
                        held[npu, word] = carried[slot, word]
                if reduces[send]:
                    if overlap:
                        kind = COUNTED_TWICE
                    elif empty and not (every_member_contributes and not is_member[npu]):
                        kind = BASELESS
                elif lost:
                    kind = OVERWRITTEN
                elif not news:
                    kind = REDUNDANT
            if kind >= 0:
                if faults < room:
                    fault_kind[faults] = kind
                    fault_send[faults] = send
                    fault_npu[faults] = npu
                    fault_chunk[faults] = chunk
                faults += 1
        for npu in range(num_npus):
            if not (is_member[npu] if every_member_needs else npu == target[chunk]):
                continue
            complete = True
            for word in range(words):
                complete = complete and held[npu, word] == full[word]
            if not complete:
                if faults < room:
                    fault_kind[faults] = MISSING
                    fault_send[faults] = -1
                    fault_npu[faults] = npu
                    fault_chunk[faults] = chunk
                faults += 1
    return faults
