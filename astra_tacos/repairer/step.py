"""The `Step` class: one kind of fault, and how it is mended."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import Draft


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a repair.

    Parameters
    ----------
    name
        As users type it to switch it off.
    codes
        Findings of `lint` that it mends.
    leaves_warnings
        Whether it mends them only where they are errors.
    apply
        Changes the run and logs every change; its docstring says what it does, and why. It raises ConfigError where the run
        has such a fault and nothing says how to mend it.
    """

    name: str
    codes: tuple[str, ...]
    apply: Callable[[Draft, Log], None]
    leaves_warnings: bool = False

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return inspect.cleandoc(self.apply.__doc__ or "").splitlines()[0]

    @property
    def explanation(self) -> str:
        """What it does, and why."""
        return inspect.cleandoc(self.apply.__doc__ or "")
