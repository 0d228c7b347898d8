"""Writing of Chakra traces from columns, in protobuf's wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from astra_tacos.run.trace.schema import ATTRIBUTE_KINDS, METADATA, NodeType
from astra_tacos.support.arrays import Bools, Ints, Ints32

Values: TypeAlias = NDArray[np.integer] | int
"""Of an attribute: those of all nodes, or one for all."""

_VARINT, _LENGTH = 0, 2
_TAGS = {"int32": 7 << 3 | _VARINT, "int64": 9 << 3 | _VARINT, "uint64": 13 << 3 | _VARINT, "bool": 27 << 3 | _VARINT}
_TAGS |= {"string": 29 << 3 | _LENGTH, "int32_list": 8 << 3 | _LENGTH}
_WRITTEN = tuple(name for name, kind in ATTRIBUTE_KINDS.items() if kind in _TAGS)
ATTRIBUTE_KEYS = {name: key for key, name in enumerate(_WRITTEN)}
"""The attributes that columns can have.

Values are numbers; a string is the decimal text of one (groups have numbers for names), a list has the number of one in
`NodeTable.list_first`."""
_LIST_KEYS = [key for name, key in ATTRIBUTE_KEYS.items() if ATTRIBUTE_KINDS[name] == "int32_list"]


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """Nodes to write, as columns. `*_first` are the first entries of each node in the column that follows (CSR).

    Parameters
    ----------
    node_id, kind, duration_us
        int64, uint8 and int64 [num_nodes].
    names, name, name_number
        The name of node i is `names[name[i]]` followed by `name_number[i]`; uint16 and int64 [num_nodes].
    attr_first, attr_key, attr_value
        Attributes: key in `ATTRIBUTE_KEYS`, value int64.
    list_first, list_entry
        int64[num_lists + 1] and int32[...], the lists that attributes have; none by default.
    """

    node_id: Ints
    kind: NDArray[np.uint8]
    duration_us: Ints
    names: tuple[str, ...]
    name: NDArray[np.uint16]
    name_number: Ints
    ctrl_first: Ints
    ctrl: Ints
    data_first: Ints
    data: Ints
    attr_first: Ints
    attr_key: NDArray[np.uint8]
    attr_value: Ints
    list_first: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    list_entry: Ints32 = field(default_factory=lambda: np.empty(0, np.int32))

    @classmethod
    def of(
        cls,
        *,
        node_id: Ints,
        kind: NDArray[np.uint8],
        duration_us: Ints,
        names: tuple[str, ...],
        name: Ints,
        name_number: Ints,
        ctrl: tuple[Ints, Ints],
        data: tuple[Ints, Ints],
        attributes: Mapping[str, tuple[Bools, Values]],
        lists: tuple[Ints, Ints32] | tuple[()] = (),
    ) -> NodeTable:
        """Nodes of attributes by name.

        Parameters
        ----------
        attributes
            By attribute, in the order in which a node has them: which nodes have one, and the values of all nodes, or one for
            all.
        """
        counts = np.zeros(len(node_id) + 1, np.int64)
        for has, _ in attributes.values():
            counts[1:] += has
        first = np.cumsum(counts)
        keys, values = np.empty(first[-1], np.uint8), np.empty(first[-1], np.int64)
        free = first[:-1].copy()
        for attribute, (has, value) in attributes.items():
            nodes = np.flatnonzero(has)
            keys[free[nodes]] = ATTRIBUTE_KEYS[attribute]
            values[free[nodes]] = value if isinstance(value, int) else value[nodes]
            free[nodes] += 1
        shape = node_id, kind, duration_us, names, name.astype(np.uint16), name_number, *ctrl, *data
        return cls(*shape, first, keys, values, *lists)

    def with_values(self, columns: Mapping[str, Ints]) -> NodeTable:
        """The nodes with other values of attributes that they have: by attribute, the values of all nodes."""
        value = self.attr_value.copy()
        node = np.repeat(np.arange(len(self.node_id)), np.diff(self.attr_first))
        for name, column in columns.items():
            at = np.flatnonzero(self.attr_key == ATTRIBUTE_KEYS[name])
            value[at] = column[node[at]]
        return replace(self, attr_value=value)


def encode_trace(table: NodeTable, begin: int, end: int) -> bytes:
    """The bytes of a trace file: metadata and the nodes `begin` to `end - 1`."""
    from astra_tacos.run.trace._row_kernels import Nodes, Texts, encode_nodes

    name_first, name_bytes = _strings(table.names)
    key_first, key_bytes = _strings(_WRITTEN)
    fields = np.array([_TAGS[ATTRIBUTE_KINDS[name]] for name in _WRITTEN], np.int64)
    longest_key = max(map(len, _WRITTEN))
    entries = (table.ctrl_first, table.data_first)
    longest_name = int(np.diff(name_first).max(initial=0))
    bound = (end - begin) * (128 + longest_name) + 10 * sum(int(first[end] - first[begin]) for first in entries)
    bound += int(table.attr_first[end] - table.attr_first[begin]) * (longest_key + 48)
    if len(table.list_first) > 1:
        attributes = slice(int(table.attr_first[begin]), int(table.attr_first[end]))
        lists = table.attr_value[attributes][np.isin(table.attr_key[attributes], _LIST_KEYS)]
        bound += 10 * int(np.diff(table.list_first)[lists].sum())
    out = np.empty(bound, np.uint8)
    nodes = Nodes(
        table.node_id,
        table.kind,
        table.duration_us,
        table.name,
        table.name_number,
        table.ctrl_first,
        table.ctrl,
        table.data_first,
        table.data,
        table.attr_first,
        table.attr_key,
        table.attr_value,
        table.list_first,
        table.list_entry,
    )
    size = encode_nodes(out, begin, end, nodes, Texts(name_first, name_bytes), Texts(key_first, key_bytes), fields)
    return bytes((len(METADATA),)) + METADATA + out[:size].tobytes()


def encode_node(name: str, kind: NodeType, attributes: Mapping[str, int]) -> bytes:
    """The bytes of a trace file of one node, which takes no time by itself."""
    none = np.zeros(2, np.int64), np.empty(0, np.int64)
    table = NodeTable.of(
        node_id=np.array([0]),
        kind=np.array([kind], np.uint8),
        duration_us=np.array([0]),
        names=(name,),
        name=np.array([0]),
        name_number=np.array([0]),
        ctrl=none,
        data=none,
        attributes={key: (np.ones(1, np.bool_), value) for key, value in attributes.items()},
    )
    return encode_trace(table, 0, 1)


def write_trace(path: Path, table: NodeTable, begin: int, end: int) -> None:
    """Write `encode_trace` to a file."""
    path.write_bytes(encode_trace(table, begin, end))


def _strings(texts: tuple[str, ...]) -> tuple[Ints, NDArray[np.uint8]]:
    encoded = [text.encode() for text in texts]
    first = np.concatenate(([0], np.cumsum([len(text) for text in encoded]))).astype(np.int64)
    return first, np.frombuffer(b"".join(encoded), np.uint8)
