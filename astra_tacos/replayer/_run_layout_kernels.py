# mypy: ignore-errors
"""Kernels that lay out a run for its replay: children of nodes, orders of issue, numbers of messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.replayer._run_table_kernels import ADDRESSES_OUT, MEETINGS, NONE, hash_order
from astra_tacos.support.kernels.compiled import I32, I32_OUT, I64, I64_2D_OUT, I64_OUT, U8, U64, kernel

_SEND_KIND = 5
_RECEIVE_KIND = 6
_AT_ONCE = 64


class ProgramRows(NamedTuple):
    """Rows of a program, from `base` on, and dependencies, which are rows of the program alone."""

    node_id: U64  # of all rows
    template_first: I64  # [positions + 1]
    base: int
    dep_first: I64
    dep: I64
    num_waits: I32  # of all rows


class Children(NamedTuple):
    """The rows that depend on each row, of all rows (CSR)."""

    first: I64
    child: I32_OUT


class Roots(NamedTuple):
    """The rows of each position that depend on none (CSR), and the level of its set of ready nodes, a result."""

    first: I64  # [positions + 1]
    root: I32_OUT
    set_level: I64_OUT  # [positions]


class SetSpace(NamedTuple):
    """Space to work in, see `hash_order`, for the rows of the largest position."""

    bucket: I64_OUT
    scratch: I64_2D_OUT


class Messages(NamedTuple):
    """Rows of a workload or program: kinds, sizes in bytes, peers and tags, and the first row of each position."""

    kind: U8
    size_bytes: I64
    peer: I64
    tag: I64
    rank_first: I64


class Ends(NamedTuple):
    """Who sends: `players[p]` is the rank of position p, `members[p]` the rank that peer p means.

    Messages meet if tag (modulo `tag_modulus`), size, both ranks and `space` are equal. Where a rank stands for many, both ranks
    are moved so that the source is a representative: in a digit of `size` values, `stride` ranks apart, one below `period`.
    """

    players: I64
    members: I64
    space: int
    num_ranks: int
    tag_modulus: int
    stride: I64  # [digits]
    size: I64  # [digits]
    period: I64  # [digits]


class Tables(NamedTuple):
    """Open-addressed tables, -1 where empty, of a power of two; the first two of `counts` are the numbers of keys and pairs."""

    key_table: I32_OUT
    meetings: MEETINGS
    pair_table: I32_OUT
    pair_code: I64_OUT
    counts: I64_OUT


@kernel
def link_children(num_rows: int, base: int, dep_first: I64, dep: I64, num_waits: I32_OUT, child_first: I64_OUT, child: I32_OUT):
    """Children of the rows of one trace, as CSR after those of the rows before it, which `child_first[base]` counts.

    Row i of the trace is row `base + i`; `num_waits` and the entries of `child_first` after `base` begin as zeros. A row that
    names another twice, as a data and a control dependency, waits for it once.
    """
    latest = np.empty(num_rows, np.int32)
    for row in range(num_rows):
        latest[row] = NONE
    for row in range(num_rows):
        for i in range(dep_first[row], dep_first[row + 1]):
            parent = dep[i]
            if latest[parent] != row:
                latest[parent] = row
                num_waits[base + row] += 1
                child_first[base + parent + 1] += 1
    for row in range(base, base + num_rows):
        child_first[row + 1] += child_first[row]
    place = np.empty(num_rows, np.int64)
    for row in range(num_rows):
        latest[row] = NONE
        place[row] = child_first[base + row]
    for row in range(num_rows):
        for i in range(dep_first[row], dep_first[row + 1]):
            parent = dep[i]
            if latest[parent] != row:
                latest[parent] = row
                child[place[parent]] = base + row
                place[parent] += 1


@kernel
def order_nodes(program: ProgramRows, children: Children, roots: Roots, sets: SetSpace):
    """Put the children of every row of a program, and every position's roots, into ASTRA-sim's order.

    Each node has a set of its children, filled in order of the file. Nodes without dependencies become ready in the order of a
    map of all nodes, which a node enters when it, or the first that depends on it, is read.
    """
    num_rows = program.template_first[len(roots.set_level)] - program.base
    most = sets.scratch.shape[1]
    entered = np.zeros(num_rows, np.bool_)
    latest_child = np.empty(num_rows, np.int32)
    for row in range(num_rows):
        latest_child[row] = NONE
    nodes = np.empty(most, np.int64)
    parents = np.empty(most, np.int64)
    for position in range(len(roots.set_level)):
        num_nodes = 0
        for row in range(program.template_first[position], program.template_first[position + 1]):
            num_children = children.first[row + 1] - children.first[row]
            if num_children > 1:
                for i in range(num_children):
                    parents[i] = children.child[children.first[row] + i]
                hash_order(program.node_id, parents[:num_children], 0, sets.bucket, sets.scratch)
                for i in range(num_children):
                    children.child[children.first[row] + i] = parents[i]
            if not entered[row - program.base]:
                entered[row - program.base] = True
                nodes[num_nodes] = row
                num_nodes += 1
            num_parents = 0
            new_parents = False
            for i in range(program.dep_first[row - program.base], program.dep_first[row - program.base + 1]):
                parent = program.dep[i]
                if latest_child[parent] != row - program.base:
                    latest_child[parent] = row - program.base
                    parents[num_parents] = parent + program.base
                    num_parents += 1
                    new_parents |= not entered[parent]
            if new_parents:
                if num_parents > 1:
                    hash_order(program.node_id, parents[:num_parents], 0, sets.bucket, sets.scratch)
                for i in range(num_parents):
                    parent = parents[i]
                    if not entered[parent - program.base]:
                        entered[parent - program.base] = True
                        nodes[num_nodes] = parent
                        num_nodes += 1
        hash_order(program.node_id, nodes[:num_nodes], 0, sets.bucket, sets.scratch)
        num_roots = 0
        for i in range(num_nodes):
            if program.num_waits[nodes[i]] == 0:
                nodes[num_roots] = nodes[i]
                num_roots += 1
        roots.set_level[position] = hash_order(program.node_id, nodes[:num_roots], 0, sets.bucket, sets.scratch)
        for i in range(num_roots):
            roots.root[roots.first[position] + i] = nodes[i]


@kernel
def number_messages(messages: Messages, ends: Ends, address: ADDRESSES_OUT, tables: Tables):
    """Number the messages of a workload or program; `address` has an entry per row."""
    key_mask = len(tables.key_table) - 1
    pair_mask = len(tables.pair_table) - 1
    # A few rows at a time: what they will look up is loaded first, together, as each load of a large table takes long.
    rows = np.empty(_AT_ONCE, np.int64)
    pairs = np.empty(_AT_ONCE, np.int32)
    places = np.empty(_AT_ONCE, np.int64)
    guesses = np.empty(_AT_ONCE, np.int32)
    for position in range(len(ends.players)):
        source = np.int64(ends.players[position])
        row = messages.rank_first[position]
        while row < messages.rank_first[position + 1]:
            num_rows = 0
            while row < messages.rank_first[position + 1] and num_rows < _AT_ONCE:
                if messages.kind[row] == _SEND_KIND or messages.kind[row] == _RECEIVE_KIND:
                    other = np.int64(ends.members[messages.peer[row]])
                    sends = messages.kind[row] == _SEND_KIND
                    begin = source if sends else other
                    end = other if sends else source
                    for digit in range(len(ends.stride)):
                        stride, size = ends.stride[digit], ends.size[digit]
                        here, there = begin // stride % size, end // stride % size
                        back = here - here % ends.period[digit]
                        begin -= back * stride
                        end += ((there - back + size) % size - there) * stride
                    code = begin * ends.num_ranks + end
                    mixed = np.uint64(code) * np.uint64(0x9E3779B97F4A7C15)
                    place = np.int64(mixed >> np.uint64(20)) & pair_mask
                    while tables.pair_table[place] != NONE and tables.pair_code[tables.pair_table[place]] != code:
                        place = (place + 1) & pair_mask
                    number = tables.pair_table[place]
                    if number == NONE:
                        number = tables.counts[1]
                        tables.counts[1] += 1
                        tables.pair_table[place] = number
                        tables.pair_code[number] = code
                    mixed ^= np.uint64(messages.tag[row] % ends.tag_modulus) * np.uint64(0xC2B2AE3D27D4EB4F)
                    mixed ^= np.uint64(messages.size_bytes[row]) * np.uint64(0x165667B19E3779F9) + np.uint64(ends.space)
                    mixed ^= mixed >> np.uint64(29)
                    mixed *= np.uint64(0xBF58476D1CE4E5B9)
                    rows[num_rows] = row
                    pairs[num_rows] = number
                    places[num_rows] = np.int64(mixed >> np.uint64(24)) & key_mask
                    num_rows += 1
                row += 1
            for i in range(num_rows):
                guesses[i] = tables.key_table[places[i]]
            loaded = 0
            for i in range(num_rows):
                if guesses[i] != NONE:
                    loaded += tables.meetings[guesses[i]].tag
            tables.counts[2] = loaded  # so that the loads are not left out
            for i in range(num_rows):
                place = places[i]
                its_row = rows[i]
                its_tag = messages.tag[its_row] % ends.tag_modulus
                while True:
                    found = tables.key_table[place]
                    if found == NONE:
                        found = tables.counts[0]
                        tables.counts[0] += 1
                        tables.key_table[place] = found
                        tables.meetings[found].pair = pairs[i]
                        tables.meetings[found].tag = its_tag
                        tables.meetings[found].size = messages.size_bytes[its_row]
                        tables.meetings[found].space = ends.space
                        break
                    if (
                        tables.meetings[found].pair == pairs[i]
                        and tables.meetings[found].tag == its_tag
                        and tables.meetings[found].size == messages.size_bytes[its_row]
                        and tables.meetings[found].space == ends.space
                    ):
                        break
                    place = (place + 1) & key_mask
                address[its_row].pair = pairs[i]
                address[its_row].key = found
