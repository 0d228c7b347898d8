"""`import_run`: from traces of PyTorch, a workload text, or several runs, to a run that ASTRA-sim finishes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from astra_tacos.network.network_config import read_network
from astra_tacos.run.backend import Backend
from astra_tacos.run.jobs import Job
from astra_tacos.run.trace.node_bytes import new_metadata
from astra_tacos.run.trace.reader import MAX_RANKS
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.temporaries import garbage_kept
from astra_tacos.workload.importer.astra_sim_1 import POLICIES, AstraSim1Workload, read_astra_sim_1_workload
from astra_tacos.workload.importer.documents import read_documents
from astra_tacos.workload.importer.jobs import join_jobs
from astra_tacos.workload.importer.layers import LayerText, collectives_of_one, first_word, layer_groups, layer_nodes
from astra_tacos.workload.importer.rank_nodes import RankNode, RankSource, find_ranks, rank_nodes
from astra_tacos.workload.importer.simai import POLICY, SimaiWorkload, read_simai_workload
from astra_tacos.workload.mends.mend import Mend
from astra_tacos.workload.repairer.draft import Draft, Log
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
    num_passes
        Training steps of a workload text of ASTRA-sim 1.0.
    without
        Names of steps of `repair` that are not taken.
    """

    backend: Backend | str | None = None
    num_ranks: int | None = None
    without: tuple[str, ...] = ()
    num_passes: int = 1


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
        JSON files, also compressed by gzip, and tar archives of such files; one workload text of ASTRA-sim 1.0 or SimAI; or
        directories of two or more runs, which then run side by side.
    inputs
        Further files of the run; the workload's prefix has no meaning.

    Raises
    ------
    ConfigError
        If a file is no trace of PyTorch and no workload text, runs do not fit together, a rank is missing, there are too many
        nodes, or the run has a fault that no step of `repair` mends.
    ReplayError
        If the run would not end.
    """
    output = Path(output)
    paths = [Path(file) for file in files]
    check_repair_output(output, inputs, paths)
    mends = chosen_mends(options.without)
    log = Log(_STEP)
    source = f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}"
    if any(path.is_dir() for path in paths):
        if options.num_ranks is not None or options.num_passes > 1 or inputs.groups is not None:
            raise ConfigError(
                f"{source}: runs have their own ranks, passes and groups, expected no --ranks, --passes or --comm-group"
            )
        with garbage_kept():
            draft, notes, jobs = join_jobs(paths, PREFIX, inputs, options.backend)
        return _finished(draft, output, options, source, notes, mends, log, jobs)
    with garbage_kept():
        if any(first_word(path) in (POLICY, *POLICIES) for path in paths):
            imported = _of_layers(paths, inputs.network, options, log)
        elif options.num_passes > 1:
            raise ConfigError(f"--passes: found {options.num_passes}, but {paths[0]} is not a workload text of ASTRA-sim 1.0")
        else:
            imported = _of_traces(paths, options.num_ranks, log)
    draft = draft_of(PREFIX, source, imported.ranks, imported.groups, inputs, options.backend, imported.num_ranks)
    if draft.network.num_npus != imported.num_ranks:
        size = f"{draft.network.source}: found {draft.network.num_npus:,} NPUs"
        raise ConfigError(f"{size}, but {imported.of_ranks} {imported.num_ranks:,} ranks{imported.hint}")
    draft.metadata.extend(new_metadata() for _ in imported.ranks)
    return _finished(draft, output, options, source, imported.notes, mends, log)


def _finished(
    draft: Draft,
    output: Path,
    options: ImportOptions,
    source: str,
    notes: tuple[str, ...],
    mends: tuple[Mend, ...],
    log: Log,
    jobs: tuple[Job, ...] = (),
) -> RepairResult:
    try:
        return finish_run(draft, output, mends, options.without, notes=notes, jobs=jobs, changes=log.changes)
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


def _of_traces(paths: list[Path], given_ranks: int | None, log: Log) -> _Made:
    """What PyTorch's traces say."""
    sources = find_ranks(read_documents(paths))
    num_ranks = _num_ranks(sources, given_ranks)
    ranks = _drafted([rank_nodes(rank, source, log) for rank, source in enumerate(sources)])
    if not any(ranks):
        raise ConfigError(f"{sources[0].names}: found no GPU computation and no communication, expected a trace of training")
    if sources[0].device is None:
        log.add("computation takes no time", "there is no Kineto trace, and a host's trace has no times", is_assumed=True)
    notes = tuple(_trace_note(rank, source) for rank, source in enumerate(sources))
    hint = " (--ranks N replicates a single one)" if len(sources) == 1 else ""
    return _Made(ranks, _groups(sources), num_ranks, notes, "the traces are of", hint)


