"""The slow twin of the reader: protobuf's own parser, and columns node by node."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from astra_tacos.run.trace.schema import CommType, NodeType, schema_module
from astra_tacos.run.trace.trace import (
    ABSENT,
    DANGLING,
    INVALID,
    WORKLOAD_ATTRIBUTES,
    ChunkColumns,
    NumberLists,
    Trace,
    WorkloadColumns,
)

INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64", "bool")
TEXTS = ("string_val", "bytes_val")
LISTS = {"msg_chunk_list": "chunk_lists", "place_list": "place_lists"}
STATED = {
    "root": ("root", "comm_root", "root_rank"),
    "carried_pattern": ("astra_tacos_pattern",),
    "own_group": ("astra_tacos_group",),
}
_MOST = (1 << 63) - 1


class NoTrace(Exception):
    """The bytes are no trace; offset of the message where this shows, None if it is about all of them."""

    def __init__(self, what: str, offset: int | None = None) -> None:
        super().__init__(what)
        self.offset = offset


def naive_messages(data: bytes) -> Iterator[tuple[int, Any]]:
    """Offset and message of each node."""
    schema = schema_module()
    at = 0
    while at < len(data):
        begin, size, shift = at, 0, 0
        while True:
            if at == len(data) or shift == 70:
                raise NoTrace("length", begin)
            byte = data[at]
            size |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        size &= (1 << 64) - 1
        if size > len(data) - at:
            raise NoTrace("truncated", begin)
        message = schema.Node() if begin else schema.GlobalMetadata()
        try:
            message.ParseFromString(data[at : at + size])
        except DecodeError as error:
            raise NoTrace(str(error), begin) from None
        if begin:
            yield begin, message
        at += size


def naive_columns(files: list[bytes], prefix: str = "naive") -> Trace:
    """All columns, from the bytes of each rank's file.

    Raises
    ------
    NoTrace
        Where the reader should raise.
    """
    base: dict[str, list[int]] = {name: [] for name in ("node_id", "kind", "duration_us", "size_bytes", "peer", "tag")}
    chunk: dict[str, list[int]] = {name: [] for name in ("chunk", "num_chunks", "total_chunks", "reduces")}
    names = [name for name in WorkloadColumns.__slots__ if name not in ("group_names", "group")]
    work: dict[str, list[int]] = {name: [] for name in names}
    lists: dict[str, list[tuple[int, list[int]]]] = {name: [] for name in LISTS}
    group: list[int] = []
    group_names: list[str] = []
    rank_first, dep_first, dep = [0], [0], []
    for data in files:
        nodes = list(naive_messages(data))
        row_of = {node.id: rank_first[-1] + row for row, (_, node) in enumerate(nodes)}
        if not nodes or len(row_of) < len(nodes):
            raise NoTrace("no nodes, or two with one id")
        rank_first.append(rank_first[-1] + len(nodes))
        for offset, node in nodes:
            dep += [row_of.get(needed, DANGLING) for needed in (*node.data_deps, *node.ctrl_deps)]
            dep_first.append(len(dep))
            found, wrong_type, no_value = naive_attributes(node)
            sends, receives = node.type == NodeType.COMM_SEND, node.type == NodeType.COMM_RECV
            src, dst = found.get("comm_src", ABSENT), found.get("comm_dst", ABSENT)
            add(
                base,
                node_id=node.id,
                kind=node.type if 0 <= node.type < 255 else 255,
                duration_us=min(node.duration_micros, _MOST),
                size_bytes=found.get("comm_size", ABSENT),
                peer=dst if sends else src if receives else ABSENT,
                tag=found.get("comm_tag", ABSENT),
            )
            add(
                chunk,
                chunk=found.get("msg_chunk_idx", ABSENT),
                num_chunks=found.get("msg_chunk_cnt", ABSENT),
                total_chunks=found.get("total_chunk_cnt", ABSENT),
                reduces=found.get("is_rrc", 0) != 0,
            )
            for name in LISTS:
                if name in found:
                    lists[name].append((len(chunk["chunk"]) - 1, found[name]))
            dimensions = found.get("involved_dim")
            add(
                work,
                **{name: found.get(name, ABSENT) for name in ("comm_type", "num_ops", "tensor_size", "comm_priority")},
                is_cpu_op=found.get("is_cpu_op", 0) != 0,
                own=src if sends else dst if receives else ABSENT,
                involved_dims=ABSENT if dimensions is None else sum(1 << d for d, used in enumerate(dimensions[:63]) if used),
                involved_count=len(dimensions or ()),
                **naive_stated(node),
                num_data=len(node.data_deps),
                wrong_type=wrong_type,
                no_value=no_value,
                byte_offset=offset,
            )
            name = found.get("pg_name")
            if name is not None and name not in group_names:
                group_names.append(name)
            group.append(ABSENT if name is None else group_names.index(name))
    of = {name: np.array(values, np.int64) for name, values in (base | chunk | work).items() if name != "node_id"}
    for name in ("reduces", "is_cpu_op"):
        of[name] = of[name].astype(np.bool_)
    for name in ("wrong_type", "no_value"):
        of[name] = of[name].astype(np.uint32)
    return Trace(
        prefix=prefix,
        rank_first=np.array(rank_first),
        node_id=np.array(base["node_id"], np.uint64),
        kind=of["kind"].astype(np.uint8),
        **{name: of[name] for name in ("duration_us", "size_bytes", "peer", "tag")},
        dep_first=np.array(dep_first),
        dep=np.array(dep, np.int64),
        chunks=ChunkColumns(**{name: of[name] for name in chunk}, **{LISTS[name]: lists_of(lists[name]) for name in LISTS}),
        workload=WorkloadColumns(
            **{name: of[name] for name in work}, group=np.array(group, np.int32), group_names=tuple(group_names)
        ),
    )


def lists_of(listed: list[tuple[int, list[int]]]) -> NumberLists:
    first = np.cumsum([0, *(len(values) for _, values in listed)])
    return NumberLists(
        np.array([row for row, _ in listed], np.int64),
        first,
        np.array([value for _, values in listed for value in values], np.int32),
    )


def add(columns: dict[str, list[int]], **values: int) -> None:
    assert columns.keys() == values.keys()
    for name, value in values.items():
        columns[name].append(value)


def naive_attributes(node: Any) -> tuple[dict[str, Any], int, int]:
    """Values by name, of the first attribute of each name; bit sets of wrong types and missing values."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    wrong_type = no_value = 0
    for attribute in node.attr:
        name, which = attribute.name, attribute.WhichOneof("value")
        if name in seen:
            continue
        seen.add(name)
        mark = 1 << WORKLOAD_ATTRIBUTES.index(name) if name in WORKLOAD_ATTRIBUTES else 0
        if which is None:
            no_value |= mark
        elif name == "pg_name" and which in TEXTS:
            value = getattr(attribute, which)
            found[name] = value if isinstance(value, str) else value.decode(errors="backslashreplace")
        elif name == "involved_dim" and which == "bool_list":
            found[name] = list(attribute.bool_list.values)
        elif name in LISTS and which == "int32_list":
            found[name] = list(attribute.int32_list.values)
        elif name not in ("pg_name", "involved_dim", *LISTS) and which in [f"{kind}_val" for kind in INTEGERS]:
            found[name] = min(int(getattr(attribute, which)), _MOST)
        else:
            wrong_type |= mark
    return found, wrong_type, no_value


