# mypy: ignore-errors
"""Kernel: Chakra traces in protobuf's wire format, from bytes to columns.

What protobuf's own parser (upb) accepts is accepted, and nothing else (`reader.py` says more). A place in the bytes is a machine
address, so that helpers pass integers around and no arrays; `begin <= at <= end` holds wherever a byte is read, and the caller
keeps `PADDING` readable bytes behind the last one, so that eight may be read at a time. A helper that goes on returns the address
after what it read, one that cannot returns a negative number that holds code and place of the fault (`_fault`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from astra_tacos.support.kernels.compiled import (
    I32_OUT,
    I64,
    I64_2D_OUT,
    I64_OUT,
    U8,
    U8_2D_OUT,
    U32_2D_OUT,
    helper,
    inlined,
    kernel,
)
from astra_tacos.support.kernels.shared import mix, trailing_zeros

PADDING = 16
MAX_SIZE = (1 << 31) - 1
"""Bytes of a message or a field; protobuf takes no more."""


# Codes of faults.
FINE, FRAME, TRUNCATED, TAG, WIRE_TYPE, VARINT, LENGTH, PAST_END, PACKED, TEXT, GROUP, DEPTH, NO_ROOM = range(13)
_CODE_BITS = 4

# How deep groups may nest in a node, in a message in it, and in a list in that.
_NODE_DEPTH, _INNER_DEPTH, _LIST_DEPTH = np.int64(100), np.int64(99), np.int64(98)
# Bytes of a tag and of a length, at most.
_TAG_BYTES = _SIZE_BYTES = 5
_LEAST_TAG, _LEAST_IN_GROUP = np.int64(8), np.int64(0)
_TEXTS_OF_IO = np.int64(3)
_MAX_SIZE = np.uint64(MAX_SIZE)

_WIRE_VARINT, _WIRE_64, _WIRE_SPAN, _WIRE_OPEN, _WIRE_CLOSE, _WIRE_32 = 0, 1, 2, 3, 4, 5

# Tags of a node's fields, of metadata's, of an attribute's.
_ID, _TEXT_NAME, _KIND, _DURATION, _ATTRIBUTE = 1 << 3, 2 << 3 | 2, 3 << 3, 7 << 3, 10 << 3 | 2
_CTRL_DEP, _CTRL_DEPS, _DATA_DEP, _DATA_DEPS, _INPUTS, _OUTPUTS = 4 << 3, 4 << 3 | 2, 5 << 3, 5 << 3 | 2, 8 << 3 | 2, 9 << 3 | 2
_VERSION, _METADATA_ATTRIBUTE = 1 << 3 | 2, 2 << 3 | 2
_NAME, _DOC_STRING = 1 << 3 | 2, 2 << 3 | 2

# Fields of an attribute's value: a scalar type has an odd number, the list of it the next one.
_INT32, _INT64, _UINT32, _UINT64, _SINT32, _SINT64 = 7, 9, 11, 13, 15, 17
_FIXED32, _FIXED64, _SFIXED32, _SFIXED64, _BOOL, _STRING, _BYTES = 19, 21, 23, 25, 27, 29, 31
_INT32_LIST, _BOOL_LIST, _STRING_LIST = 8, 28, 30
_FIRST_VALUE, _LAST_VALUE = 3, 32
_WIRE_OF = np.full(33, _WIRE_SPAN, np.int64)
_WIRE_OF[7:18:2] = _WIRE_VARINT
_WIRE_OF[_BOOL] = _WIRE_VARINT
_WIRE_OF[[3, _FIXED64, _SFIXED64]] = _WIRE_64
_WIRE_OF[[5, _FIXED32, _SFIXED32]] = _WIRE_32

# Attributes by key. The first of them are `WORKLOAD_ATTRIBUTES` of trace.py, which numba cannot read from there.
ATTRIBUTES = (
    *("is_cpu_op", "comm_type", "comm_size", "num_ops", "tensor_size", "comm_src", "comm_dst", "comm_tag", "comm_priority"),
    *("pg_name", "involved_dim", "msg_chunk_idx", "msg_chunk_cnt", "total_chunk_cnt", "is_rrc", "msg_chunk_list", "place_list"),
    *("astra_tacos_pattern", "astra_tacos_group", "root"),
)
_IS_CPU_OP, _COMM_TYPE, _COMM_SIZE, _NUM_OPS, _TENSOR_SIZE, _COMM_SRC, _COMM_DST, _COMM_TAG, _COMM_PRIORITY = range(9)
_PG_NAME, _INVOLVED_DIM, _CHUNK, _NUM_CHUNKS, _TOTAL_CHUNKS, _IS_RRC = range(9, 15)
CHUNK_LIST, PLACE_LIST, _PATTERN, _OWN_GROUP, _ROOT = range(15, 20)
_NUM_ATTRIBUTES = 20
# Other names of an attribute.
SYNONYMS = (("comm_root", _ROOT), ("root_rank", _ROOT))
# Then, in `values`: how long texts are whose addresses are values, bit sets of attributes, how long `involved_dim` is, and how
# many dependencies are on data.
_SIZE, _PATTERN_SIZE, _OWN_GROUP_SIZE, _SEEN, _WRONG_TYPE, _NO_VALUE, _COUNT, _NUM_DATA = range(20, 28)
_NUM_VALUES = 28
_WORKLOAD_MARKS = (1 << 11) - 1
# The last one is where the byte offset goes, others those of the own rank, the pattern and the own group.
_WORKLOAD_NUMBERS = (
    *(_COMM_TYPE, _NUM_OPS, _TENSOR_SIZE, _COMM_PRIORITY, _COMM_SRC, _INVOLVED_DIM, _COUNT),
    *(_ROOT, _PATTERN, _OWN_GROUP, _NUM_DATA, _COUNT),
)
_LINE_OWN, _LINE_PATTERN, _LINE_OWN_GROUP, _LINE_OFFSET = 4, 8, 9, 11
_ABSENT, _INVALID = -1, np.iinfo(np.int64).min
FIRST_TEXT = -2
"""In the lines of pattern and own group, text 0; text 1 is one less, and so on."""
_COMM_SEND, _COMM_RECV, _UNKNOWN_KIND = np.uint64(5), np.uint64(6), np.uint64(255)
_LOW_32 = np.uint64(0xFFFFFFFF)
_MAX_DIMS = 63

# A name's first, next and last eight bytes, times a number that gives each of the names above a slot of its own.
_NAME_FACTOR = 0x7CCB12D54BFE9C17
_NAME_SHIFT = np.uint64(59)
_NAME_LOW = np.zeros(32, np.uint64)
_NAME_HIGH = np.zeros(32, np.uint64)
_NAME_LAST = np.zeros(32, np.uint64)
_NAME_SIZE = np.zeros(32, np.int64)
_NAME_KEY = np.full(32, -1, np.int64)
for _name, _key in (*((name, key) for key, name in enumerate(ATTRIBUTES)), *SYNONYMS):
    _words = [int.from_bytes(_name.encode()[first : first + 8], "little") for first in (0, 8, 16)]
    _slot = (sum(_words) * _NAME_FACTOR) % (1 << 64) >> 59
    _NAME_LOW[_slot], _NAME_HIGH[_slot], _NAME_LAST[_slot] = _words
    _NAME_SIZE[_slot], _NAME_KEY[_slot] = len(_name), _key
_NAME_MULTIPLIER = np.uint64(_NAME_FACTOR)

_MAX_INT64 = np.uint64((1 << 63) - 1)
_U0, _U1, _U2, _U4, _U7, _U8, _U63 = (np.uint64(value) for value in (0, 1, 2, 4, 7, 8, 63))
_U127, _U128 = np.uint64(127), np.uint64(128)
_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_7 = np.uint64(0x7F7F7F7F7F7F7F7F)
_EVEN_7, _ODD_7 = np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00)
_EVEN_14, _ODD_14 = np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000)
_EVEN_28, _ODD_28 = np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000)
_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)

# Of nodes that have up to 1, 2, 3, 4 bytes, there are no more than this many different ids.
_IDS_1, _IDS_2, _IDS_3, _IDS_4 = 1, 1 << 7, 1 << 14, 1 << 21


def _load(bits):
    """An intrinsic that loads some bits from an address as uint64."""

    @intrinsic
    def load(typing_context, address):
        def codegen(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            loaded = builder.load(pointer, align=1)
            return loaded if bits == 64 else builder.zext(loaded, ir.IntType(64))

        return types.uint64(types.int64), codegen

    return load


_byte = _load(8)
_word = _load(64)


@helper
def _fault(code, at):
    return -((at << _CODE_BITS) | code)


@helper
def _long_varint(at, end):
    """A varint of any length; the bits of a tenth byte that exceed 64 are dropped, as protobuf does."""
    begin = at
    value = _U0
    shift = _U0
    while at < end and shift <= _U63:
        byte = _byte(at)
        at += 1
        value |= (byte & _U127) << shift
        if byte < _U128:
            return value, at
        shift += _U7
    return _U0, _fault(VARINT, begin)


@inlined
def _varint(at, end):
    """Value and the address after it."""
    if at < end:
        word = _word(at)
        if word & _U128 == _U0:
            return word & _U127, at + 1
        stops = ~word & _HIGH_BITS
        if stops != _U0:
            stop = trailing_zeros(stops)
            after = at + (np.int64(stop) >> 3) + 1
            if after <= end:
                # Sevens of bits from eight bytes, joined two by two.
                word &= _LOW_7 & (_FULL >> (_U63 - stop))
                word = (word & _EVEN_7) | ((word & _ODD_7) >> _U1)
                word = (word & _EVEN_14) | ((word & _ODD_14) >> _U2)
                return (word & _EVEN_28) | ((word & _ODD_28) >> _U4), after
    return _long_varint(at, end)


@inlined
def _payload(at, end, wire):
    """What follows a tag: a number and the address after it, or the address of a text or message and the one after it."""
    if wire == _WIRE_VARINT or wire == _WIRE_SPAN:
        value, after = _varint(at, end)
        if wire == _WIRE_VARINT or after < 0:
            return value, after
        if value > _MAX_SIZE or after - at > _SIZE_BYTES:
            return value, _fault(LENGTH, at)
        if np.int64(value) > end - after:
            return value, _fault(PAST_END, at)
        return np.uint64(after), after + np.int64(value)
    if wire == _WIRE_64 or wire == _WIRE_32:
        after = at + (8 if wire == _WIRE_64 else 4)
        value = _word(at) if wire == _WIRE_64 else _word(at) & _LOW_32
        return value, after if after <= end else _fault(PAST_END, at)
    return _U0, _fault(GROUP if wire == _WIRE_CLOSE else WIRE_TYPE, at)


@inlined
def _tag(at, end, least):
    """Field number and wire type in one, and the address after it. There is a byte at `at`."""
    tag = np.int64(_byte(at))
    after = at + 1
    if tag >= 128:
        value, after = _varint(at, end)
        tag = np.int64(value)
        if after < 0 or after - at > _TAG_BYTES or value > _LOW_32:
            tag = -1
    if tag < least:
        return tag, _fault(TAG, at)
    return tag, after


@helper
def _skip_group(at, end, tag, depth):
    """Past a group whose opening tag has been read; `depth` groups may nest. Within, upb lets fields have the number 0."""
    begin = at
    open_tags = np.empty(_NODE_DEPTH, np.int64)
    open_tags[0] = tag
    level = 0
    while at < end:
        here = at
        tag, at = _tag(at, end, _LEAST_IN_GROUP)
        if at < 0:
            return at
        if tag & 7 == _WIRE_OPEN:
            level += 1
            if level == depth:
                return _fault(DEPTH, here)
            open_tags[level] = tag
        elif tag & 7 == _WIRE_CLOSE:
            if open_tags[level] >> 3 != tag >> 3:
                return _fault(GROUP, here)
            if level == 0:
                return at
            level -= 1
        else:
            at = _payload(at, end, tag & 7)[1]
            if at < 0:
                return at
    return _fault(GROUP, begin)


@helper
def _field(at, end, depth):
    """A field: its tag, its `_payload`, and the address after it. There is a byte at `at`. Groups are passed over."""
    tag, after = _tag(at, end, _LEAST_TAG)
    if after < 0:
        return tag, _U0, after
    if tag & 7 == _WIRE_OPEN:
        return tag, _U0, _skip_group(after, end, tag, depth)
    value, after = _payload(after, end, tag & 7)
    return tag, value, after


@helper
def _checked(at, end):
    """`end`, or a fault if the text from `at` to there is not UTF-8."""
    first = at
    while end - at >= 8 and _word(at) & _HIGH_BITS == _U0:
        at += 8
    while at < end:
        lead = _byte(at)
        at += 1
        if lead < _U128:
            continue
        # How many bytes follow, and what the first of them may be: neither overlong, nor a surrogate, nor beyond 0x10FFFF.
        rest = (lead >= 0xC2) + (lead >= 0xE0) + (lead >= 0xF0) if lead <= 0xF4 else 0
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if rest == 0 or rest > end - at:
            return _fault(TEXT, first)
        for _ in range(rest):
            if _byte(at) < low or _byte(at) > high:
                return _fault(TEXT, first)
            low, high = 0x80, 0xBF
            at += 1
    return end


@helper
def _texts(at, end, count):
    """Past a message whose fields 1 to `count` are strings and which has no others."""
    while 0 <= at < end:
        tag, first, at = _field(at, end, _INNER_DEPTH)
        if at >= 0 and tag & 7 == _WIRE_SPAN and tag >> 3 <= count:
            at = _checked(np.int64(first), at)
    return at


@helper
def _name_key(first, size):
    """Key of an attribute's name, -1 for others."""
    if size < 4 or size > 19:
        return -1
    low = _word(first)
    high = last = _U0
    if size < 8:
        low &= _FULL >> (_U8 * np.uint64(8 - size))
    elif size > 16:
        high = _word(first + 8)
        last = _word(first + 16) & (_FULL >> (_U8 * np.uint64(24 - size)))
    elif size > 8:
        high = _word(first + 8) & (_FULL >> (_U8 * np.uint64(16 - size)))
    slot = np.int64(((low + high + last) * _NAME_MULTIPLIER) >> _NAME_SHIFT)
    if _NAME_LOW[slot] == low and _NAME_HIGH[slot] == high and _NAME_LAST[slot] == last and _NAME_SIZE[slot] == size:
        return _NAME_KEY[slot]
    return -1


