"""The Chakra ET wire schema: MLCommons' own module where it is installed, else the wire-compatible one of this package."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from types import ModuleType
from typing import cast

_VERSION = b"0.0.4"
METADATA = bytes((1 << 3 | 2, len(_VERSION))) + _VERSION
"""The `GlobalMetadata` with which new files begin."""


class NodeType(IntEnum):
    """`NodeType` of the schema, without the `_NODE`.

    Examples
    --------
    >>> from astra_tacos import NodeType
    >>> NodeType.COMM_SEND.name
    'COMM_SEND'
    """

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class CommType(IntEnum):
    """`CollectiveCommType` of the schema.

    Examples
    --------
    >>> from astra_tacos import CommType
    >>> CommType.ALL_REDUCE.name
    'ALL_REDUCE'
    """

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


ATTRIBUTE_KINDS = {
    "is_cpu_op": "bool",
    "comm_type": "int64",
    "comm_size": "int64",
    "num_ops": "int64",
    "tensor_size": "uint64",
    "comm_src": "int32",
    "comm_dst": "int32",
    "comm_tag": "int32",
    "comm_priority": "int32",
    "pg_name": "string",
    "involved_dim": "bool_list",
    "msg_chunk_cnt": "int32",
    "msg_chunk_idx": "int32",
    "total_chunk_cnt": "int32",
    "is_rrc": "bool",
    "msg_chunk_list": "int32_list",
    "place_list": "int32_list",
}
"""The attributes that nodes are given, with kinds of values that every reader of Chakra traces accepts."""


def field_of(name: str) -> str:
    """The field of `AttributeProto` that has the value of an attribute of `ATTRIBUTE_KINDS`."""
    kind = ATTRIBUTE_KINDS[name]
    return kind if kind.endswith("_list") else f"{kind}_val"


@cache
def schema_module() -> ModuleType:
    """The module with the message classes `GlobalMetadata`, `Node` and `AttributeProto`.

    The `chakra` package registers its names in protobuf's default pool. The definition of this package has names of its own
    (see `third_party/chakra_et`), so both can live in one process.
    """
    try:
        from chakra.schema.protobuf import et_def_pb2
    except ImportError:
        from astra_tacos.run.trace import et_schema_pb2

        return et_schema_pb2
    return cast(ModuleType, et_def_pb2)
