"""The files of the ordinary run that a compact one stands for, with which ASTRA-sim runs."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.network.network_config import read_network
from astra_tacos.network.network_files import NETWORK
from astra_tacos.planner.run_files import write_script
from astra_tacos.run.collective_files import CollectiveFiles
from astra_tacos.run.compact_run import expand, read_compact
from astra_tacos.run.lattice import CompactTrace
from astra_tacos.run.run import CLASSES, GROUPS, NAME, RANKS, WORKLOAD, Run, RunInputs
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.trace import ABSENT, Trace
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


@contextlib.contextmanager
def expanded(folder: Path, network: Path) -> Iterator[tuple[RunInputs, Callable[[str], str]]]:
    """The files of the ordinary run of a compact one, in a directory that goes away; and what names their sources in a text.

    Raises
    ------
    ConfigError
        If the run has too many ranks, or a file is not what it should be.
    """
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "run"
        run = read_compact(folder, read_network(network))
        export_ordinary(run, output)
        place = run.lattice.places(np.arange(run.lattice.num_ranks)).tolist()
        trace = re.compile(rf"{re.escape(str(output / WORKLOAD / NAME))}\.(\d+)\.et")

        def source(text: str) -> str:
            text = trace.sub(lambda found: f"{folder / CLASSES}.{place[int(found[1])]}.et", text)
            text = text.replace(str(output / GROUPS), str(folder / RANKS)).replace(str(output / NETWORK), str(network))
            return text.replace(str(output), str(folder))

        yield RunInputs.in_folder(output, NAME), source


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
    whole = replace(expand(run), files=files)
    whole.write(folder)
    write_script(folder, whole)


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
        positions = np.arange(lattice.num_ranks)
        trace = CompactTrace(before, lattice).expand()
        assert trace.workload is not None  # that was asked for
        own = np.where(trace.workload.own == ABSENT, ABSENT, trace.rank)
        row = members_of(before.rank_first, lattice.places(positions))[1]
        write_nodes(replace(trace, files=None, workload=replace(trace.workload, own=own)), before, row, prefix)