@helper
def _list(at, end, field, bits, count):
    """Past the elements of a list; of a list of bools also which are true, and how many there are: `bits` and `count` go on."""
    wire = _WIRE_OF[field - 1]
    while 0 <= at < end:
        here = at
        tag, value, at = _field(at, end, _LIST_DEPTH)
        if at < 0 or tag >> 3 != 1:
            continue
        is_packed = tag & 7 == _WIRE_SPAN
        entry = np.int64(value)
        if field == _STRING_LIST and is_packed:
            at = _checked(entry, at)
        elif wire == _WIRE_VARINT and (is_packed or tag & 7 == _WIRE_VARINT):
            while entry < at or not is_packed:
                if is_packed:
                    value, entry = _varint(entry, at)
                    if entry < 0:
                        return entry, bits, count
                if value != _U0 and count < _MAX_DIMS:
                    bits |= _U1 << np.uint64(count)
                count += 1
                if not is_packed:
                    break
        elif wire != _WIRE_SPAN and is_packed and (at - entry) & (7 if wire == _WIRE_64 else 3):
            at = _fault(PACKED, here)
    return at, bits, count


@helper
def _bounded(bits):
    return np.int64(bits if bits < _MAX_INT64 else _MAX_INT64)


@inlined
def _is_integer(case):
    return case >= _INT32 and case <= _BOOL and case & 1


