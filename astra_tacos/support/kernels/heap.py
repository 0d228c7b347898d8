# mypy: ignore-errors
"""A binary heap, the smallest key first, in `keys[base : base + size]` with a value for each key in `values`.

Keys are numbers, or rows of four columns that are compared one column after another. A heap of bare numbers passes one
array for both. Of equal keys the order depends on the calls alone.
"""

from __future__ import annotations

from numba.extending import overload

from astra_tacos.support.kernels.compiled import inlined


def _key_at(keys, at):
    raise NotImplementedError


@overload(_key_at)
def _typed_key_at(keys, at):
    if keys.ndim == 1:
        return lambda keys, at: keys[at]
    return lambda keys, at: (keys[at, 0], keys[at, 1], keys[at, 2], keys[at, 3])


def _set_key(keys, at, key):
    raise NotImplementedError


@overload(_set_key)
def _typed_set_key(keys, at, key):
    if keys.ndim == 1:

        def set_number(keys, at, key):
            keys[at] = key

        return set_number

    def set_row(keys, at, key):
        keys[at, 0], keys[at, 1], keys[at, 2], keys[at, 3] = key

    return set_row


@inlined
def heap_push(keys, values, base, size, key, value):
    """Add an entry to a heap of `size` entries."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if _key_at(keys, base + parent) <= key:
            break
        _set_key(keys, base + at, _key_at(keys, base + parent))
        values[base + at] = values[base + parent]
        at = parent
    _set_key(keys, base + at, key)
    values[base + at] = value


@inlined
def heap_replace_first(keys, values, base, size, key, value):
    """Put an entry in the place of the first one of a heap of `size` entries."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _key_at(keys, base + child + 1) < _key_at(keys, base + child):
            child += 1
        if key <= _key_at(keys, base + child):
            break
        _set_key(keys, base + at, _key_at(keys, base + child))
        values[base + at] = values[base + child]
        at = child
    _set_key(keys, base + at, key)
    values[base + at] = value


@inlined
def heap_drop_first(keys, values, base, size):
    """Take the first entry out of a heap that has `size` entries left after that."""
    heap_replace_first(keys, values, base, size, _key_at(keys, base + size), values[base + size])
