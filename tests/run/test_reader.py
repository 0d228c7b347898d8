"""The reader: equal to protobuf's parser on recorded runs, and one line for whatever is no trace, however large or twisted."""

from __future__ import annotations

import gzip
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.internal.encoder import _VarintBytes
from helpers.damage import refusal
from helpers.examples import examples
from helpers.naive_trace import assert_equal, naive_columns, naive_messages, naive_trace
from helpers.trace_bytes import Builder
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.run.patterns import GROUP_ATTRIBUTE, PATTERN_ATTRIBUTE, ROOT_ATTRIBUTES
from astra_tacos.run.trace import _scan_kernels, reader
from astra_tacos.run.trace import et_schema_pb2 as schema
from astra_tacos.run.trace._row_kernels import UNIQUE, ids_to_rows
from astra_tacos.run.trace.reader import read_names, read_ranks, read_trace, trace_files
from astra_tacos.run.trace.scan import FREE_UNPACKED_BYTES, FileBytes, measure
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import DANGLING, WORKLOAD_ATTRIBUTES
from astra_tacos.support.errors import ConfigError

METADATA = b"\x07\x0a\x050.0.4"
ID = st.one_of(st.integers(0, 20), st.integers(0, (1 << 64) - 1), st.integers((1 << 64) - 20, (1 << 64) - 1))


def framed(*bodies):
    return METADATA + b"".join(_VarintBytes(len(body)) + body for body in bodies)


def message(*nodes):
    return framed(*(node.SerializeToString() for node in nodes))


def read(directory, data, **wanted):
    (directory / "t.0.et").write_bytes(data)
    return read_trace(directory / "t", **wanted)


def refused(directory, data):
    """The one line."""
    text = refusal(read, directory, data)
    assert text.startswith(str(directory / "t.0.et"))
    return text.removeprefix(str(directory / "t.0.et: "))


def file_bytes(data):
    array = np.frombuffer(bytearray(data + bytes(_scan_kernels.PADDING)), np.uint8)
    return FileBytes(Path("t.0.et"), array, len(data), False)


# ---- Recorded and made-up traces ----


def check_folder(folder):
    """Every trace in a folder is read as protobuf reads it; how many there are."""
    prefixes = [path.with_name(path.name[: -len(".0.et")]) for path in folder.rglob("*.0.et")]
    for prefix in prefixes:
        trace = read_trace(prefix, workload=True)
        assert_equal(trace, naive_trace(prefix))
        names = [node.name for path in trace_files(prefix) for _, node in naive_messages(path.read_bytes())]
        rows = random.Random(1).choices(range(trace.num_nodes), k=50)
        assert read_names(trace, rows) == [names[row] for row in rows]
    return len(prefixes)


@pytest.mark.golden_cases("*")
def test_recorded_runs_are_read_as_protobuf_reads_them(golden, golden_case):
    assert check_folder(golden / golden_case)


def test_inputs_of_others_are_read_as_protobuf_reads_them(astra_sim_inputs):
    assert check_folder(astra_sim_inputs)
    assert check_folder(astra_sim_inputs.parent / "stage_dense16")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kept", [0, 5000, 1 << 28])
def test_threads_and_memory_make_no_difference(monkeypatch, threads, kept):
    """Ranks number their groups by themselves, and files may have to be loaded twice."""
    monkeypatch.setattr(reader, "_KEPT_BYTES", kept)
    builders = [Builder(random.Random(seed), False) for seed in range(40)]
    data = [builder.framed(builder.messages()) for builder in builders]
    expected = naive_columns(data)
    assert expected.workload is not None and len(expected.workload.group_names) > 3
    found = read_ranks("t", [partial(file_bytes, one) for one in data], threads=threads, chunks=True, workload=True)
    assert_equal(found, expected)


def test_columns_that_are_not_wanted_are_left_out(tmp_path):
    node = schema.Node(id=3, type=NodeType.COMM_SEND)
    for name in ("comm_size", "comm_dst", "comm_src", "msg_chunk_idx", "num_ops"):
        node.attr.add(name=name, int32_val=len(name))
    whole = read(tmp_path, message(node), workload=True)
    for chunks in (False, True):
        for workload in (False, True):
            trace = read(tmp_path, message(node), chunks=chunks, workload=workload)
            assert (trace.chunks is not None, trace.workload is not None) == (chunks, workload)
            assert_equal(trace, whole)