@helper
def _integer(case, bits):
    """The value of an integer type, as far as int64 goes."""
    if case == _UINT64 or case == _FIXED64:
        return _bounded(bits)
    if case == _BOOL:
        return np.int64(bits != _U0)
    if case == _SINT64:
        return np.int64((bits >> _U1) ^ (_U0 - (bits & _U1)))
    if case == _INT64 or case == _SFIXED64:
        return np.int64(bits)
    bits &= _LOW_32
    if case == _SINT32:
        return np.int64((bits >> _U1) ^ (_U0 - (bits & _U1)))
    value = np.int64(bits)
    if (case == _INT32 or case == _SFIXED32) and value >> 31:
        value -= 1 << 32
    return value


@helper
def _attribute(at, end, values):
    """Past an attribute, which is noted in `values` unless one of that name is already."""
    key = np.int64(-1)
    case = np.int64(0)
    # A scalar, the address and size of a string or bytes, or the first elements of a list of bools as a bit set and their number.
    bits = _U0
    count = np.int64(0)
    while at < end:
        tag, value, at = _field(at, end, _INNER_DEPTH)
        if at < 0:
            return at
        field = tag >> 3
        first = np.int64(value)
        if tag == _NAME:
            key = _name_key(first, at - first)
            if key < 0:
                at = _checked(first, at)
        elif _FIRST_VALUE <= field <= _LAST_VALUE and tag & 7 == _WIRE_OF[field]:
            if tag & 7 == _WIRE_SPAN and field & 1 == 0:
                # A list that comes twice is one list, unless another value is between: then only the last counts.
                if case != field:
                    bits = _U0
                    count = np.int64(0)
                at, bits, count = _list(first, at, field, bits, count)
            else:
                bits = value
                count = at - first
                if field == _STRING:
                    at = _checked(first, at)
            case = field
        elif tag == _DOC_STRING:
            at = _checked(first, at)
        if at < 0:
            return at
    if key < 0 or (values[_SEEN] >> key) & 1:
        return at
    values[_SEEN] |= 1 << key
    if case == 0:
        values[_NO_VALUE] |= 1 << key
    elif key == _PG_NAME and (case == _STRING or case == _BYTES):
        values[key] = np.int64(bits)
        values[_SIZE] = count
    elif (key == _PATTERN or key == _OWN_GROUP) and case == _STRING:
        values[key] = np.int64(bits)
        values[_PATTERN_SIZE + key - _PATTERN] = count
    elif key == _INVOLVED_DIM and case == _BOOL_LIST:
        values[key] = np.int64(bits)
        values[_COUNT] = count
    elif (key == CHUNK_LIST or key == PLACE_LIST) and case == _INT32_LIST:
        values[key] = 1
    elif key == _PATTERN or (key == _OWN_GROUP and case == _BOOL):
        values[key] = _INVALID
    elif key == _PG_NAME or key == _INVOLVED_DIM or key == CHUNK_LIST or key == PLACE_LIST or not _is_integer(case):
        values[_WRONG_TYPE] |= 1 << key
        if key >= _OWN_GROUP:
            values[key] = _INVALID
    else:
        values[key] = _integer(case, bits)
        if key == _OWN_GROUP and values[key] < 0:
            values[key] = _INVALID
    return at


