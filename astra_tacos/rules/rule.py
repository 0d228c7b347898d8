"""A rule: one fault of a run that ASTRA-sim stumbles over, with what it does and why, and what is found of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from astra_tacos.support.arrays import Ints
from astra_tacos.support.rows import Severity

if TYPE_CHECKING:
    from astra_tacos.rules.node_facts import NodeFacts


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of a run, with its place and a remedy.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import RunInputs, lint
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> report = lint(replace(inputs, network=Path("configs/network/torus_8x8.yml")))
    >>> sorted({finding.code for finding in report.findings if finding.severity == "error"})
    ['F06']
    """

    code: str
    severity: Severity
    message: str
    """The fault, in words."""
    remedy: str
    """What to do about the fault."""
    file: str | None = None
    rank: int | None = None
    node: int | None = None

    @property
    def where(self) -> str:
        """File and node, see `place_of`."""
        return place_of(self.file, self.node)


def place_of(file: str | None, node: int | None) -> str:
    """File and node, like `workload/w.3.et node 17`; the name of a trace's file contains the rank."""
    place = file or "the run"
    return place if node is None else f"{place} node {node}"


@dataclass(frozen=True, slots=True)
class Found:
    """A finding as a rule returns it, without the rule's code, and without a severity unless it differs from the rule's.

    Examples
    --------
    >>> from astra_tacos import Found
    >>> Found("rank 3 waits for rank 5, which never sends", remedy="send the message", rank=3).rank
    3
    """

    message: str
    remedy: str = ""
    file: str | None = None
    rank: int | None = None
    node: int | None = None
    severity: Severity | None = None
    waits: bool = False
    """Whether the replay says that nodes wait for ever; else ASTRA-sim stops."""
    is_replayed: bool = False
    """Whether the replay goes on."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """Findings of one kind at many rows of a trace; the text of each is made only when it is shown."""

    rows: Ints
    describe: Callable[[int], Found]


Findings = Iterator[Found | FoundRows]
F = TypeVar("F", bound="NodeFacts")
"""What a rule asks."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[F]):
    """One kind of fault.

    Parameters
    ----------
    code
        A letter for the family and two digits. A code is never reused for another fault.
    find
        The function that finds the fault. Its docstring is the explanation: what ASTRA-sim does, why, and the remedy.
    settles_timing
        Whether it is looked for only where such warnings are all that is wrong: it tells whether the run stalls.
    """

    code: str
    severity: Severity
    title: str
    find: Callable[[F], Findings]
    left_to_timing: bool = False
    settles_timing: bool = False

    @property
    def explanation(self) -> str:
        """Text that says what happens in ASTRA-sim, why, and what to do about it."""
        return inspect.cleandoc(self.find.__doc__ or "")


def rule(
    code: str,
    title: str,
    severity: Severity = Severity.ERROR,
    *,
    left_to_timing: bool = False,
    settles_timing: bool = False,
) -> Callable[[Callable[[F], Findings]], Rule[F]]:
    """Make a rule of the function that finds a fault; the parameters are those of `Rule`."""
    return lambda find: Rule(code, severity, title, find, left_to_timing, settles_timing)
