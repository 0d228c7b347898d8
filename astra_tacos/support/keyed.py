"""Arguments of cached functions that are equal by a key of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Keyed(Generic[_Value]):
    """A value that is equal to another one of the same key.

    A key may have the ids of objects that the value keeps alive: as long as it is cached, they are of no other objects.
    """

    key: tuple[object, ...]
    value: _Value = field(compare=False)