@helper
def _frame(at, end):
    """First address and end of the message that begins at `at` with its length."""
    value, first = _varint(at, end)
    if first < 0:
        return at, _fault(FRAME, at)
    if value > np.uint64(end - first):
        return at, _fault(TRUNCATED, at)
    if value > _MAX_SIZE:
        return at, _fault(LENGTH, at)
    return first, first + np.int64(value)


@helper
def _tail(at, size):
    """The last bytes of a text, fewer than eight."""
    return _word(at) & ~(_FULL << (_U8 * np.uint64(size)))


@helper
def _number(at, size, seed, begin, table, count):
    """Number of a text among the first `count` of a table; `count` if it is new and has been added."""
    slots, names = table.slots, table.names
    hashed = seed ^ np.uint64(size)
    for place in range(0, size, 8):
        word = _word(at + place) if place + 8 <= size else _tail(at + place, size - place)
        hashed = mix(hashed ^ word)
    slot = np.int64(hashed & np.uint64(len(slots) - 1))
    while slots[slot] > 0:
        known = slots[slot] - 1
        if names[1, known] == size:
            other = begin + names[0, known]
            place = 0
            while place + 8 <= size and _word(at + place) == _word(other + place):
                place += 8
            if place + 8 > size and _tail(at + place, size - place) == _tail(other + place, size - place):
                return known
        slot = (slot + 1) & (len(slots) - 1)
    slots[slot] = count + 1
    names[0, count] = at - begin
    names[1, count] = size
    return count


