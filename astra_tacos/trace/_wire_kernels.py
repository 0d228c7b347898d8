# mypy: ignore-errors
"""Kernel: protobuf's wire format of Chakra nodes, from columns to bytes."""

from __future__ import annotations

import numpy as np
from numba import njit

_U7 = np.uint64(7)
_U127 = np.uint64(127)
_U128 = np.uint64(128)


@njit(cache=True, nogil=True)
def _varint_size(value):
    rest = value
    size = 1
    while rest > _U127:
        rest >>= _U7
        size += 1
    return size


@njit(cache=True, nogil=True)
def _put_varint(out, at, value):
    rest = value
    while rest > _U127:
        out[at] = np.uint8((rest & _U127) | _U128)
        rest >>= _U7
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@njit(cache=True, nogil=True)
def _num_digits(value):
    digits = 1
    while value >= 10:
        value //= 10
        digits += 1
    return digits


@njit(cache=True, nogil=True)
def _put_decimal(out, at, value, digits):
    for k in range(digits - 1, -1, -1):
        out[at + k] = np.uint8(48 + value % 10)
        value //= 10
    return at + digits


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def encode_nodes(
    out,
    begin,
    end,
    node_id,
    kind,
    duration_us,
    name,
    name_number,
    name_first,
    name_bytes,
    ctrl_first,
    ctrl,
    data_first,
    data,
    attr_first,
    attr_key,
    attr_value,
    key_first,
    key_bytes,
    key_field,
):
    """Length-prefixed nodes `begin` to `end - 1` into `out`; returns how many bytes. Zero fields are left out, as in proto3."""
    body = np.empty(1 << 10, np.uint8)
    at = 0
    for row in range(begin, end):
        bound = 96 + 10 * (ctrl_first[row + 1] - ctrl_first[row] + data_first[row + 1] - data_first[row])
        bound += name_first[name[row] + 1] - name_first[name[row]]
        for slot in range(attr_first[row], attr_first[row + 1]):
            bound += 48 + key_first[attr_key[slot] + 1] - key_first[attr_key[slot]]
        if bound > len(body):
            body = np.empty(2 * bound, np.uint8)
        size = 0
        if node_id[row] != 0:
            size = _put_varint(body, size, np.uint64(1 << 3))
            size = _put_varint(body, size, np.uint64(node_id[row]))
        digits = _num_digits(name_number[row])
        prefix = name_first[name[row]]
        length = name_first[name[row] + 1] - prefix
        size = _put_varint(body, size, np.uint64(2 << 3 | 2))
        size = _put_varint(body, size, np.uint64(length + digits))
        for k in range(length):
            body[size + k] = name_bytes[prefix + k]
        size = _put_decimal(body, size + length, name_number[row], digits)
        if kind[row] != 0:
            size = _put_varint(body, size, np.uint64(3 << 3))
            size = _put_varint(body, size, np.uint64(kind[row]))
        size = _put_ids(body, size, 4 << 3 | 2, ctrl_first, ctrl, row)
        size = _put_ids(body, size, 5 << 3 | 2, data_first, data, row)
        if duration_us[row] != 0:
            size = _put_varint(body, size, np.uint64(7 << 3))
            size = _put_varint(body, size, np.uint64(duration_us[row]))
        for slot in range(attr_first[row], attr_first[row + 1]):
            key = key_first[attr_key[slot]]
            length = key_first[attr_key[slot] + 1] - key
            field = key_field[attr_key[slot]]
            value = attr_value[slot]
            is_text = field & 7 == 2
            digits = _num_digits(value) if is_text else 0
            size = _put_varint(body, size, np.uint64(10 << 3 | 2))
            inner = 1 + _varint_size(np.uint64(length)) + length + _varint_size(np.uint64(field))
            inner += 1 + digits if is_text else _varint_size(np.uint64(value))
            size = _put_varint(body, size, np.uint64(inner))
            size = _put_varint(body, size, np.uint64(1 << 3 | 2))
            size = _put_varint(body, size, np.uint64(length))
            for k in range(length):
                body[size + k] = key_bytes[key + k]
            size += length
            size = _put_varint(body, size, np.uint64(field))
            size = _put_varint(body, size, np.uint64(digits if is_text else value))
            if is_text:
                size = _put_decimal(body, size, value, digits)
        at = _put_varint(out, at, np.uint64(size))
        for k in range(size):
            out[at + k] = body[k]
        at += size
    return at
