"""A lower bound: a time, and what it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """No schedule finishes before `time_ns`; `name` says which argument proves it, `where` at which place it binds."""

    name: str
    time_ns: int
    where: str