# ---- What counts ----


def test_what_is_no_utf_8_in_the_name_of_a_group_is_shown_somehow(tmp_path):
    """In C++, string and bytes are one type."""
    node = schema.Node(id=1, type=NodeType.COMM_COLL)
    node.attr.add(name="pg_name", bytes_val=b"a\xff")
    trace = read(tmp_path, message(node), workload=True)
    assert_equal(trace, naive_trace(tmp_path / "t"))
    assert trace.workload.group_names == ("a\\xff",)


def test_the_kernels_names_are_the_traces():
    names = _scan_kernels.ATTRIBUTES
    assert names[: len(WORKLOAD_ATTRIBUTES)] == WORKLOAD_ATTRIBUTES
    assert set(_scan_kernels._NAME_KEY.tolist()) == set(range(-1, len(names)))
    root = names.index(ROOT_ATTRIBUTES[0])
    assert tuple((name, root) for name in ROOT_ATTRIBUTES[1:]) == _scan_kernels.SYNONYMS
    assert {PATTERN_ATTRIBUTE, GROUP_ATTRIBUTE} < set(names)
    assert _scan_kernels._NAME_KEY.tolist().count(-1) == 32 - len(names) - len(_scan_kernels.SYNONYMS)


# ---- From ids to rows ----


@examples(20)
@given(st.lists(ID, min_size=1, max_size=40, unique=True), st.lists(ID, max_size=20), st.booleans(), ID, st.data())
def test_ids_become_rows(ids, other, shift, seed, data):
    if shift:
        ids = [(ids[0] + place) % (1 << 64) for place in range(len(ids))]
    wanted = data.draw(st.lists(st.sampled_from(ids), max_size=40)) + other
    dep = np.array(wanted, np.uint64).view(np.int64)
    first = data.draw(st.integers(0, 1 << 40))
    assert ids_to_rows(np.array(ids, np.uint64).view(np.int64), dep, first, np.uint64(seed)) == UNIQUE
    assert dep.tolist() == [first + ids.index(one) if one in ids else DANGLING for one in wanted]


@examples(20)
@given(st.lists(ID, min_size=2, max_size=40), ID)
def test_the_second_node_of_an_id_is_found(ids, seed):
    expected = next((row for row, one in enumerate(ids) if one in ids[:row]), UNIQUE)
    assert ids_to_rows(np.array(ids, np.uint64).view(np.int64), np.empty(0, np.int64), 0, np.uint64(seed)) == expected


# ---- Names ----


def test_names_are_read_in_any_order(tmp_path):
    for rank in range(3):
        nodes = [schema.Node(id=10 - number, name=f"node {rank} {number} ü") for number in range(4)]
        (tmp_path / f"t.{rank}.et").write_bytes(message(*nodes))
    trace = read_trace(tmp_path / "t")
    assert read_names(trace, [11, 0, 5, 0]) == ["node 2 3 ü", "node 0 0 ü", "node 1 1 ü", "node 0 0 ü"]
    assert read_names(trace, []) == []
    for data in (message(*nodes[:2]), message(*reversed(nodes)), METADATA[:3]):
        (tmp_path / "t.1.et").write_bytes(data)
        with pytest.raises(ConfigError, match=r"t\.1\.et: has changed since it was read, expected node"):
            read_names(trace, [4, 7])


# ---- Files that are missing, cut off, compressed, empty, or made to do harm ----