def naive_stated(node: Any) -> dict[str, int]:
    """Root, carried pattern and own group."""
    of: dict[str, Any] = {}
    for name, words in STATED.items():
        first = next((each for each in node.attr if each.name in words), None)
        which = None if first is None else first.WhichOneof("value")
        of[name] = None if which is None else (which.removesuffix("_val"), getattr(first, which))
    root, pattern, group = of["root"], of["carried_pattern"], of["own_group"]
    is_pattern = pattern is not None and pattern[0] == "string" and pattern[1] in CommType.__members__
    is_group = group is not None and group[0] in ("string", *INTEGERS) and str(group[1]).isdecimal()
    return {
        "root": ABSENT if root is None else min(int(root[1]), _MOST) if root[0] in INTEGERS else INVALID,
        "carried_pattern": ABSENT if pattern is None else CommType[pattern[1]] if is_pattern else INVALID,
        "own_group": ABSENT if group is None else min(int(group[1]), _MOST) if is_group else INVALID,
    }


def naive_trace(prefix: Path) -> Trace:
    """As `read_trace(prefix, workload=True)`."""
    files = []
    while (path := Path(f"{prefix}.{len(files)}.et")).exists():
        data = path.read_bytes()
        files.append(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    return naive_columns(files, str(prefix))


def assert_equal(found: Trace, expected: Trace) -> None:
    """Both have the same columns, of the same types."""
    pairs = [(found, expected), (found.chunks, expected.chunks), (found.workload, expected.workload)]
    if found.chunks is not None and expected.chunks is not None:
        pairs += [(getattr(found.chunks, name), getattr(expected.chunks, name)) for name in LISTS.values()]
    for ours, theirs in pairs:
        for name in type(theirs).__slots__ if theirs is not None and ours is not None else ():
            value, wanted = getattr(ours, name), getattr(theirs, name)
            if isinstance(wanted, np.ndarray):
                assert value.dtype == wanted.dtype, name
                assert value.tolist() == wanted.tolist(), name
            elif name not in ("prefix", "chunks", "workload", *LISTS.values()):
                assert value == wanted, name
