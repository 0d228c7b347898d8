"""The files of the ordinary run that a compact one stands for, with which ASTRA-sim runs."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from astra_tacos.export.compact_collective import SymmetricTraces
from astra_tacos.export.run_directory import write_run_script
from astra_tacos.network.network_config import read_network
from astra_tacos.planner.run_files import PER_NODE, copy_network
from astra_tacos.run.compact_run import CompactRun, read_compact
from astra_tacos.run.groups import ALL_RANKS, group_ids
from astra_tacos.run.lattice import CompactTrace, Lattice
from astra_tacos.run.run import CLASSES, GROUPS, MEMORY, NETWORK, RANKS, SYSTEM, WORKLOAD, RunInputs, write_groups
from astra_tacos.run.trace.node_bytes import change_attribute, load_rank, node_at, replace_nodes, set_attribute
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.files import check_outside, check_replaceable, replaced_directory

NAME = "w"
"""Name of its workload."""
_ENDS = {NodeType.COMM_SEND: ("comm_src", "comm_dst"), NodeType.COMM_RECV: ("comm_dst", "comm_src")}
"""The attributes with a message's own rank, and with its peer."""


def export_ordinary(some: CompactRun, output: Path) -> None:
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
    check_outside(output, (some.run.directory, Path(some.run.network.source)))
    with replaced_directory(output) as folder:
        write_expanded(some, {}, folder)


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
        some = read_compact(folder, read_network(network))
        export_ordinary(some, output)
        place = some.lattice.places(np.arange(some.lattice.num_ranks)).tolist()
        trace = re.compile(rf"{re.escape(str(output / WORKLOAD / NAME))}\.(\d+)\.et")

        def source(text: str) -> str:
            text = trace.sub(lambda found: f"{folder / CLASSES}.{place[int(found[1])]}.et", text)
            text = text.replace(str(output / GROUPS), str(folder / RANKS)).replace(str(output / NETWORK), str(network))
            return text.replace(str(output), str(folder))

        yield RunInputs.in_folder(output, NAME), source


def write_expanded(some: CompactRun, known: Mapping[str, SymmetricTraces], folder: Path) -> None:
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
    whole, source = some.expand(), some.run.directory
    (folder / WORKLOAD).mkdir()
    grouped = (some.run.workload.kind == NodeType.COMM_COLL) & (group_ids(some.run.columns) != ALL_RANKS)
    groups = grouped, group_ids(whole.columns)
    _write_ranks(some.run.workload, some.lattice, whole.workload.peer, folder / WORKLOAD / NAME, groups)
    for prefix, collective in zip(some.run.prefixes, some.run.collectives, strict=True):
        (folder / prefix).parent.mkdir(parents=True, exist_ok=True)
        if prefix in known:
            known[prefix].write(folder / prefix, range(known[prefix].positions.num_ranks))
        else:
            assert isinstance(collective, CompactTrace)  # `read_compact`
            trace = read_trace(source / prefix, chunks=False, workload=True, most_ranks=collective.trace.num_ranks)
            _write_ranks(trace, collective.lattice, collective.expand().peer, folder / prefix)
    for name in (SYSTEM, PER_NODE, MEMORY):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    copy_network(Path(some.run.network.source), folder)
    write_groups(folder, whole.groups.members)
    write_run_script(folder, f"{WORKLOAD}/{NAME}", some.run.network, "Runs", has_groups=True)


def _write_ranks(
    trace: Trace,
    lattice: Lattice,
    peer: np.ndarray,
    prefix: Path,
    groups: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Write the traces of all ranks: those of their representatives, with ends of messages of their own.

    Parameters
    ----------
    trace, lattice
        The nodes of the representatives, with `workload` columns, and the translations.
    peer
        int64[num_nodes of all ranks], the peers of messages.
    groups
        bool[num_nodes of the representatives], nodes that name a group; and int64[num_nodes of all ranks], which ones these are.
    """
    assert trace.workload is not None
    place = lattice.places(np.arange(lattice.num_ranks))
    first = np.concatenate(([0], np.cumsum(np.diff(trace.rank_first)[place])))
    is_message = np.isin(trace.kind, list(_ENDS))
    grouped, group = groups or (np.zeros(trace.num_nodes, np.bool_), np.empty(0, np.int64))
    chosen = is_message | grouped
    for own in range(trace.num_ranks):
        begin, end = trace.rank_first[own : own + 2].tolist()
        data, offsets = load_rank(trace, own), trace.workload.byte_offset[begin:end]
        nodes = {row: node_at(data, int(offsets[row])) for row in np.flatnonzero(chosen[begin:end]).tolist()}
        for rank in np.flatnonzero(place == own).tolist():
            for row, node in nodes.items():
                of_all = int(first[rank]) + row
                if is_message[begin + row]:
                    mine, other = _ENDS[NodeType(trace.kind[begin + row])]
                    change_attribute(node, mine, rank)
                    change_attribute(node, other, int(peer[of_all]))
                else:
                    set_attribute(node, "pg_name", "string_val", str(int(group[of_all])))
            path = Path(f"{prefix}.{rank}.et")
            path.write_bytes(replace_nodes(data, offsets, nodes, str(path)))
