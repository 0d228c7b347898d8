# mypy: ignore-errors
"""Kernel: from the ids that nodes depend on to their rows."""

from __future__ import annotations

import numpy as np

from astra_tacos.support.kernels.compiled import kernel
from astra_tacos.support.kernels.shared import mix
from astra_tacos.support.kernels.tables import I64, I64_OUT

UNIQUE = -1
_DANGLING = -1
_ONE = np.uint64(1)


@kernel
def ids_to_rows(ids: I64, dep: I64_OUT, first_row: int, seed: np.uint64):
    """Replace every id in `dep` by the row that has it, or `_DANGLING`.

    `ids` are those of the rows from `first_row` on; both hold uint64 in int64.

    Ids that count up from row to row need no search, others a table of rows: by id if they lie close together, else by hash.
    `seed` is a secret that makes it unpredictable which ids collide. There are fewer than 2**31 nodes.

    Returns
    -------
    The first place in `ids` whose id an earlier one has already, or `UNIQUE`. If there is one, `dep` is left as it is.
    """
    num_nodes = len(ids)
    first = least = most = np.uint64(ids[0])
    counts_up = True
    for row in range(num_nodes):
        node = np.uint64(ids[row])
        counts_up &= node == first + np.uint64(row)
        if node < least:
            least = node
        if node > most:
            most = node
    if counts_up:
        for entry in range(len(dep)):
            # What is below the first id wraps around and becomes large.
            place = np.uint64(dep[entry]) - first
            dep[entry] = np.int64(place) + first_row if place < np.uint64(num_nodes) else _DANGLING
        return UNIQUE
    size = 2
    while size < 2 * num_nodes:
        size *= 2
    mask = np.uint64(size - 1)
    by_id = most - least <= mask
    table = np.empty(size, np.int32)
    for slot in range(size):
        table[slot] = _DANGLING
    # First the nodes themselves, which must not be there yet, then what they depend on.
    for entry in range(-num_nodes, len(dep)):
        row = entry + num_nodes
        node = ids[row] if entry < 0 else dep[entry]
        word = np.uint64(node) - least
        if not by_id:
            word = mix(word ^ seed) & mask
        found = _DANGLING
        if word <= mask:
            slot = np.int64(word)
            while table[slot] >= 0 and ids[table[slot]] != node:
                slot = (slot + 1) & (size - 1)
            found = table[slot]
            if entry < 0:
                table[slot] = row
        if entry >= 0:
            dep[entry] = found + first_row if found >= 0 else _DANGLING
        elif found >= 0:
            return row
    return UNIQUE


@kernel
def precedes(rank_first: I64, rank_of: I64, place: I64, order: I64, dep_first: I64, dep: I64, before: I64, after: I64):
    """bool per query: does a chain of dependencies lead from `before` to `after`, two rows of one rank?

    Queries are sorted by the place of `before` in `order`. One pass over a rank follows 64 rows, one bit each.
    """
    answer = np.zeros(len(before), np.bool_)
    reached = np.zeros(len(place), np.uint64)
    query = 0
    while query < len(before):
        rank = rank_of[before[query]]
        begin = query
        sources = 0
        latest = -1
        high = -1
        low = place[before[query]]
        while query < len(before) and rank_of[before[query]] == rank:
            if before[query] != latest:
                if sources == 64:
                    break
                latest = before[query]
                sources += 1
            high = max(high, place[after[query]])
            query += 1
        sources = 0
        latest = -1
        for done in range(begin, query):
            if before[done] != latest:
                latest = before[done]
                reached[latest] = _ONE << np.uint64(sources)
                sources += 1
        for at in range(low, high + 1):
            row = order[at]
            bits = reached[row]
            for slot in range(dep_first[row], dep_first[row + 1]):
                if dep[slot] >= 0 and place[dep[slot]] >= low:
                    bits |= reached[dep[slot]]
            reached[row] = bits
        sources = -1
        latest = -1
        for done in range(begin, query):
            if before[done] != latest:
                latest = before[done]
                sources += 1
            answer[done] = before[done] != after[done] and (reached[after[done]] >> np.uint64(sources)) & _ONE
        for at in range(low, high + 1):
            reached[order[at]] = 0
    return answer
