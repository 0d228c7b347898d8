"""The `Communication` class: what one call of a communication library does on one rank."""

from __future__ import annotations

import re
from dataclasses import dataclass

from astra_tacos.repairer.patterns import pattern_of_name
from astra_tacos.trace.schema import CommType

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
_PEER = re.compile(r"(send|recv)\s*(\d+)\s*(?:->|<-)\s*(\d+)")


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
        other = int(match[3]) if match else peer
        return None if other is None else Communication(name, None, size_bytes, group, word == "send", other)
    pattern = pattern_of_name(name)
    return None if pattern is None else Communication(name, pattern, size_bytes, group)
