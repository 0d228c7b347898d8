"""A mend: what `lint --fix` does about some faults, and why; and the log of what it did."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from astra_tacos.workload.repairer.draft import Draft, Log

Apply = Callable[[Draft, Log], None]


@dataclass(frozen=True, slots=True)
class Mend:
    """What `lint --fix` does about some faults.

    Parameters
    ----------
    name
        The name by which `--without` leaves it out.
    codes
        Rules whose findings it mends.
    apply
        The function that changes the run and logs every change. Its docstring is the explanation: what it does, and why. It
        raises ConfigError where the run has such a fault and nothing says how to mend it.
    leaves_warnings
        Whether it mends only findings that are errors.
    """

    name: str
    codes: tuple[str, ...]
    apply: Apply
    leaves_warnings: bool = False

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return self.explanation.splitlines()[0]

    @property
    def explanation(self) -> str:
        """What it does, and why."""
        return inspect.cleandoc(self.apply.__doc__ or "")


def mend(name: str, *codes: str, leaves_warnings: bool = False) -> Callable[[Apply], Mend]:
    """Make a mend of the function that changes a run; the parameters are those of `Mend`."""
    return lambda apply: Mend(name, codes, apply, leaves_warnings)
