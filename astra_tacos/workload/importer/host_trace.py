"""PyTorch's execution traces of the host: operators without times, with tensors and communication.

Two layouts: up to schema 1.0.1 a node's entries are its own (`parent`, `inputs`, `rf_id`), later ones are in `attrs` and in
`inputs.values`. Every call of a communication library is a node `record_param_comms` (PyTorch `ParamCommsUtils.cpp`).

The `Communication` class: what one call of a communication library does on one rank.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from astra_tacos.run.system import INT32_MAX
from astra_tacos.run.trace.reader import MAX_RANKS
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.numbers import is_whole
from astra_tacos.support.formats.values import are_texts
from astra_tacos.workload.importer.documents import Document
from astra_tacos.workload.repairer.node import bytes_of_tensors, groups_of_text, pattern_of_name, sound_text

DEFAULT_GROUP = "0"
"""PyTorch's name of the group of all ranks, which is ASTRA-sim's, too."""
ELEMENT_BYTES = {
    "float": 4,
    "float32": 4,
    "double": 8,
    "float64": 8,
    "half": 2,
    "float16": 2,
    "bfloat16": 2,
    "long": 8,
    "long int": 8,
    "int64": 8,
    "int": 4,
    "int32": 4,
    "short": 2,
    "int16": 2,
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "int8": 1,
    "uint8": 1,
    "byte": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
"""Bytes of an element, by the names that PyTorch's traces give types; without `c10::`, in lower case."""
MAX_BYTES = 1 << 62
"""Whole numbers of a trace above it are damage: products with a size would not fit 64 bits."""
_RANK = re.compile(r"[0-9]{1,9}")
_PEER = re.compile(r"(send|recv)\s*(\d{1,10})\s*(?:->|<-)\s*(\d{1,10})")


@dataclass(frozen=True, slots=True)
class Communication:
    """A collective, or a message to or from another rank.

    Parameters
    ----------
    pattern
        The pattern of a collective, None for a message.
    size_bytes
        What the rank contributes; None if the trace does not say.
    peer
        The other rank of a message, by its place in the group; None for a collective.
    """

    name: str
    pattern: CommType | None
    size_bytes: int | None
    group: str = DEFAULT_GROUP
    is_send: bool = False
    peer: int | None = None

    @property
    def kind(self) -> tuple[str, int | None]:
        """What two descriptions of one communication agree on: the pattern or direction, and the peer."""
        if self.pattern is not None:
            return self.pattern.name, None
        return ("SEND" if self.is_send else "RECV"), self.peer


def whole_number(value: object, most: int) -> int | None:
    """A value of a document if it is a whole number from 0 to `most`, else None."""
    return value if is_whole(value, 0, most) else None


def rank_list(value: object) -> list[int]:
    """A value of a document if it is a list of ranks, or the text of one, else an empty list.

    The text of a long list ends with "...": it says nothing.
    """
    numbers = str(value).strip("[] ").replace(" ", "").split(",")
    return sorted(set(map(int, numbers))) if all(_RANK.fullmatch(number) for number in numbers) else []


def tensor_bytes(elements: object, kind: object) -> int | None:
    """Bytes of so many elements of a type, None where one of the two is not known."""
    width = ELEMENT_BYTES.get(str(kind).lower().removeprefix("c10::").strip())
    count = whole_number(elements, MAX_BYTES)
    return None if count is None or width is None else whole_number(count * width, MAX_BYTES)


def communication_of(name: str, size_bytes: int | None, group: str, peer: int | None = None) -> Communication | None:
    """What a call does by its name, like `nccl:all_to_all`, `allreduce`, `nccl:send 0->1`; None for a name of something else.

    Parameters
    ----------
    peer
        The other rank of a message, where the name does not say it.
    """
    match = _PEER.search(name)
    word = match[1] if match else name.lower().removeprefix("nccl:").removeprefix("gloo:").strip()
    if word in ("send", "recv"):
        other = whole_number(int(match[3]), INT32_MAX) if match else peer
        return None if other is None else Communication(name, None, size_bytes, group, word == "send", other)
    pattern = pattern_of_name(name)
    return None if pattern is None else Communication(name, pattern, size_bytes, group)


