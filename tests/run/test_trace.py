"""Chakra traces: what is written, protobuf reads; what protobuf wrote is read; and the `chakra` package may be there too."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
from google.protobuf.internal.encoder import _VarintBytes
from helpers.examples import examples
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.run.trace import et_schema_pb2 as schema
from astra_tacos.run.trace.schema import ATTRIBUTE_KINDS, NodeType, schema_module
from astra_tacos.run.trace.writer import ATTRIBUTE_KEYS, NodeTable, encode_trace

INT64 = st.integers(0, (1 << 63) - 1)
LISTS = st.lists(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=300), min_size=3, max_size=3)


def message(item):
    data = item.SerializeToString()
    return _VarintBytes(len(data)) + data


@st.composite
def nodes(draw):
    count = draw(st.integers(1, 6))
    return [
        {
            "id": draw(INT64),
            "name": draw(st.integers(0, 2)),
            "number": draw(st.integers(0, 10**12)),
            "kind": draw(st.integers(0, 7)),
            "duration": draw(INT64),
            "ctrl": draw(st.lists(INT64, max_size=4)),
            "data": draw(st.lists(INT64, max_size=40)),
            "attributes": draw(
                st.lists(st.tuples(st.sampled_from(sorted(ATTRIBUTE_KEYS)), st.integers(0, (1 << 31) - 1)), max_size=9)
            ),
        }
        for _ in range(count)
    ]


def first(lists):
    return np.concatenate(([0], np.cumsum([len(entry) for entry in lists]))).astype(np.int64)


def flat(lists, dtype=np.int64):
    return np.array([value for entry in lists for value in entry], dtype)


def as_stored(name, value):
    return value % {"bool": 2, "int32_list": 3}.get(ATTRIBUTE_KINDS[name], 1 << 62)


def as_field(name, value):
    return str(value) if ATTRIBUTE_KINDS[name] == "string" else value


@examples(20)
@given(nodes(), LISTS)
def test_encoding_is_protobufs_own(rows, lists):
    names = ("send_", "something longer_", "n" * 3000)
    attributes = [[(name, as_stored(name, value)) for name, value in row["attributes"]] for row in rows]
    table = NodeTable(
        node_id=np.array([row["id"] for row in rows]),
        kind=np.array([row["kind"] for row in rows], np.uint8),
        duration_us=np.array([row["duration"] for row in rows]),
        names=names,
        name=np.array([row["name"] for row in rows], np.uint16),
        name_number=np.array([row["number"] for row in rows]),
        ctrl_first=first([row["ctrl"] for row in rows]),
        ctrl=flat([row["ctrl"] for row in rows]),
        data_first=first([row["data"] for row in rows]),
        data=flat([row["data"] for row in rows]),
        attr_first=first(attributes),
        attr_key=flat([[ATTRIBUTE_KEYS[name] for name, _ in entry] for entry in attributes], np.uint8),
        attr_value=flat([[value for _, value in entry] for entry in attributes]),
        list_first=first(lists),
        list_entry=flat(lists, np.int32),
    )
    expected = message(schema.GlobalMetadata(version="0.0.4"))
    for row, entry in zip(rows, attributes, strict=True):
        node = schema.Node(id=row["id"], name=names[row["name"]] + str(row["number"]), type=row["kind"])
        node.ctrl_deps.extend(row["ctrl"])
        node.data_deps.extend(row["data"])
        node.duration_micros = row["duration"]
        for name, value in entry:
            if ATTRIBUTE_KINDS[name] == "int32_list":
                node.attr.add(name=name, int32_list=schema.Int32List(values=lists[value]))
                continue
            node.attr.add(name=name, **{f"{ATTRIBUTE_KINDS[name]}_val": as_field(name, value)})
        expected += message(node)
    assert encode_trace(table, 0, len(rows)) == expected


def write_rank(path, *rows):
    path.write_bytes(message(schema.GlobalMetadata(version="0.0.4")) + b"".join(message(row) for row in rows))


STAND_IN = """
    import sys, types
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from astra_tacos.run.trace import et_schema_pb2

    own = descriptor_pb2.FileDescriptorProto()
    et_schema_pb2.DESCRIPTOR.CopyToProto(own)
    own.name, own.package = "et_def.proto", "ChakraProtoMsg"
    for part in own.message_type:
        for field in part.field:
            if field.type_name:
                field.type_name = field.type_name.replace("astra_tacos.chakra_et", "ChakraProtoMsg")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(own.SerializeToString())
    module = types.ModuleType("chakra.schema.protobuf.et_def_pb2")
    for name in ("Node", "GlobalMetadata", "AttributeProto"):
        setattr(module, name, message_factory.GetMessageClass(pool.FindMessageTypeByName("ChakraProtoMsg." + name)))
    for name in ("chakra", "chakra.schema", "chakra.schema.protobuf"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["chakra.schema.protobuf"].et_def_pb2 = module
    sys.modules[module.__name__] = module

    from astra_tacos.run.trace.reader import read_trace
    from astra_tacos.run.trace.schema import schema_module
    assert schema_module() is module
    assert module.Node.DESCRIPTOR.full_name == "ChakraProtoMsg.Node"
    trace = read_trace(sys.argv[1])
    assert trace.num_nodes == 1 and trace.node_id[0] == 8, trace
    assert et_schema_pb2.Node(id=8).SerializeToString() == module.Node(id=8).SerializeToString()
"""


def test_lives_beside_an_installed_chakra_package(tmp_path):
    """A stand-in registers MLCommons' names in protobuf's default pool; then its classes read, and both work."""
    write_rank(tmp_path / "t.0.et", schema.Node(id=8))
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(STAND_IN), str(tmp_path / "t")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_own_schema_without_the_chakra_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "chakra", None)
    assert schema_module() is schema


def test_enums_are_the_schemas():
    assert {kind.name + "_NODE": int(kind) for kind in NodeType} == dict(schema.NodeType.items())


def test_generated_module_matches_the_proto(tmp_path):
    """Every message and field that the .proto states is in the generated module, with its number."""
    text = (Path(__file__).parents[2] / "third_party/chakra_et/et_schema.proto").read_text()
    stated, current = set(), ""
    for line in text.splitlines():
        words = line.split("//")[0].replace("{", " { ").replace(";", " ").split()
        if words[:1] == ["message"]:
            current = words[1]
        if current and "=" in words and not words[0].isupper():
            place = words.index("=")
            stated.add((current, words[place - 1], int(words[place + 1])))
        if words[:1] == ["enum"]:
            current = ""
    generated = {
        (name, field.name, field.number)
        for name, described in schema.DESCRIPTOR.message_types_by_name.items()
        for field in described.fields
    }
    assert generated == stated
