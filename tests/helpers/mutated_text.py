"""Files that people write, with something in them changed: numbers, words, brackets, bytes."""

from __future__ import annotations

import random
import re

_SHORT = (
    b"0 -1 1e400 1e308 -0.0 NaN Infinity -Infinity .nan .inf 190:20:30 1_000 010 0x10 1e-320 1e19 0.1 3 2147483648 "
    b"9223372036854775808 18446744073709551616 true null ~ [] {} '' 'a' [1] {a:1} \"=1\" \"\\u0000\" \xef\xbc\x91"
)
NUMBERS = (*_SHORT.split(), b"1" * 5000, b"0x" + b"f" * 6000, b"1" + b"0" * 40)
"""What a number is replaced by."""
SIGNS = (
    *(bytes([byte]) for byte in b"[]{}:,\"'-\t\n #|>%@=e\r\x00\xff\x1b19.*/()<"),
    *(b"&a ", b"*a", b"<<", b"!!int ", b"!!bool ", b"\xe2\x80\xae", b"\xc2\x85", b"\xef\xbb\xbf", b"\x1b[2J", b"**", b"//"),
)
"""What is put in anywhere."""
WHOLE = (b"", b"\x00" * 100, b"[" * 20_000, b'{"a":' * 20_000, b"- " * 5000, b"(" * 5000, b"\xff\xfe[\x00")
"""What takes the place of everything, now and then."""
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z_-]+|\"[^\"\n]*\"")


def mutated(data: bytes, seed: int) -> bytes:
    """The data with one to eight changes, most of them of numbers and words."""
    rng = random.Random(seed)
    if rng.random() < 0.02:
        return rng.choice((*WHOLE, bytes(rng.randrange(256) for _ in range(200))))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = _changed(data, rng)
    return data


def _changed(data: bytes, rng: random.Random) -> bytes:
    first = rng.randrange(len(data) + 1)
    last = first + rng.randrange(1, 30)
    kind = rng.randrange(9)
    if kind < 3 and (numbers := list(_NUMBER.finditer(data))):
        number = rng.choice(numbers)
        return data[: number.start()] + rng.choice(NUMBERS) + data[number.end() :]
    if kind < 5 and (words := list(_WORD.finditer(data))):
        word = rng.choice(words)
        return data[: word.start()] + rng.choice((rng.choice(words)[0], rng.choice(NUMBERS))) + data[word.end() :]
    if kind == 5:
        return data[:first] + rng.choice(SIGNS) + data[first:]
    if kind == 6:
        return data[:first] + data[last:]
    if kind == 7:
        return data[:first] + bytes([rng.randrange(256)]) + data[first + 1 :]
    elsewhere = rng.randrange(len(data) + 1)
    return data[:elsewhere] + data[first:last] + data[elsewhere:]
