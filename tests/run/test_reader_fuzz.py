"""The reader against protobuf's parser: on every encoding, and on files with changed bytes.

`FUZZ_EXAMPLES` says how many files hypothesis makes for each test; `FUZZ_SECONDS` (set by `make fuzz`) adds a test that goes on
for so long. Which bytes are refused depends a little on protobuf's implementation, so that is compared with upb only, the usual
one.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import sys
import tarfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import ARCHIVE
from google.protobuf.internal import api_implementation
from helpers.lint_runs import bodies
from helpers.naive_trace import NoTrace, assert_equal, naive_columns, naive_messages
from helpers.trace_bytes import Builder, mutate
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_tacos.run.trace.reader import read_ranks
from astra_tacos.run.trace.scan import FileBytes, find
from astra_tacos.support.errors import ConfigError

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "400"))
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
IS_UPB = api_implementation.Type() == "upb"
PADDING = 16
SEED = st.integers(0, (1 << 48) - 1)


def in_memory(data, beyond):
    """What lies behind the data is one byte again and again: it must not matter which. What lies behind that cannot be read."""
    size = len(data) + PADDING
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, pages + mmap.PAGESIZE), np.uint8)
    if sys.platform == "linux":
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.ctypes.data + pages), mmap.PAGESIZE, 0) == 0
    array = memory[pages - size : pages]
    array[:] = np.frombuffer(data + bytes([beyond]) * PADDING, np.uint8)
    return FileBytes(Path("fuzz.0.et"), array, len(data), False)


def read(data, beyond=0):
    return read_ranks("fuzz", [lambda: in_memory(data, beyond)], threads=1, chunks=True, workload=True)


def check(data):
    """Both read the same, or both refuse, at the same message; whether they read it."""
    if not data:
        return False
    expected, refusal = None, None
    try:
        expected = naive_columns([data])
    except NoTrace as error:
        refusal = error
    for beyond in (0, 0x7F, 0xFF):
        try:
            found = read(data, beyond)
        except ConfigError as error:
            assert expected is None or not IS_UPB, f"refused: {error}"
            assert "\n" not in str(error)
            if refusal is not None and refusal.offset is not None and IS_UPB and "a second node" not in str(error):
                assert f"byte {refusal.offset}:" in str(error)
        else:
            assert expected is not None or not IS_UPB, f"should be refused: {refusal}"
            if expected is not None:
                assert_equal(found, expected)
    if expected is not None:
        names = [node.name for _, node in naive_messages(data)]
        rows = np.arange(len(names))
        assert find(in_memory(data, 0xFF), rows)[2] == tuple(names)
    return expected is not None


@cache
def bodies_of_recorded_runs():
    """Messages of some files of recorded ASTRA-sim runs, one list a file."""
    with tarfile.open(ARCHIVE) as archive:
        names = [name for name in archive.getnames() if name.endswith(".0.et")]
        return [bodies(archive.extractfile(name).read())[:40] for name in names]


def one_built(source):
    builder = Builder(source, source.randrange(3) == 0)
    return builder.framed(builder.messages())


def one_mutated(source):
    """A file with changed bytes, or with changed messages whose lengths are right."""
    builder = Builder(source, False)
    messages = builder.messages() if source.randrange(2) else list(source.choice(bodies_of_recorded_runs()))
    if source.randrange(4) == 0:
        return mutate(source, builder.framed(messages))
    place = source.randrange(len(messages))
    messages[place] = mutate(source, messages[place])
    return builder.framed(messages)


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEED)
def test_every_encoding_is_read_as_protobuf_reads_it(seed):
    check(one_built(random.Random(seed)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEED)
def test_changed_bytes_are_read_or_refused_as_protobuf_does(seed):
    check(one_mutated(random.Random(seed)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused_as_protobuf_does(data):
    check(data)
    check(b"\0" + bytes([len(data)]) + data)


def test_what_is_made_up_is_read_often_enough():
    """Files that are all refused, or all read, would test nothing."""

    def share(files):
        return float(np.mean([check(data) for data in files]))

    assert 0.5 < share(one_built(random.Random(seed)) for seed in range(300)) < 0.95
    assert 0.1 < share(one_mutated(random.Random(seed)) for seed in range(300)) < 0.95


@pytest.mark.skipif(not SECONDS, reason="set FUZZ_SECONDS, or run `make fuzz`")
def test_for_long():
    begin, first, count = time.monotonic(), random.SystemRandom().getrandbits(48), 0
    while time.monotonic() - begin < SECONDS:
        seed = first + count
        make = (one_built, one_mutated)[count % 2]
        try:
            check(make(random.Random(seed)))
        except BaseException:
            print(f"{make.__name__}(random.Random({seed}))")
            raise
        count += 1
    print(f"{count} files from seed {first}")