class Table(NamedTuple):
    """What is filled: of the rows and dependencies of one rank, those from `room[0]` to `room[1]` and `room[2]` to `room[3]`.

    `numbers` has 5, 8, 17 or 20 lines: ids, duration, size, peer, tag; if wanted chunk, number of chunks, all chunks; if wanted
    communication type, operations, tensor size, priority, own rank, involved dimensions, their count, root, carried pattern and
    own group (`INVALID` if the value is of a wrong type, from `FIRST_TEXT` down a text), dependencies on data, byte offset.
    `flags`: kind, whether a receive reduces, whether it is an operation of the CPU, which lists it has (bits: chunks, places).
    `marks`: wrong type, no value, number of the group (0: none, else one more).
    """

    room: I64  # [4]
    numbers: I64_2D_OUT  # [lines, rows]
    flags: U8_2D_OUT  # [4, rows]
    marks: U32_2D_OUT  # [3 or 0, rows]
    dep_first: I64_OUT  # [rows + 1], where a row's dependencies end goes into the row after
    dep: I64_OUT  # ids


class Texts(NamedTuple):
    """Different texts: a hash table, a power of 2, all 0 in the beginning; offset and size of each, to be filled."""

    slots: I32_OUT
    names: I64_2D_OUT  # [2, most names]