def _trace_note(rank: int, source: RankSource) -> str:
    """Which traces are those of a rank of the run, and of which rank of the job, where that is another one."""
    here = "" if source.rank == rank else f" of the job, rank {rank} of the run"
    return f"rank {source.rank}{here}: {source.names}"


def _of_layers(paths: list[Path], network: Path | None, options: ImportOptions, log: Log) -> _Made:
    """What a workload text says."""
    if len(paths) > 1:
        raise ConfigError(f"{paths[0]}: a workload text has all ranks, expected a single file")
    text: LayerText
    if first_word(paths[0]) == POLICY:
        text = _of_simai(paths[0], options, log)
    else:
        text = _of_astra_sim_1(paths[0], network, options, log)
    for group, pattern, count, size in collectives_of_one(text):
        change = f"left out {count:,} {pattern.name} of each rank, {size:,} bytes in all: each {group} group is one rank"
        log.add(change, "a collective of one rank moves nothing")
    ranks = layer_nodes(text)
    if not any(ranks):
        kind = "collective of two or more ranks" if log.changes else "collective"
        raise ConfigError(f"{paths[0]}: no computation of a us and no {kind}, expected layers that take time")
    return _Made(_drafted(ranks), layer_groups(text), text.num_ranks, text.notes(), "the workload has")


def _of_simai(path: Path, options: ImportOptions, log: Log) -> SimaiWorkload:
    if options.num_passes > 1:
        raise ConfigError(f"--passes: found {options.num_passes}, but {path} is a text of SimAI, of which one pass is imported")
    workload = read_simai_workload(path, options.num_ranks)
    if workload.num_ranks < 2:
        raise ConfigError(f"{path}:1: one GPU a pipeline stage, expected 2 or more, as ASTRA-sim has no network of 1 NPU")
    if workload.num_ranks > MAX_RANKS:
        raise ConfigError(f"{path}: {workload.num_ranks:,} GPUs a pipeline stage, expected at most {MAX_RANKS:,}")
    if workload.pp > 1:
        change = f"the run is one of {workload.pp} pipeline stages, without messages between stages and waits for them"
        log.add(change, "the text has the layers of one stage, and SimAI simulates no pipeline either", is_assumed=True)
    if rounded := workload.rounded_gathers():
        change = f"{rounded:,} All-Gathers of sizes that their group does not divide: what a rank contributes is rounded up"
        log.add(change, "ASTRA-sim's sizes are whole bytes of each rank")
    return workload


def _of_astra_sim_1(path: Path, network: Path | None, options: ImportOptions, log: Log) -> AstraSim1Workload:
    if network is not None:
        config = read_network(network)
        sizes = [dimension.size for dimension in config.dimensions] or [config.num_npus]
        if options.num_ranks not in (None, config.num_npus):
            raise ConfigError(f"--ranks: found {options.num_ranks}, but {network} has {config.num_npus:,} NPUs")
    elif options.num_ranks is not None:
        sizes = [options.num_ranks]
    else:
        raise ConfigError(
            f"{path}: a workload text of ASTRA-sim 1.0 does not say its ranks, expected --network FILE or --ranks N"
        )
    workload = read_astra_sim_1_workload(path, sizes, options.num_passes)
    for phase, pattern, count, size in workload.never_issued():
        change = f"left out {count:,} {pattern.name} of the {phase}, {size:,} bytes in all"
        log.add(change, f"ASTRA-sim 1.0 does not start them in a workload of kind {workload.policy}")
    return workload


def _num_ranks(sources: list[RankSource], given_ranks: int | None) -> int:
    """Number of ranks of the run: that of the traces, or what a single trace says of its job."""
    said = max((source.world_size or 0 for source in sources), default=0)
    count = len(sources)
    if count == 1:
        return given_ranks or max(said, 1)
    if given_ranks is not None and given_ranks != count:
        raise ConfigError(f"--ranks: found {given_ranks}, but {_files(sources)} are traces of {count} ranks")
    if said > count:
        raise ConfigError(f"{_files(sources)}: traces of {count} of {said} ranks, expected all, or one that --ranks replicates")
    return count


def _files(sources: list[RankSource]) -> str:
    """The first and the last of several traces."""
    return f"{sources[0].names} to {sources[-1].names}"


def _groups(sources: list[RankSource]) -> dict[str, list[int]]:
    """Groups that the traces define, but for those of all ranks."""
    groups: dict[str, list[int]] = {}
    for source in sources:
        for name, ranks in source.groups.items():
            if ranks and name not in ALL_RANKS:
                groups.setdefault(name, ranks)
    return groups
