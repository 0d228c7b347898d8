"""Records whose arrays are read-only; arguments of cached functions that are equal by a key of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


def freeze(record: object, *names: str) -> None:
    """Replace arrays of a frozen dataclass by read-only views; None stays. Who made an array may still write to it."""
    for name in names:
        array = getattr(record, name)
        if array is not None and array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
            object.__setattr__(record, name, array)


@dataclass(frozen=True, slots=True)
class Keyed(Generic[_Value]):
    """A value that is equal to another one of the same key.

    A key may have the ids of objects that the value keeps alive: as long as it is cached, they are of no other objects.
    """

    key: tuple[object, ...]
    value: _Value = field(compare=False)