_COMMUNICATION = "record_param_comms"
_GROUPS = "process_group:init"


@dataclass(frozen=True, slots=True, eq=False)
class HostTrace:
    """What a run takes from the host trace of one rank.

    Parameters
    ----------
    groups
        Ranks of each group that the trace defines; none stands for all ranks.
    world_size
        Number of ranks of the job, None if the trace does not say.
    """

    name: str
    communications: tuple[Communication, ...]
    groups: dict[str, list[int]]
    world_size: int | None


def is_host_trace(document: Document) -> bool:
    """Whether a document is an execution trace of the host."""
    return isinstance(document.content.get("nodes"), list) and "schema" in document.content


def read_host_trace(document: Document) -> HostTrace:
    """Read a host trace.

    Raises
    ------
    ConfigError
        If a node is no object.
    """
    nodes = document.content["nodes"]
    for place, node in enumerate(nodes):
        if not isinstance(node, dict) or "name" not in node or not isinstance(node.get("id"), int):
            raise ConfigError(f"{document.name}: nodes[{place}] has no id and name, expected a node of an execution trace")
    groups: dict[str, list[int]] = {}
    world_size: int | None = None
    calls = []
    pointers: dict[int, str] = {}
    for node in sorted(nodes, key=_place):
        if _GROUPS in str(node["name"]):
            for value in _inputs(node):
                groups |= dict(groups_of_text(sound_text(value)))
        elif node["name"] == _COMMUNICATION:
            call = _communication(node, pointers)
            if call is not None:
                calls.append(call)
                size = whole_number(_attribute(node, "pg_size"), MAX_RANKS)
                if call.group == DEFAULT_GROUP and size is not None and size > 1:
                    world_size = max(world_size or 0, size)
    if len(pointers) == 1:  # one communicator in all: that of all ranks
        calls = [replace(call, group=DEFAULT_GROUP) for call in calls]
    return HostTrace(document.name, tuple(calls), groups, world_size)


def _place(node: dict[str, Any]) -> int:
    """The place of a node in the order of the host."""
    return whole_number(_attribute(node, "rf_id"), MAX_BYTES) or int(node["id"])


def _attribute(node: dict[str, Any], name: str) -> Any:
    if name in node:
        return node[name]
    attributes = node.get("attrs")
    if not isinstance(attributes, list):
        return None
    return next((entry.get("value") for entry in attributes if isinstance(entry, dict) and entry.get("name") == name), None)


def _inputs(node: dict[str, Any]) -> list[Any]:
    inputs = node.get("inputs")
    values = inputs.get("values") if isinstance(inputs, dict) else inputs
    return values if isinstance(values, list) else []


def _communication(node: dict[str, Any], pointers: dict[int, str]) -> Communication | None:
    inputs = _inputs(node)
    name = next(filter(None, map(sound_text, (_attribute(node, "collective_name"), *inputs))), "")
    at = inputs.index(name) if name in inputs else 0
    size = tensor_bytes(_attribute(node, "in_msg_nelems"), _attribute(node, "dtype"))
    if size is None:
        size = whole_number(bytes_of_tensors(inputs), MAX_BYTES)
    peer = whole_number(_attribute(node, "dst_rank" if name.startswith("send") else "src_rank"), INT32_MAX)
    if peer is None and at:
        peer = whole_number(inputs[at - 1], INT32_MAX)
    return communication_of(name, size, _group(node, name, at, pointers), peer)


def _group(node: dict[str, Any], name: str, at: int, pointers: dict[int, str]) -> str:
    """Name of the group: an attribute, the tuple (name, description), or a number for the address of a communicator."""
    inputs = _inputs(node)
    if given := sound_text(_attribute(node, "pg_name")):
        return given
    pair = next((value for value in inputs if are_texts(value) and len(value) == 2), None)
    if pair is not None:
        return sound_text(pair[0]) or DEFAULT_GROUP
    # ..., sequence number, address of the communicator, rank, name, ...
    address = inputs[at - 2] if at >= 2 else 0
    if not isinstance(address, int) or not address or communication_of(name, None, "") is None:
        return DEFAULT_GROUP
    return pointers.setdefault(address, f"communicator {len(pointers) + 1}")
