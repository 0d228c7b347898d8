"""The `Violation` class: one fault that the oracle found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault of a schedule, trace or XML.

    Parameters
    ----------
    code
        Kind of the fault: a short kebab-case string that stays the same in later versions.
    message
        One line: the place, what was found, what was expected.
    send, npu, chunk, time_ns
        The send, NPU, chunk and time of the fault; None if they do not apply.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, synthesize, verify
    >>> topology = build_topology(NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),)))
    >>> schedule = synthesize(topology, all_gather(4, 1 << 20), synthesizer="ring")
    >>> violation = verify(replace(schedule, start_ns=schedule.start_ns - 1))[0]
    >>> violation.send, violation.code
    (0, 'negative-start')
    """

    code: str
    message: str
    send: int | None = None
    npu: int | None = None
    chunk: int | None = None
    time_ns: int | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
