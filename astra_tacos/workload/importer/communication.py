"""The `Communication` class: what one call of a communication library does on one rank."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_tacos.run.communicator import MAX_RANK
from astra_tacos.run.trace.schema import CommType
from astra_tacos.workload.repairer.names import pattern_of_name

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
_PEER = re.compile(r"(send|recv)\s*(\d{1,10})\s*(?:->|<-)\s*(\d{1,10})")


@dataclass(frozen=True, slots=True)
class Communication:
    """A collective, or a message to or from another rank.

    Parameters
    ----------
    name
        As the trace gives it.
    pattern
        The pattern of a collective, None for a message.
    size_bytes
        What the rank contributes; None if the trace does not say.
    group
        Name of its communicator group.
    is_send
        Whether a message is sent.
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
    return value if type(value) is int and 0 <= value <= most else None


def rank_list(value: object) -> list[int]:
    """A value of a document if it is a list of ranks, else an empty list."""
    if not isinstance(value, list) or not all(whole_number(rank, MAX_RANK) is not None for rank in value):
        return []
    return sorted(set(value))


def sound_text(text: str) -> str:
    """A text that UTF-8 can hold: half surrogate pairs, which JSON can hold, are question marks."""
    return text.encode("utf-8", "replace").decode()


def element_bytes(name: str) -> int | None:
    """Bytes of an element of a type, None for one that is not known."""
    return ELEMENT_BYTES.get(name.lower().removeprefix("c10::").strip())


def communication_of(name: str, size_bytes: int | None, group: str, peer: int | None = None) -> Communication | None:
    """What a call does by its name, like `nccl:all_to_all`, `allreduce`, `nccl:send 0->1`; None for a name of something else.

    Parameters
    ----------
    name
        The name.
    size_bytes
        What the rank contributes.
    group
        Name of the group.
    peer
        The other rank of a message, where the name does not say it.
    """
    match = _PEER.search(name)
    word = match[1] if match else name.lower().removeprefix("nccl:").removeprefix("gloo:").strip()
    if word in ("send", "recv"):
        other = whole_number(int(match[3]), MAX_RANK) if match else peer
        return None if other is None else Communication(name, None, size_bytes, group, word == "send", other)
    pattern = pattern_of_name(name)
    return None if pattern is None else Communication(name, pattern, size_bytes, group)
