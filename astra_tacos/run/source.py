"""What a run in memory was made of: the run that was read, and which of its nodes each node was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from astra_tacos.support.arrays import Ints

if TYPE_CHECKING:
    from astra_tacos.run.run import Run


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """What a node of a run in memory says beside its columns.

    Parameters
    ----------
    made_of
        The nodes of the run before that each node was made of, as `ORIGIN_ATTRIBUTE` says them.
    suffix
        What is added to each node's name.
    """

    made_of: tuple[str, ...]
    suffix: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The run whose files a run in memory was made of.

    Parameters
    ----------
    run
        That run, as it was read.
    row
        int64[num_nodes], the row in it that each node was made of. Nodes of one rank are made of nodes of one rank.
    labels
        None where nodes say no more than their columns.
    """

    run: Run
    row: Ints
    labels: Labels | None = None


def made_of(run: Run, row: Ints) -> Source:
    """The source of nodes that were made of the nodes of a run at these rows."""
    before = run.source
    if before is None:
        return Source(run, row)
    labels = before.labels
    if labels is not None:
        labels = Labels(*(tuple(texts[at] for at in row.tolist()) for texts in (labels.made_of, labels.suffix)))
    return Source(before.run, before.row[row], labels)
