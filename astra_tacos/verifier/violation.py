"""The `Violation` class: one fault that the oracle found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with a schedule, trace or XML.

    Parameters
    ----------
    code
        What kind of fault, a short kebab-case string that programs can rely on.
    message
        One line: where, what was found, what was expected.
    send, npu, chunk, time_ns
        What it is about, as far as that applies.
    """

    code: str
    message: str
    send: int | None = None
    npu: int | None = None
    chunk: int | None = None
    time_ns: int | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