@kernel
def count_nodes(data: U8, size: int):
    """How many nodes and dependencies there are, the most control dependencies of one node, and where to stop reading.

    Counts go up to the first fault, which `scan_nodes` will find, or to where more nodes are short than ids are short.
    """
    begin = np.int64(data.ctypes.data)
    end = begin + size
    nodes = deps = most = 0
    up_to_1 = up_to_2 = up_to_3 = up_to_4 = 0
    at = _frame(begin, end)[1]
    while 0 <= at < end:
        at, stop = _frame(at, end)
        if stop < 0:
            break
        nodes += 1
        if stop - at <= 4:
            up_to_4 += 1
            up_to_3 += stop - at <= 3
            up_to_2 += stop - at <= 2
            up_to_1 += stop - at <= 1
            if up_to_1 > _IDS_1 or up_to_2 > _IDS_2 or up_to_3 > _IDS_3 or up_to_4 > _IDS_4:
                return nodes, deps, most, stop - begin
        held = 0
        while 0 <= at < stop:
            tag, value, at = _field(at, stop, _NODE_DEPTH)
            if at < 0:
                break
            if tag == _DATA_DEPS or tag == _CTRL_DEPS or tag == _DATA_DEP or tag == _CTRL_DEP:
                found = 1
                if tag & 7 == _WIRE_SPAN:
                    found = 0
                    for entry in range(np.int64(value), at):
                        found += _byte(entry) < _U128
                deps += found
                if tag >> 3 == _CTRL_DEP >> 3:
                    held += found
                    if held > most:
                        most = held
    return nodes, deps, most, size


@inlined
def _forget(values):
    """No attribute is known."""
    for slot in range(_NUM_VALUES):
        values[slot] = _ABSENT if slot < _SEEN else 0
    values[_IS_CPU_OP] = 0
    values[_IS_RRC] = 0


@inlined
def _put_row(table, row, node, duration, kind, values, offset):
    """Fill a row of the table, but for its dependencies and its texts, from what a node at an offset has."""
    is_send = kind == _COMM_SEND
    is_message = is_send or kind == _COMM_RECV
    to, back = values[_COMM_DST], values[_COMM_SRC]
    table.numbers[0, row] = np.int64(node)
    table.numbers[1, row] = _bounded(duration)
    table.numbers[2, row] = values[_COMM_SIZE]
    table.numbers[3, row] = _ABSENT if not is_message else to if is_send else back
    table.numbers[4, row] = values[_COMM_TAG]
    table.flags[0, row] = kind if kind < _UNKNOWN_KIND else _UNKNOWN_KIND
    line = 5
    if len(table.numbers) == 8 or len(table.numbers) == 20:
        for key in range(_CHUNK, _CHUNK + 3):
            table.numbers[line, row] = values[key]
            line += 1
        table.flags[1, row] = values[_IS_RRC] != 0
        table.flags[3, row] = (values[CHUNK_LIST] > 0) | (values[PLACE_LIST] > 0) << 1
    if len(table.marks):
        for key in _WORKLOAD_NUMBERS:
            table.numbers[line, row] = values[key]
            line += 1
        first = line - len(_WORKLOAD_NUMBERS)
        table.numbers[first + _LINE_OFFSET, row] = offset
        table.numbers[first + _LINE_OWN, row] = _ABSENT if not is_message else back if is_send else to
        table.flags[2, row] = values[_IS_CPU_OP] != 0
        table.marks[0, row] = values[_WRONG_TYPE] & _WORKLOAD_MARKS
        table.marks[1, row] = values[_NO_VALUE] & _WORKLOAD_MARKS
        table.marks[2, row] = 0


