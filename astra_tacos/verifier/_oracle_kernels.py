"""Kernel: which contributions every NPU's copy of a chunk holds, event by event.

Kernels: what comes before what in a graph of operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import BOOL, I32, I64, I64_OUT, helper, kernel

# mypy: ignore-errors


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
                empty = True
                overlap = lost = news = False
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


# mypy: ignore-errors


READ = 0
ADD = 1
WRITE = 2

_BATCH = 64
_NEAR = 48
_UNKNOWN = 2


@kernel
def topological_order(first: I64, successor: I64, waits_for: I64_OUT):
    """Operations in an order that every edge keeps, and how many there are; those behind a cycle are left out.

    `first`, `successor`: edges by their origin; `waits_for`: number of edges into each operation (used up).
    """
    order = np.empty(len(waits_for), np.int64)
    size = 0
    for op in range(len(waits_for)):
        if waits_for[op] == 0:
            order[size] = op
            size += 1
    at = 0
    while at < size:
        op = order[at]
        at += 1
        for slot in range(first[op], first[op + 1]):
            after = successor[slot]
            waits_for[after] -= 1
            if waits_for[after] == 0:
                order[size] = after
                size += 1
    return order, size


@kernel
def conflicts(location: I64, op: I64, mode: I64, pair_first: I64_OUT, pair_second: I64_OUT):
    """Pairs of accesses (row numbers) that must be ordered; returns how many. Pairs beyond the arrays' length are only counted.

    Rows are sorted by location, then by one topological order. A read has to come after the write before it and the additions
    since; an addition after that write and the reads since; a write after all of them. Other pairs follow.
    """
    count = 0
    room = len(pair_first)
    begin = 0
    written = -1
    for row in range(len(location)):
        if row and location[row] != location[row - 1]:
            begin = row
            written = -1
        found = False
        for other in range(max(begin, written + 1), row):
            if mode[row] != WRITE and mode[other] == mode[row]:
                continue
            found = True
            if op[other] != op[row]:
                if count < room:
                    pair_first[count] = other
                    pair_second[count] = row
                count += 1
        if not found and written >= 0 and op[written] != op[row]:
            if count < room:
                pair_first[count] = written
                pair_second[count] = row
            count += 1
        if mode[row] == WRITE:
            written = row
    return count


@helper
def _near(first, predecessor, origin, target, stack):
    """1 if `target` comes after `origin`, 0 if not, `_UNKNOWN` if that takes a longer search. Numbers are topological."""
    size = 1
    stack[0] = target
    at = 0
    while at < size:
        for slot in range(first[stack[at]], first[stack[at] + 1]):
            before = predecessor[slot]
            if before == origin:
                return 1
            if before < origin:
                continue
            known = False
            for seen in range(size):
                if stack[seen] == before:
                    known = True
                    break
            if known:
                continue
            if size == _NEAR:
                return _UNKNOWN
            stack[size] = before
            size += 1
        at += 1
    return 0


@kernel
def comes_before(first: I64, predecessor: I64, origin: I64, target: I64):
    """uint8 for each query: 1 if there is a path from `origin` to `target`.

    Operations are numbered topologically; `first`, `predecessor`: edges by their end; queries are sorted by `origin`. What a
    short search leaves open is settled for 64 origins at a time, by passing bits along all edges between the first of them
    and the last target.
    """
    answer = np.empty(len(origin), np.uint8)
    stack = np.empty(_NEAR, np.int64)
    for query in range(len(origin)):
        answer[query] = _near(first, predecessor, origin[query], target[query], stack)
    reached = np.zeros(len(first), np.uint64)
    own = np.zeros(len(first), np.uint64)
    query = 0
    while query < len(origin):
        if answer[query] != _UNKNOWN:
            query += 1
            continue
        begin = query
        low = origin[query]
        high = low
        sources = 0
        latest = -1
        while query < len(origin):
            if answer[query] == _UNKNOWN:
                if origin[query] != latest:
                    if sources == _BATCH:
                        break
                    latest = origin[query]
                    own[latest] = np.uint64(1) << np.uint64(sources)
                    sources += 1
                high = max(high, target[query])
            query += 1
        for op in range(low, high + 1):
            bits = own[op]
            for slot in range(first[op], first[op + 1]):
                if predecessor[slot] >= low:
                    bits |= reached[predecessor[slot]]
            reached[op] = bits
        for done in range(begin, query):
            if answer[done] == _UNKNOWN:
                answer[done] = 1 if reached[target[done]] & own[origin[done]] else 0
        for done in range(begin, query):
            own[origin[done]] = np.uint64(0)
    return answer
