"""Kernel: from the ids that nodes depend on to their rows.

Kernel: protobuf's wire format of Chakra nodes, from columns to bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astra_tacos.support.kernels.compiled import I32, I64, I64_OUT, U8, U8_OUT, U16, helper, kernel
from astra_tacos.support.kernels.shared import mix

# mypy: ignore-errors


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
def precedes(rank_of: I64, place: I64, order: I64, dep_first: I64, dep: I64, before: I64, after: I64):
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


# mypy: ignore-errors


_U7 = np.uint64(7)
_U127 = np.uint64(127)
_U128 = np.uint64(128)
_INT32_LIST = 8 << 3 | 2


class Nodes(NamedTuple):
    """Nodes: their fields, dependencies (CSR), and attributes as key and value (CSR)."""

    node_id: I64
    kind: U8
    duration_us: I64
    name: U16  # number of a text
    name_number: I64  # what follows it
    ctrl_first: I64
    ctrl: I64
    data_first: I64
    data: I64
    attr_first: I64
    attr_key: U8
    attr_value: I64  # of a string, the number that it is made of; of a list, its number
    list_first: I64
    list_entry: I32


class Texts(NamedTuple):
    """Texts, one after another."""

    first: I64
    bytes: U8


@helper
def _varint_size(value):
    rest = value
    size = 1
    while rest > _U127:
        rest >>= _U7
        size += 1
    return size


@helper
def _put_varint(out, at, value):
    rest = value
    while rest > _U127:
        out[at] = np.uint8((rest & _U127) | _U128)
        rest >>= _U7
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@helper
def _num_digits(value):
    digits = 1
    while value >= 10:
        value //= 10
        digits += 1
    return digits


@helper
def _put_decimal(out, at, value, digits):
    for k in range(digits - 1, -1, -1):
        out[at + k] = np.uint8(48 + value % 10)
        value //= 10
    return at + digits


@helper
def _put_ids(out, at, field, first, ids, row):
    """A packed `repeated uint64`."""
    if first[row] == first[row + 1]:
        return at
    size = 0
    for slot in range(first[row], first[row + 1]):
        size += _varint_size(np.uint64(ids[slot]))
    at = _put_varint(out, at, np.uint64(field))
    at = _put_varint(out, at, np.uint64(size))
    for slot in range(first[row], first[row + 1]):
        at = _put_varint(out, at, np.uint64(ids[slot]))
    return at


@helper
def _list_size(nodes, number):
    """Bytes of a message whose field 1 is a packed list."""
    size = 0
    for slot in range(nodes.list_first[number], nodes.list_first[number + 1]):
        size += _varint_size(np.uint64(nodes.list_entry[slot]))
    return 1 + _varint_size(np.uint64(size)) + size if size else 0


@kernel
def encode_nodes(out: U8_OUT, begin: int, end: int, nodes: Nodes, names: Texts, keys: Texts, key_field: I64):
    """Length-prefixed nodes `begin` to `end - 1` into `out`; returns how many bytes. Zero fields are left out, as in proto3.

    Parameters
    ----------
    names, keys
        Texts of names and of attributes' keys.
    key_field
        Tag of each key's value.
    """
    body = np.empty(1 << 10, np.uint8)
    at = 0
    for row in range(begin, end):
        bound = 96 + 10 * (nodes.ctrl_first[row + 1] - nodes.ctrl_first[row] + nodes.data_first[row + 1] - nodes.data_first[row])
        bound += names.first[nodes.name[row] + 1] - names.first[nodes.name[row]]
        for slot in range(nodes.attr_first[row], nodes.attr_first[row + 1]):
            bound += 48 + keys.first[nodes.attr_key[slot] + 1] - keys.first[nodes.attr_key[slot]]
            if key_field[nodes.attr_key[slot]] == _INT32_LIST:
                bound += 10 * (nodes.list_first[nodes.attr_value[slot] + 1] - nodes.list_first[nodes.attr_value[slot]])
        if bound > len(body):
            body = np.empty(2 * bound, np.uint8)
        size = 0
        if nodes.node_id[row] != 0:
            size = _put_varint(body, size, np.uint64(1 << 3))
            size = _put_varint(body, size, np.uint64(nodes.node_id[row]))
        digits = _num_digits(nodes.name_number[row])
        prefix = names.first[nodes.name[row]]
        length = names.first[nodes.name[row] + 1] - prefix
        size = _put_varint(body, size, np.uint64(2 << 3 | 2))
        size = _put_varint(body, size, np.uint64(length + digits))
        for k in range(length):
            body[size + k] = names.bytes[prefix + k]
        size = _put_decimal(body, size + length, nodes.name_number[row], digits)
        if nodes.kind[row] != 0:
            size = _put_varint(body, size, np.uint64(3 << 3))
            size = _put_varint(body, size, np.uint64(nodes.kind[row]))
        size = _put_ids(body, size, 4 << 3 | 2, nodes.ctrl_first, nodes.ctrl, row)
        size = _put_ids(body, size, 5 << 3 | 2, nodes.data_first, nodes.data, row)
        if nodes.duration_us[row] != 0:
            size = _put_varint(body, size, np.uint64(7 << 3))
            size = _put_varint(body, size, np.uint64(nodes.duration_us[row]))
        for slot in range(nodes.attr_first[row], nodes.attr_first[row + 1]):
            key = keys.first[nodes.attr_key[slot]]
            length = keys.first[nodes.attr_key[slot] + 1] - key
            field = key_field[nodes.attr_key[slot]]
            value = nodes.attr_value[slot]
            is_list = field == _INT32_LIST
            is_text = field & 7 == 2 and not is_list
            digits = _num_digits(value) if is_text else 0
            listed = _list_size(nodes, value) if is_list else 0
            size = _put_varint(body, size, np.uint64(10 << 3 | 2))
            inner = 1 + _varint_size(np.uint64(length)) + length + _varint_size(np.uint64(field))
            if is_list:
                inner += _varint_size(np.uint64(listed)) + listed
            else:
                inner += 1 + digits if is_text else _varint_size(np.uint64(value))
            size = _put_varint(body, size, np.uint64(inner))
            size = _put_varint(body, size, np.uint64(1 << 3 | 2))
            size = _put_varint(body, size, np.uint64(length))
            for k in range(length):
                body[size + k] = keys.bytes[key + k]
            size += length
            size = _put_varint(body, size, np.uint64(field))
            size = _put_varint(body, size, np.uint64(listed if is_list else digits if is_text else value))
            if is_text:
                size = _put_decimal(body, size, value, digits)
            if is_list:
                size = _put_ids(body, size, 1 << 3 | 2, nodes.list_first, nodes.list_entry, value)
        at = _put_varint(out, at, np.uint64(size))
        for k in range(size):
            out[at + k] = body[k]
        at += size
    return at
