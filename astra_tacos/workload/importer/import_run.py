"""`import_run`: from traces of PyTorch, or a workload text of SimAI, to a run that ASTRA-sim finishes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.run.backend import Backend
from astra_tacos.run.trace.node_bytes import new_metadata
from astra_tacos.run.trace.reader import MAX_RANKS
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.temporaries import garbage_kept
from astra_tacos.workload.importer.documents import read_documents
from astra_tacos.workload.importer.rank_nodes import RankNode, RankSource, find_ranks, rank_nodes
from astra_tacos.workload.importer.simai import (
    collectives_of_one,
    is_simai_workload,
    layer_groups,
    layer_nodes,
    read_simai_workload,
    rounded_gathers,
)
from astra_tacos.workload.repairer.draft import Log
from astra_tacos.workload.repairer.node import ALL_RANKS
from astra_tacos.workload.repairer.rank_nodes import RankNodes
from astra_tacos.workload.repairer.reading import RepairInputs, draft_of
from astra_tacos.workload.repairer.repair import RepairResult, check_repair_output, chosen_mends, finish_run

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
        Number of ranks to replicate a single rank's trace over, or GPUs of a workload text; None for as many as the files say.
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
    """Make a run of PyTorch's execution traces, of Kineto traces, of both, or of a workload text: a run directory.

    With Kineto traces, compute nodes have measured durations. The steps of `repair` follow, so that the run ends.

    Parameters
    ----------
    files
        JSON files, also compressed by gzip, and tar archives of such files; or one workload text of SimAI.
    inputs
        Further files of the run; the workload's prefix has no meaning.

    Raises
    ------
    ConfigError
        If a file is no trace of PyTorch and no workload text, a rank is missing, there are too many nodes, or the run has a fault
        that no step of `repair` mends.
    ReplayError
        If the run would not end.
    """
    output = Path(output)
    paths = [Path(file) for file in files]
    check_repair_output(output, inputs, paths)
    mends = chosen_mends(options.without)
    log = Log(_STEP)
    with garbage_kept():
        if any(map(is_simai_workload, paths)):
            made = _of_layers(paths, options.num_ranks, log)
        else:
            made = _of_traces(paths, options.num_ranks, log)
    source = f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}"
    draft = draft_of(PREFIX, source, made.ranks, made.groups, inputs, options.backend, made.num_ranks)
    if draft.network.num_npus != made.num_ranks:
        found = f"{draft.network.source}: found {draft.network.num_npus:,} NPUs"
        raise ConfigError(f"{found}, but {made.of_ranks} {made.num_ranks:,} ranks{made.hint}")
    draft.metadata.extend(new_metadata() for _ in made.ranks)
    try:
        return finish_run(draft, output, mends, options.without, notes=made.notes, changes=log.changes)
    except AstraTacosError as error:
        raise type(error)(f"{source}: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """The nodes of each rank and the groups, what they are of, and what to say of numbers of ranks that differ."""

    ranks: list[RankNodes]
    groups: dict[str, list[int]]
    num_ranks: int
    notes: tuple[str, ...]
    of_ranks: str
    hint: str = ""


def _drafted(ranks: list[list[RankNode]]) -> list[RankNodes]:
    return [RankNodes(rank, (node.to_draft(node_id) for node_id, node in enumerate(nodes))) for rank, nodes in enumerate(ranks)]


def _of_traces(paths: list[Path], asked: int | None, log: Log) -> _Made:
    """What PyTorch's traces say."""
    sources = find_ranks(read_documents(paths))
    num_ranks = _num_ranks(sources, asked)
    ranks = _drafted([rank_nodes(rank, source, log) for rank, source in enumerate(sources)])
    if not any(ranks):
        raise ConfigError(f"{sources[0].names}: nothing that computes on a GPU or communicates, expected a trace of training")
    if sources[0].device is None:
        log.add("computation takes no time", "there is no Kineto trace, and a host's trace has no times", is_assumed=True)
    notes = tuple(_trace_note(rank, source) for rank, source in enumerate(sources))
    hint = " (--ranks N replicates a single one)" if len(sources) == 1 else ""
    return _Made(ranks, _groups(sources), num_ranks, notes, "the traces are of", hint)


def _trace_note(rank: int, source: RankSource) -> str:
    """Which traces are those of a rank of the run, and of which rank of the job, where that is another one."""
    here = "" if source.rank == rank else f" of the job, rank {rank} of the run"
    return f"rank {source.rank}{here}: {source.names}"


def _of_layers(paths: list[Path], asked: int | None, log: Log) -> _Made:
    """What a workload text says."""
    if len(paths) > 1:
        raise ConfigError(f"{paths[0]}: a workload text says all ranks, expected it alone")
    workload = read_simai_workload(paths[0], asked)
    if workload.num_ranks < 2:
        raise ConfigError(f"{paths[0]}:1: one GPU a pipeline stage, expected 2 or more, as ASTRA-sim has no network of 1 NPU")
    if workload.num_ranks > MAX_RANKS:
        raise ConfigError(f"{paths[0]}: {workload.num_ranks:,} GPUs a pipeline stage, expected at most {MAX_RANKS:,}")
    if workload.pp > 1:
        what = f"the run is one of {workload.pp} pipeline stages, without messages between stages and waits for them"
        log.add(what, "the text has the layers of one stage, and SimAI simulates no pipeline either", is_assumed=True)
    if rounded := rounded_gathers(workload):
        what = f"{rounded:,} All-Gathers of sizes that their group does not divide: what a rank contributes is rounded up"
        log.add(what, "ASTRA-sim's sizes are whole bytes of each rank")
    for group, pattern, count, size in collectives_of_one(workload):
        what = f"left out {count:,} {pattern.name} of each rank, {size:,} bytes in all: each {group} group is one rank"
        log.add(what, "a collective of one rank moves nothing")
    ranks = layer_nodes(workload)
    if not any(ranks):
        kind = "collective of two or more ranks" if log.changes else "collective"
        raise ConfigError(f"{paths[0]}: no computation of a us and no {kind}, expected layers that take time")
    note = f"tensor {workload.tp} x data {workload.dp}, experts over {workload.ep}: {workload.source}"
    return _Made(_drafted(ranks), layer_groups(workload), workload.num_ranks, (note,), "the workload has")


def _num_ranks(sources: list[RankSource], asked: int | None) -> int:
    """Number of ranks of the run: that of the traces, or what a single trace says of its job."""
    said = max((source.world_size or 0 for source in sources), default=0)
    count = len(sources)
    if count == 1:
        return asked or max(said, 1)
    if asked is not None and asked != count:
        raise ConfigError(f"--ranks: found {asked}, but {_files(sources)} are traces of {count} ranks")
    if said > count:
        raise ConfigError(f"{_files(sources)}: traces of {count} of {said} ranks, expected all, or one that --ranks replicates")
    return count


def _files(sources: list[RankSource]) -> str:
    """The first and the last of several traces."""
    return f"{sources[0].names} to {sources[-1].names}"


def _groups(sources: list[RankSource]) -> dict[str, list[int]]:
    """Groups that the traces define, but for those of all ranks."""
    found: dict[str, list[int]] = {}
    for source in sources:
        for name, ranks in source.groups.items():
            if ranks and name not in ALL_RANKS:
                found.setdefault(name, ranks)
    return found
