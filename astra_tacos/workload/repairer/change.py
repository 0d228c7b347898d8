"""The `Change` class: one thing that a repair did to a run, and why; and the log of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_tacos.workload.repairer.node import DraftNode


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a run.

    Parameters
    ----------
    step
        Name of the step that made it.
    what
        What was changed, in words.
    reason
        Why.
    rank, node
        Where; None for changes of other files, and of a rank as a whole. The node's id is the one before the repair.
    compute_us
        By how many us the change alters the sum of the rank's compute durations.
    is_assumed
        Whether the change rests on something that the files do not say.
    """

    step: str
    what: str
    reason: str
    rank: int | None = None
    node: int | None = None
    compute_us: int = 0
    is_assumed: bool = False

    @property
    def where(self) -> str:
        """The place, like `rank 3 node 17`; "run" for changes that concern all ranks."""
        if self.rank is None:
            return "run"
        return f"rank {self.rank}" if self.node is None else f"rank {self.rank} node {self.node}"


@dataclass(slots=True)
class Log:
    """The changes of one step, as it makes them."""

    step: str
    changes: list[Change] = field(default_factory=list)

    def add(
        self,
        what: str,
        reason: str,
        rank: int | None = None,
        node: int | None = None,
        *,
        compute_us: int = 0,
        is_assumed: bool = False,
    ) -> None:
        """Add a change; the parameters are those of `Change`.

        Parameters
        ----------
        what
            What was changed.
        reason
            Why.
        rank, node
            Where.
        compute_us
            By how many us the rank computes more.
        is_assumed
            Whether the files do not say it.
        """
        self.changes.append(Change(self.step, what, reason, rank, node, compute_us, is_assumed))

    def set(self, rank: int, node: DraftNode, name: str, value: int, reason: str, *, is_assumed: bool = False) -> None:
        """Set an attribute that is a whole number, and say what it was."""
        self.add(f"{name} {node.number(name)} became {value}", reason, rank, node.id, is_assumed=is_assumed)
        node.set(name, value)
