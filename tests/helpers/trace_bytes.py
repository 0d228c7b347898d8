"""Chakra traces byte by byte: every encoding that protobuf takes, and some that it does not."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from astra_tacos.run.trace.node_bytes import framed
from astra_tacos.run.trace.trace import WORKLOAD_ATTRIBUTES

VARINT, FIXED64, SPAN, OPEN, CLOSE, FIXED32 = range(6)
WIRE_OF = dict.fromkeys(range(3, 29, 2), VARINT)
WIRE_OF |= {3: FIXED64, 5: FIXED32, 19: FIXED32, 21: FIXED64, 23: FIXED32, 25: FIXED64, 29: SPAN, 31: SPAN}
"""Wire type of the fields that are an attribute's value; a list has the number after."""
STATED = ("root", "comm_root", "root_rank", "astra_tacos_pattern", "astra_tacos_group")
NAMES = [
    *(*WORKLOAD_ATTRIBUTES, "msg_chunk_idx", "msg_chunk_cnt", "total_chunk_cnt", "is_rrc", "msg_chunk_list", "place_list"),
    *STATED,
]
NEAR = [
    "",
    "colour",
    "comm_siz",
    "comm_size\0",
    "comm_sizes",
    "Comm_size",
    "involved_dims",
    "pg_nam",
    "n" * 16,
    "roots",
    "astra_tacos_grouq",
    "astra_tacos_group\0",
    "astra_tacos_patter",
    "astra_tacos_ppttern",
    "é" * 5,
    "0" * 200,
]
GROUP_NAMES = (
    "",
    "0",
    "1",
    "2",
    "12345678",
    "123456789",
    "a" * 17,
    "a" * 16 + "b",
    "größe",
    "\0",
    "BROADCAST",
    "REDUCE",
    "-1",
    "٣",
)
NUMBERS = [0, 1, 2, 5, 6, 7, 127, 128, 300, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
TEXTS = [b"", b"send_1", b"12345678", "größer €".encode(), "\U0001f600 \ud7ff\ue000".encode(), b"x" * 300]
BAD_TEXTS = [
    b"\xff",
    b"abc\x80",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"12345678\xe2\x82",
    b"\xf8\x88\x80\x80\x80",
    b"\xe2(",
]


class Builder:
    """Bytes drawn from a source of randomness; what protobuf refuses only if `bad`."""

    def __init__(self, source: random.Random, bad: bool) -> None:
        self.source, self.choice, self.below = source, source.choice, source.randrange
        self.bad = bad

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def number(self) -> int:
        return self.choice(NUMBERS) if self.chance(60) else self.source.getrandbits(self.below(1, 65))

    def varint(self, value: int, longest: int = 10) -> bytes:
        value &= (1 << 64) - 1
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
        if self.chance(8) and len(out) < longest:
            out[-1] |= 128
            out += b"\x80" * self.below(longest - len(out)) + b"\0"
        if len(out) == 10 and self.chance(20):
            out[-1] |= self.below(64) << 1  # beyond 64 bits
        if self.bad and self.chance(1):
            out[-1] |= 128
        return bytes(out)

    def tag(self, field: int, wire: int) -> bytes:
        if self.bad and self.chance(1):
            field = self.choice([0, 1 << 29, 1 << 32])
        return self.varint(field << 3 | wire, 6 if self.bad else 5)

    def span(self, field: int, body: bytes) -> bytes:
        size = len(body)
        if self.bad and self.chance(1):
            size = self.choice([size + 1, max(size - 1, 0), 1 << 31, (1 << 31) - 1, 1 << 60])
        return self.tag(field, SPAN) + self.varint(size, 6 if self.bad else 5) + body

    def text(self) -> bytes:
        return self.choice(BAD_TEXTS if self.bad and self.chance(2) else TEXTS)

    def bare(self, wire: int) -> bytes:
        """A value of a wire type without its tag."""
        if wire == VARINT:
            return self.varint(self.number())
        if wire == SPAN:
            body = self.source.randbytes(self.below(12))
            return self.varint(len(body), 5) + body
        return self.source.randbytes(8 if wire == FIXED64 else 4)

    def unknown(self, depth: int = 0) -> bytes:
        """A field that the schema does not have, or not in this wire type."""
        field = self.choice([self.below(1, 40), self.below(33, 2048), (1 << 29) - 1])
        wire = self.choice([VARINT, FIXED64, SPAN, OPEN, FIXED32])
        if self.bad and self.chance(2):
            wire = self.choice([CLOSE, 6, 7])
            return self.tag(field, wire)
        if (wire == SPAN and field < 40) or (wire == VARINT and field == 1):
            field += 40  # a text or message that means something would have to be sound, and ids are to be different
        if wire != OPEN:
            return self.tag(field, wire) + self.bare(wire)
        if depth == 0 and self.chance(3):
            levels = self.below(96, 103) if self.bad else self.below(50, 98)
            return self.tag(field, OPEN) * levels + self.tag(field, CLOSE) * levels
        inner = b"".join(self.unknown(depth + 1) for _ in range(self.below(3))) if depth < 4 else b""
        close = field + 1 if self.bad and self.chance(2) else field
        return self.tag(field, OPEN) + inner + self.tag(close, CLOSE)

    def mixed(self, parts: list[bytes]) -> bytes:
        """Fields in any order, now and then one twice or an unknown one between."""
        if self.chance(20):
            parts.append(self.unknown())
        if parts and self.chance(10):
            parts.append(self.choice(parts))
        if self.chance(30):
            self.source.shuffle(parts)
        return b"".join(parts)

    def listed(self, field: int) -> bytes:
        """The message of a list whose elements are of the type with that field number."""
        wire = WIRE_OF[field]
        parts = []
        for _ in range(self.below(4)):
            if field == 29:
                parts.append(self.span(1, self.text()))
            elif wire != SPAN and self.chance(60):
                body = b"".join(self.bare(wire) for _ in range(self.choice([0, 1, 3, 9, 70])))
                parts.append(self.span(1, body[:-1] if self.bad and self.chance(3) else body))
            else:
                parts.append(self.tag(1, wire) + self.bare(wire))
        return self.mixed(parts)

    def value(self, name: str) -> bytes:
        """A value of an attribute, most often of a type that fits its name."""
        if self.chance(75):
            usual = {"pg_name": 29, "involved_dim": 28, "is_cpu_op": 27, "is_rrc": 27, "msg_chunk_list": 8, "place_list": 8}
            usual |= {"astra_tacos_pattern": 29, "astra_tacos_group": self.choice([29, 9])}
            field = usual.get(name, self.choice([7, 9, 13]))
        else:
            field = self.below(3, 33)
        if field % 2 == 0:
            return self.span(field, self.listed(field - 1))
        if field == 29 or field == 31:
            return self.span(field, self.choice(GROUP_NAMES).encode() if self.chance(90) else self.text())
        return self.tag(field, WIRE_OF[field]) + self.bare(WIRE_OF[field])

    def attribute(self) -> bytes:
        name = self.choice(NAMES) if self.chance(85) else self.choice(NEAR)
        parts = [self.span(1, name.encode())] if self.chance(95) else []
        parts += [self.value(name) for _ in range(self.source.choices([0, 1, 2, 3], [10, 75, 10, 5])[0])]
        if self.chance(5):
            parts.append(self.span(2, self.text()))
        return self.mixed(parts)

    def dependencies(self, field: int, ids: list[int]) -> list[bytes]:
        known = [self.choice(ids) if self.chance(80) else self.number() for _ in range(self.choice([0, 0, 1, 2, 20]))]
        if self.chance(70):
            body = b"".join(self.varint(one) for one in known)
            return [self.span(field, body)] if known or self.chance(10) else []
        return [self.tag(field, VARINT) + self.varint(one) for one in known]

    def node(self, node_id: int, ids: list[int]) -> bytes:
        parts = [self.tag(1, VARINT) + self.varint(node_id)] if node_id else []
        if self.chance(80):
            parts.append(self.span(2, self.text()))
        if self.chance(95):
            kind = self.below(8) if self.chance(90) else self.number()
            parts.append(self.tag(3, VARINT) + self.varint(kind))
        parts += self.dependencies(4, ids) + self.dependencies(5, ids)
        if self.chance(30):
            parts.append(self.tag(self.choice([6, 7]), VARINT) + self.varint(self.number()))
        if self.chance(10):
            inner = [self.span(self.below(1, 5), self.text()) for _ in range(3)]
            parts.append(self.span(self.choice([8, 9]), self.mixed(inner)))
        parts += [self.span(10, self.attribute()) for _ in range(self.below(7))]
        return self.mixed(parts)

    def metadata(self) -> bytes:
        return self.mixed([self.span(1, b"0.0.4"), *(self.span(2, self.attribute()) for _ in range(self.below(2)))])

    def messages(self) -> list[bytes]:
        """Bodies of a file's messages."""
        count = self.choice([1, 2, 3, 8, 30])
        first, step = self.choice([(0, 1), (5, 1), (3, 7), (1 << 63, 1), (1 << 40, 1 << 20)])
        ids = [(first + step * place) % (1 << 64) for place in range(count)]
        if self.chance(30):
            ids = [self.source.getrandbits(64) for _ in ids]
        if self.chance(40):
            self.source.shuffle(ids)
        if self.bad and self.chance(5):
            ids.append(ids[0])
        return [self.metadata(), *(self.node(node_id, ids) for node_id in ids)]

    def framed(self, bodies: list[bytes]) -> bytes:
        return b"".join(self.varint(len(body)) + body for body in bodies)


def mutate(source: random.Random, data: bytes) -> bytes:
    """A few bytes changed, taken away, put in or repeated."""
    out = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 5])):
        at = source.randrange(len(out) + 1)
        size = source.choice([1, 1, 2, 5, 20])
        match source.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << source.randrange(8)
            case 1 if at < len(out):
                out[at] = source.choice([0, 1, 8, 10, 0x0B, 0x0C, 0x52, 0x7F, 0x80, 0xFF, source.randrange(256)])
            case 2:
                del out[at : at + size]
            case 3:
                out[at:at] = source.randbytes(size)
            case 4:
                out[at:at] = out[at : at + size]
            case _:
                other = source.randrange(len(out) + 1)
                out[at : at + size] = out[other : other + size]
    return bytes(out)


def encode_messages(metadata: Any, nodes: Iterable[Any]) -> bytes:
    """The bytes of a trace file."""
    return b"".join(framed(message) for message in (metadata, *nodes))