def test_missing_ranks(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.0\.et: no such file"):
        read_trace(tmp_path / "none")
    for name in ("gap", "g[a]p"):
        for rank in (0, 1, 3):
            (tmp_path / f"{name}.{rank}.et").write_bytes(message(schema.Node(id=1)))
        with pytest.raises(ConfigError) as caught:
            trace_files(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}.2.et: no such file, although there is one of rank 3"


GOOD = message(schema.Node(id=1, type=NodeType.COMP))
AT = len(GOOD)
REFUSALS = [
    (b"", "file is empty, expected a Chakra trace"),
    (GOOD[:-1], "byte 8: a message of 4 bytes, but 3 are left: truncated?"),
    (METADATA, "no nodes, expected at least one (ASTRA-sim needs it)"),
    (_VarintBytes(1 << 60), "byte 0: a message of 1152921504606846976 bytes, but 0 are left: truncated?"),
    (
        framed(b"\x2a\x05\x01"),
        "byte 8: not a Chakra message (at byte 10: a length that reaches beyond the end)",
    ),
    (b"\xff" * 40, "byte 0: not the length of a message, expected a Chakra trace"),
    (GOOD + b"\x03\x00\x01\x01", f"byte {AT}: not a Chakra message (at byte {AT + 1}: no field begins like this)"),
    (framed(b"\x0e\x01"), "byte 8: not a Chakra message (at byte 10: a field of wire type 6 or 7)"),
    (
        framed(b"\x08" + b"\x80" * 10),
        "byte 8: not a Chakra message (at byte 10: a number that does not end)",
    ),
    (framed(b"\x12\x02a\xff"), "byte 8: not a Chakra message (at byte 11: text that is not UTF-8)"),
    (framed(b"\x0c"), "byte 8: not a Chakra message (at byte 10: a group without beginning or end)"),
    (framed(b"\x52\x06\xa2\x01\x03\x0a\x01\x01"), "a packed list whose last number is cut off)"),
    (
        message(schema.Node(id=7), schema.Node(id=7)),
        "byte 11: a second node has the id 7, expected ids to be unique",
    ),
    (framed(b"\x7b" * 1_000_000), "groups that are nested too deep)"),
    (framed(b"\x52" + _VarintBytes(1_000_000) + b"\x7b" * 1_000_000), "nested too deep)"),
    (gzip.compress(GOOD)[:-9], "cannot be read (Compressed file ended before"),
    (gzip.compress(GOOD)[:-5] + bytes(5), "cannot be read ("),
    (gzip.compress(b""), "file is empty"),
    (gzip.compress(GOOD[:-1]), "byte 8 of what it unpacks to: a message of 4 bytes, but 3 are left"),
    (bytes(3_000_000), "byte 2: a second node has the id 0, expected ids to be unique"),
]


@pytest.mark.parametrize(("data", "expected"), REFUSALS, ids=range(len(REFUSALS)))
def test_a_bad_file_gets_one_line_with_file_and_offset(tmp_path, data, expected):
    assert expected in refused(tmp_path, data)


def test_compressed_files_are_read(tmp_path):
    expected = read(tmp_path, GOOD)
    assert_equal(read(tmp_path, gzip.compress(GOOD)), expected)
    assert_equal(read(tmp_path, gzip.compress(GOOD[:5]) + gzip.compress(GOOD[5:]) + bytes(7)), expected)


def test_a_bomb_is_not_unpacked(tmp_path):
    data = gzip.compress(bytes(FREE_UNPACKED_BYTES + 1))
    assert (
        refused(tmp_path, data) == f"{len(data)} bytes that unpack to more than {FREE_UNPACKED_BYTES}, expected a trace, of less"
    )


@pytest.mark.parametrize(("size", "ids"), {0: 1, 2: 128, 3: 128**2}.items())
def test_no_room_is_made_for_nodes_that_cannot_have_ids_of_their_own(size, ids):
    body = b"" if size == 0 else b"\x08" + b"\x80" * (size - 2) + b"\x01"
    extent = measure(file_bytes(framed(*[body] * (ids + 1000))))
    assert extent.num_nodes == ids + 1
    assert extent.size == len(framed(*[body] * (ids + 1)))


def test_a_file_that_changes_while_it_is_read(monkeypatch):
    monkeypatch.setattr(reader, "_KEPT_BYTES", 0)
    small, large = schema.Node(id=1), schema.Node(id=2, data_deps=[1, 2], ctrl_deps=[1, 2])
    for before, after in (
        (message(small), message(small, large)),
        (message(small, large), message(small)),
        (GOOD, message(large)),
    ):
        loads = iter([GOOD, before, GOOD, after])
        with pytest.raises(ConfigError, match=r"t\.0\.et: has changed while it was read, expected a file that stays as it is"):
            read_ranks("t", [lambda loads=loads: file_bytes(next(loads))] * 2, threads=1, chunks=True, workload=False)


def test_no_memory_is_one_line(tmp_path, monkeypatch):
    def none(*_, **__):
        raise MemoryError

    monkeypatch.setattr(reader, "room_for", none)
    (tmp_path / "t.0.et").write_bytes(GOOD)
    with pytest.raises(ConfigError, match="traces are too large for this machine's memory"):
        read_trace(tmp_path / "t")
