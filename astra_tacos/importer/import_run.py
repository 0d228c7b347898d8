"""`import_run`: from PyTorch's traces to a run that ASTRA-sim finishes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.errors import ConfigError
from astra_tacos.importer.documents import read_documents
from astra_tacos.importer.garbage import garbage_kept
from astra_tacos.importer.rank_nodes import rank_nodes
from astra_tacos.importer.rank_sources import RankSource, find_ranks
from astra_tacos.repairer.change import Log
from astra_tacos.repairer.draft import ALL_RANKS
from astra_tacos.repairer.inputs import RepairInputs
from astra_tacos.repairer.reading import draft_of
from astra_tacos.repairer.repair import RepairResult, check_repair_output, chosen_steps, finish_run
from astra_tacos.run.backend import Backend
from astra_tacos.trace.node_messages import new_metadata

PREFIX = "w"
_STEP = "import"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How traces become a run.

    Parameters
    ----------
    backend
        The network model, or its name; None for that of the network.
    num_ranks
        Number of ranks to replicate a single rank's trace over; None for as many as the trace says that there are.
    without
        Names of steps of `repair` that are not taken.
    """

    backend: Backend | str | None = None
    num_ranks: int | None = None
    without: tuple[str, ...] = ()


def import_run(
    files: Iterable[str | Path],
    output: str | Path,
    inputs: RepairInputs = RepairInputs(Path(PREFIX)),  # noqa: B008 (frozen)
    options: ImportOptions = ImportOptions(),
) -> RepairResult:
    """Make a run of PyTorch's execution traces, of Kineto traces, or of both, and write it as a run directory.

    With Kineto traces, compute nodes have measured durations. The steps of `repair` follow, so that the run ends.

    Parameters
    ----------
    files
        JSON files, also compressed by gzip, and tar archives of such files.
    output
        Directory to write; an imported run that is there is replaced.
    inputs
        Further files of the run; the workload's prefix has no meaning.
    options
        How traces become a run.

    Raises
    ------
    ConfigError
        If a file is no trace of PyTorch, a rank is missing, or the run has a fault that no step of `repair` mends.
    ReplayError
        If the run would not end.
    """
    output = Path(output)
    check_repair_output(output, inputs)
    steps = chosen_steps(options.without)
    log = Log(_STEP)
    with garbage_kept():
        sources = find_ranks(read_documents(Path(file) for file in files))
        num_ranks = _num_ranks(sources, options.num_ranks)
        planned = [rank_nodes(rank, source, log) for rank, source in enumerate(sources)]
        ranks = [[node.to_draft(node_id) for node_id, node in enumerate(nodes)] for nodes in planned]
    if not any(nodes for nodes in ranks):
        raise ConfigError(f"{sources[0].names}: nothing that computes on a GPU or communicates, expected a trace of training")
    if sources[0].device is None:
        log.add("computation takes no time", "there is no Kineto trace, and a host's trace has no times", is_assumed=True)
    notes = tuple(f"rank {rank}: {source.names}" for rank, source in enumerate(sources))
    draft, defaults = draft_of(PREFIX, ranks, _groups(sources), inputs, options.backend, num_ranks)
    if draft.network.num_npus != num_ranks:
        hint = " (--ranks N replicates a single one)" if len(sources) == 1 else ""
        raise ConfigError(
            f"{draft.network.source}: found {draft.network.num_npus:,} NPUs, but the traces are of {num_ranks:,} ranks{hint}"
        )
    draft.metadata.extend(new_metadata() for _ in ranks)
    return finish_run(draft, output, steps, defaults, options.without, notes=notes, changes=log.changes)


def _num_ranks(sources: list[RankSource], asked: int | None) -> int:
    """Number of ranks of the run: that of the traces, or what a single trace says of its job."""
    said = max((source.world_size or 0 for source in sources), default=0)
    count = len(sources)
    if count == 1:
        return asked or max(said, 1)
    if asked is not None and asked != count:
        raise ConfigError(f"--ranks: found {asked}, but there are traces of {count} ranks")
    if said > count:
        raise ConfigError(f"traces of {count} of {said} ranks, expected all of them, or one that --ranks replicates")
    return count


def _groups(sources: list[RankSource]) -> dict[str, list[int]]:
    """Groups that the traces define, but for those of all ranks."""
    found: dict[str, list[int]] = {}
    for source in sources:
        for name, ranks in source.groups.items():
            if ranks and name not in ALL_RANKS:
                found.setdefault(name, ranks)
    return found