@kernel
def scan_nodes(data: U8, size: int, seed: np.uint64, table: Table, held: I64_OUT, groups: Texts, others: Texts):
    """Read metadata and nodes of the first `size` bytes of `data`, which has `PADDING` bytes more.

    Parameters
    ----------
    seed
        A secret that makes hashes unpredictable.
    table, groups, others
        To be filled: columns, group names, patterns and own groups.
    held
        [most control dependencies of one node], space to work in.

    Returns
    -------
    code, message_at, fault_at, num_groups, num_others
        A fault, where its message begins and where it is; NO_ROOM also if not all room is filled.
    """
    begin = np.int64(data.ctypes.data)
    end = begin + size
    at = message = begin
    row, used = table.room[0] - 1, table.room[2]
    num_groups = num_others = np.int64(0)
    first_line = len(table.numbers) - len(_WORKLOAD_NUMBERS)
    values = np.empty(_NUM_VALUES, np.int64)
    while at < end:
        message = at
        is_node = row >= table.room[0]
        num_held = 0
        node = duration = node_kind = _U0
        _forget(values)
        at, stop = _frame(at, end)
        if stop < 0:
            at = stop
        while 0 <= at < stop:
            tag, value, at = _field(at, stop, _NODE_DEPTH)
            if at < 0:
                break
            first = np.int64(value)
            if not is_node:
                if tag == _VERSION:
                    at = _checked(first, at)
                elif tag == _METADATA_ATTRIBUTE:
                    at = _attribute(first, at, values)
            elif tag == _ATTRIBUTE:
                at = _attribute(first, at, values)
            elif tag == _ID:
                node = value
            elif tag == _TEXT_NAME:
                at = _checked(first, at)
            elif tag == _KIND:
                node_kind = value & _LOW_32
            elif tag == _DURATION:
                duration = value
            elif tag == _DATA_DEPS or tag == _CTRL_DEPS or tag == _DATA_DEP or tag == _CTRL_DEP:
                is_packed = tag & 7 == _WIRE_SPAN
                while first < at or not is_packed:
                    if is_packed:
                        value, first = _varint(first, at)
                        if first < 0:
                            at = first
                            break
                    if tag >> 3 == _DATA_DEP >> 3:
                        if used == table.room[3]:
                            return NO_ROOM, message - begin, message - begin, 0, 0
                        table.dep[used] = np.int64(value)
                        used += 1
                        values[_NUM_DATA] += 1
                    else:
                        if num_held == len(held):
                            return NO_ROOM, message - begin, message - begin, 0, 0
                        held[num_held] = np.int64(value)
                        num_held += 1
                    if not is_packed:
                        break
            elif tag == _INPUTS or tag == _OUTPUTS:
                at = _texts(first, at, _TEXTS_OF_IO)
        if at < 0:
            return (-at) & ((1 << _CODE_BITS) - 1), message - begin, ((-at) >> _CODE_BITS) - begin, 0, 0
        if is_node:
            if row == table.room[1] or num_held > table.room[3] - used:
                return NO_ROOM, message - begin, message - begin, 0, 0
            for entry in range(num_held):
                table.dep[used] = held[entry]
                used += 1
            table.dep_first[row + 1] = used
            _put_row(table, row, node, duration, node_kind, values, message - begin)
            if len(table.marks):
                if values[_PG_NAME] != _ABSENT:
                    group = _number(values[_PG_NAME], values[_SIZE], seed, begin, groups, num_groups)
                    num_groups += group == num_groups
                    table.marks[2, row] = group + 1
                for key, line in ((_PATTERN, _LINE_PATTERN), (_OWN_GROUP, _LINE_OWN_GROUP)):
                    length = values[_PATTERN_SIZE + key - _PATTERN]
                    if length != _ABSENT:
                        text = _number(values[key], length, seed, begin, others, num_others)
                        num_others += text == num_others
                        table.numbers[first_line + line, row] = FIRST_TEXT - text
        row += 1
    return FINE if row == table.room[1] and used == table.room[3] else NO_ROOM, 0, 0, num_groups, num_others


