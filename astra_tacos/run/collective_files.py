"""The files of a custom collective: those of a run that was read, or those that will be written."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from astra_tacos.run.lattice import CompactTrace
from astra_tacos.run.trace.reader import trace_files
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT, Trace, idle_trace


@runtime_checkable
class CollectiveFiles(Protocol):
    """A custom collective whose files can be written."""

    def trace(self, prefix: str) -> Trace | CompactTrace:
        """The nodes, as they are read of the files `PREFIX.<position>.et`."""
        ...

    def write(self, prefix: Path) -> object:
        """Write the files."""
        ...


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """The files of a collective of another run, by their prefix, and its nodes."""

    source: Path
    nodes: Trace

    def trace(self, prefix: str) -> Trace:
        """The nodes under another prefix."""
        return replace(self.nodes, prefix=prefix)

    def write(self, prefix: Path) -> None:
        """Copy the files."""
        for position, file in enumerate(trace_files(self.source)[: self.nodes.num_ranks]):
            shutil.copyfile(file, f"{prefix}.{position}.et")


@dataclass(frozen=True, slots=True)
class IdleFiles:
    """A collective in which nothing moves."""

    num_ranks: int

    def trace(self, prefix: str) -> Trace:
        """A node without work for each rank."""
        zeros, absent = np.zeros(self.num_ranks, np.int64), np.full(self.num_ranks, ABSENT)
        return Trace(
            prefix,
            np.arange(self.num_ranks + 1),
            zeros.astype(np.uint64),
            np.full(self.num_ranks, NodeType.COMP, np.uint8),
            zeros,
            absent,
            absent,
            absent,
            np.zeros(self.num_ranks + 1, np.int64),
            np.empty(0, np.int64),
        )

    def write(self, prefix: Path) -> None:
        """Write the files."""
        for position in range(self.num_ranks):
            Path(f"{prefix}.{position}.et").write_bytes(idle_trace())
