"""The `Bound` class: a lower bound on collective time, and the argument that it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound: no schedule finishes before `time_ns`.

    Parameters
    ----------
    name
        Which argument proves it.
    where
        In words, at which place it binds.
    npus
        The NPUs that this place consists of: what a cut separates from the others, or a pair; empty if it is all of them.
    links
        The links that bind there; empty if it is all of them, or none.

    Examples
    --------
    >>> from astra_tacos import Bound
    >>> Bound("egress", 1200, "NPU 3 sends 64 KiB", npus=(3,)).time_ns
    1200
    """

    name: str
    time_ns: int
    where: str
    npus: tuple[int, ...] = ()
    links: tuple[int, ...] = ()