@kernel
def find_nodes(data: U8, size: int, rows: I64, places: I64_2D_OUT):
    """Where the nodes in `rows`, which ascend, begin, their ids, and offset and size of their names.

    Into `places`, int64[4, len(rows)]; returns how many were found.
    """
    begin = np.int64(data.ctypes.data)
    end = begin + size
    at = _frame(begin, end)[1]
    row = 0
    found = 0
    while 0 <= at < end and found < len(rows):
        message = at
        first, stop = _frame(at, end)
        at = stop
        if stop >= 0 and rows[found] == row:
            for line in range(4):
                places[line, found] = 0
            places[0, found] = message - begin
            at = first
            while 0 <= at < stop:
                tag, value, at = _field(at, stop, _NODE_DEPTH)
                if tag == _ID:
                    places[1, found] = np.int64(value)
                elif tag == _TEXT_NAME:
                    places[2, found] = np.int64(value) - begin
                    places[3, found] = at - np.int64(value)
            found += at >= 0
        row += 1
    return found


@helper
def _numbers(at, end, out, count):
    """The elements of an int32 list, which `_list` has passed, into `out` from place `count` on; returns where they end."""
    while 0 <= at < end:
        tag, value, at = _field(at, end, _LIST_DEPTH)
        is_packed = tag & 7 == _WIRE_SPAN
        if at < 0 or tag >> 3 != 1 or (not is_packed and tag & 7 != _WIRE_VARINT):
            continue
        entry = np.int64(value)
        while entry < at or not is_packed:
            if is_packed:
                value, entry = _varint(entry, at)
                if entry < 0:
                    return count
            if count < len(out):
                out[count] = _integer(_INT32, value)
            count += 1
            if not is_packed:
                break
    return count


@helper
def _listed(at, end, key, out, count):
    """As `_numbers`, of an attribute that `_attribute` has passed; -1 if it is not the one of this key."""
    before = count
    found = np.int64(-1)
    case = np.int64(0)
    while 0 <= at < end:
        tag, value, at = _field(at, end, _INNER_DEPTH)
        field = tag >> 3
        first = np.int64(value)
        if tag == _NAME:
            found = _name_key(first, at - first)
        elif _FIRST_VALUE <= field <= _LAST_VALUE and tag & 7 == _WIRE_OF[field]:
            if case != field:
                count = before
            if field == _INT32_LIST:
                count = _numbers(first, at, out, count)
            case = field
    return count if found == key else -1


@kernel
def read_lists(data: U8, size: int, rows: I64, key: int, ends: I64_OUT, entries: I32_OUT):
    """The lists that the nodes in `rows`, which ascend, have in the attribute `key`.

    Parameters
    ----------
    ends
        [len(rows)], where each list ends in `entries`.
    entries
        The lists one after another, as far as there is room; call the kernel twice, first to count.
    """
    begin = np.int64(data.ctypes.data)
    end = begin + size
    at = _frame(begin, end)[1]
    row = found = count = 0
    while 0 <= at < end and found < len(rows):
        at, stop = _frame(at, end)
        if stop >= 0 and rows[found] == row:
            while 0 <= at < stop:
                tag, value, at = _field(at, stop, _NODE_DEPTH)
                if tag == _ATTRIBUTE and at >= 0:
                    after = _listed(np.int64(value), at, key, entries, count)
                    if after >= 0:
                        count = after
                        break
            ends[found] = count
            found += 1
        at = stop
        row += 1
    return count
