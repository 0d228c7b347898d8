"""The files of the ordinary run that a compact one stands for, with which ASTRA-sim runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.planner.run_files import write_script
from astra_tacos.run.collective_files import CollectiveFiles
from astra_tacos.run.compact_run import expand
from astra_tacos.run.lattice import CompactTrace
from astra_tacos.run.run import Run
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.trace import Trace
from astra_tacos.run.written import write_nodes
from astra_tacos.support.files import check_outside, check_replaceable, replaced_directory
from astra_tacos.support.grouping import members_of


def export_ordinary(run: Run, output: Path) -> None:
    """Write the ordinary run of a compact one, as it was read from its directory.

    Parameters
    ----------
    output
        A directory that does not exist, or is empty.

    Raises
    ------
    ConfigError
        If the directory has files, the run has too many ranks, or a file cannot be read again.
    """
    check_replaceable(output, "run of astra_tacos", lambda names: not names)
    check_outside(output, (run.directory, Path(run.network.source)))
    with replaced_directory(output) as folder:
        write_expanded(run, {}, folder)


def write_expanded(run: Run, known: Mapping[str, SymmetricTraces], folder: Path) -> None:
    """Write a run directory.

    Parameters
    ----------
    known
        Custom collectives whose traces can be made anew, by the prefix of their files: that is faster than copies.
    folder
        An empty directory to write into.

    Raises
    ------
    ConfigError
        If it has too many ranks, or a file cannot be read again.
    """
    files: dict[str, CollectiveFiles] = {}
    for prefix, collective in zip(run.prefixes, run.collectives, strict=True):
        assert isinstance(collective, CompactTrace)  # `read_compact`
        files[prefix] = known[prefix].of_all() if prefix in known else ExpandedFiles(run.directory / prefix, collective)
    expanded = replace(expand(run), files=files)
    expanded.write(folder)
    write_script(folder, expanded)


@dataclass(frozen=True, slots=True, eq=False)
class ExpandedFiles:
    """The files of all positions of a collective of a compact run, by the prefix of those of its representatives."""

    source: Path
    compact: CompactTrace

    def trace(self, prefix: str) -> Trace:
        """The nodes of all positions."""
        return replace(self.compact.expand(), prefix=prefix)

    def write(self, prefix: Path) -> None:
        """Write the files."""
        before = read_trace(self.source, chunks=False, workload=True, most_ranks=self.compact.trace.num_ranks)
        lattice = self.compact.lattice
        trace = replace(CompactTrace(before, lattice).expand(), files=None)
        write_nodes(trace, before, members_of(before.rank_first, lattice.places(np.arange(lattice.num_ranks)))[1], prefix)
