"""The `DraftNode` class: one node of a trace under repair; and what names that PyTorch, NCCL and converters give stand for."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from astra_tacos.run.system import INT32_MAX
from astra_tacos.run.trace.node_bytes import add_attribute
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.support.formats.numbers import is_whole

ALL_RANKS = ("", "0")
"""Names that stand for the group of all ranks."""
_WORDS = (
    (CommType.REDUCE_SCATTER, "reducescatter"),
    (CommType.ALL_REDUCE, "allreduce"),
    (CommType.ALL_GATHER, "allgather"),
    (CommType.ALL_TO_ALL, "alltoall"),
    (CommType.ALL_TO_ALL, "all2all"),
    (CommType.BROADCAST, "broadcast"),
    (CommType.BROADCAST, "bcast"),
    (CommType.BARRIER, "barrier"),
    (CommType.SCATTER, "scatter"),
    (CommType.GATHER, "gather"),
    (CommType.REDUCE, "reduce"),
)
"""The longest words first, as they contain others."""
_NOT_LETTERS = re.compile(r"[^a-z0-9]+")


def sound_text(value: object) -> str:
    """A value of a document if it is a text, else an empty one; half surrogate pairs, which UTF-8 cannot hold, are `?`."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def groups_of_text(text: str) -> Iterator[tuple[str, list[int]]]:
    """Name and ranks of each group that the text of a `process_group:init` lists."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or "pg_name" not in entry:
            continue
        ranks = entry.get("ranks", [])
        if isinstance(ranks, dict):  # older PyTorch: rank in the world to rank in the group
            ranks = [int(rank) for rank in ranks if str(rank).isdecimal()]
        if isinstance(ranks, list) and all(is_whole(rank, 0, INT32_MAX) for rank in ranks):
            yield sound_text(str(entry["pg_name"])), ranks


def pattern_of_name(name: str) -> CommType | None:
    """The pattern that a name contains, like `ncclDevKernel_AllReduce_Sum_f32_RING_LL` or `c10d::allgather_`; None for none."""
    # A kernel's argument types come after its name, and operators have their namespace before it.
    letters = _NOT_LETTERS.sub("", name.split("(")[0].lower())
    return next((pattern for pattern, word in _WORDS if word in letters), None)


def bytes_of_tensors(inputs: Iterable[Any]) -> int | None:
    """Size of the tensors among the inputs of a node, each counted once; None without any.

    A tensor is a list of its id, storage, offset, number of elements, bytes of each, and device.
    """
    sizes: dict[tuple[int, ...], int] = {}
    stack = list(inputs)
    while stack:
        value = stack.pop()
        if not isinstance(value, (list, tuple)):
            continue
        numbers = tuple(value[:5])
        if len(value) == 6 and isinstance(value[5], str) and all(type(number) is int for number in numbers):
            sizes[numbers] = max(numbers[3], 0) * max(numbers[4], 0)
        else:
            stack.extend(value)
    return sum(sizes.values()) if sizes else None


INTEGERS = {
    "bool_val",
    *(
        f"{kind}_val"
        for kind in ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64")
    ),
}
_ACCEPTED = {"pg_name": {"string_val", "bytes_val"}, "involved_dim": {"bool_list"}}


def accepted_fields(name: str) -> set[str]:
    """The fields in which ASTRA-sim reads an attribute."""
    return _ACCEPTED.get(name, INTEGERS)


class DraftNode:
    """A node: a protobuf message whose attributes are looked up by name; what nobody changes keeps its bytes."""

    __slots__ = ("message", "rank")

    def __init__(self, message: Any) -> None:
        self.message = message
        self.rank = 0
        """That of the nodes among which it is."""

    @property
    def seen(self) -> Any:
        """Its message, to be looked at only."""
        return self.message

    @property
    def id(self) -> int:
        """Its id, unique within the rank."""
        return int(self.seen.id)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.seen.name)

    @property
    def kind(self) -> int:
        """Its `NodeType`, or another number."""
        return int(self.seen.type)

    @property
    def duration_us(self) -> int:
        """Its duration."""
        return int(self.seen.duration_micros)

    @property
    def is_cpu_op(self) -> bool:
        """Whether it runs on the CPU."""
        return bool(self.get("is_cpu_op"))

    @property
    def group(self) -> str:
        """Name of the communicator group, one of `ALL_RANKS` for all ranks."""
        return self.group_name or ""

    @property
    def group_name(self) -> str | None:
        """The name as the node states it, None where it states none."""
        name = self.get("pg_name")
        return name.decode(errors="backslashreplace") if isinstance(name, bytes) else name

    @property
    def pattern(self) -> int | None:
        """Pattern of the collective."""
        return self.number("comm_type")

    @property
    def size(self) -> int | None:
        """Bytes of the collective or message."""
        return self.number("comm_size")

    @property
    def is_collective(self) -> bool:
        """Whether it is a collective."""
        return self.kind == NodeType.COMM_COLL

    @property
    def is_message(self) -> bool:
        """Whether it is a send or a receive."""
        return self.kind in (NodeType.COMM_SEND, NodeType.COMM_RECV)

    @property
    def deps(self) -> list[int]:
        """Ids of the nodes that it depends on, data first."""
        return [*self.seen.data_deps, *self.seen.ctrl_deps]

    def _attribute(self, name: str) -> Any:
        return next((entry for entry in self.seen.attr if entry.name == name), None)

    def field(self, name: str) -> str | None:
        """Name of the field that holds an attribute's value: None without the attribute, "" for one without a value."""
        entry = self._attribute(name)
        return None if entry is None else entry.WhichOneof("value") or ""

    def get(self, name: str) -> Any:
        """Value of an attribute, None where it has none."""
        entry = self._attribute(name)
        kind = None if entry is None else entry.WhichOneof("value")
        return None if kind is None else getattr(entry, kind)

    def number(self, name: str) -> int | None:
        """Value of an attribute if it is a whole number, else None."""
        return int(self.get(name)) if self.field(name) in INTEGERS else None

    def set(self, name: str, value: object) -> None:
        """Set an attribute; a node has it once afterwards."""
        self.drop(name)
        add_attribute(self.message, name, value)

    def drop(self, name: str) -> None:
        """Remove an attribute."""
        if self._attribute(name) is not None:
            kept = [entry for entry in self.message.attr if entry.name != name]
            copies = [type(entry).FromString(entry.SerializeToString()) for entry in kept]
            del self.message.attr[:]
            self.message.attr.extend(copies)

    def depend(self, ids: Iterable[int]) -> None:
        """Add control dependencies that it does not have."""
        have = set(self.deps)
        self.message.ctrl_deps.extend(dep for dep in dict.fromkeys(ids) if dep not in have)

    def replace_deps(self, keep: Any) -> None:
        """Replace each dependency by the ids that `keep(id)` gives; each id stays once, data before control."""
        seen: set[int] = set()
        for deps in (self.message.data_deps, self.message.ctrl_deps):
            new = []
            for dep in deps:
                for other in keep(dep):
                    if other not in seen:
                        seen.add(other)
                        new.append(other)
            if new != list(deps):
                deps[:] = new

    def copy(self) -> DraftNode:
        """Another node with the same contents."""
        message = type(self.seen)()
        message.CopyFrom(self.seen)
        return DraftNode(message)

    def texts(self) -> list[Any]:
        """Values of its `inputs`, as the Python literal that converters write; empty if they are something else."""
        text = self.seen.inputs.values
        try:
            values = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return []
        return list(values) if isinstance(values, (list, tuple)) else []

    def tensor_bytes(self) -> int | None:
        """Size of the tensors among its inputs; None without any."""
        return bytes_of_tensors(self.texts())
