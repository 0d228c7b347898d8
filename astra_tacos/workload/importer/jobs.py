"""Several runs on one network: the ranks of each run follow those of the run before, and no run communicates with another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from astra_tacos.run.backend import Backend
from astra_tacos.run.directory import find_files, is_compact
from astra_tacos.run.jobs import Job
from astra_tacos.run.patterns import ROOT_ATTRIBUTES
from astra_tacos.run.trace.node_bytes import set_number
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.values import describe
from astra_tacos.workload.repairer.draft import Draft
from astra_tacos.workload.repairer.node import ALL_RANKS, DraftNode
from astra_tacos.workload.repairer.reading import RepairInputs, draft_of, read_draft

_ENDS = ("comm_src", "comm_dst")


class _Job(NamedTuple):
    """A run that is to run beside others: its directory, files and nodes, and the first of its ranks on the network."""

    directory: Path
    inputs: RepairInputs
    draft: Draft
    first_rank: int


def join_jobs(
    directories: list[Path], name: str, inputs: RepairInputs, backend: Backend | str | None
) -> tuple[Draft, tuple[str, ...], tuple[Job, ...]]:
    """A draft of the runs of some directories side by side, a note of each, and the ranks of each.

    Groups are numbered anew. Collectives of all ranks of a run become collectives of a group. Ranks that nodes name are those of
    the network.

    Parameters
    ----------
    name
        Of the workload.
    inputs
        The network; a system and a memory, where those of the runs are not to count.

    Raises
    ------
    ConfigError
        If a directory is no ordinary run, has custom collectives, or differs from the first one in its system or memory, or the
        network has another number of NPUs than the runs have ranks.
    """
    if len(directories) < 2:
        raise ConfigError(f"{directories[0]}: found one run, expected two or more runs, which then run side by side")
    jobs: list[_Job] = []
    for directory in directories:
        jobs.append(_read(directory, sum(job.draft.num_ranks for job in jobs)))
    first = jobs[0]
    if inputs.system is None:
        _check_same(jobs, "system", [_uniform(job.draft.system) for job in jobs])
        inputs = replace(inputs, system=first.inputs.system)
    if inputs.remote_memory is None:
        _check_same(jobs, "remote-memory", [job.draft.memory for job in jobs])
        inputs = replace(inputs, remote_memory=first.inputs.remote_memory)
    groups: dict[str, list[Any]] = {}
    notes = tuple(_place(job, groups) for job in jobs)
    ranks = [nodes for job in jobs for nodes in job.draft.ranks]
    draft = draft_of(name, str(first.directory), ranks, groups, inputs, backend, len(ranks))
    if draft.network.num_npus != len(ranks):
        size = f"{draft.network.source}: found {draft.network.num_npus:,} NPUs"
        raise ConfigError(f"{size}, but the {len(jobs)} runs have {len(ranks):,} ranks together")
    if inputs.groups is None:
        draft.defaults = [text for text in draft.defaults if "comm_group" not in text]
    for job in jobs:
        draft.metadata += job.draft.metadata
        draft.compressed += (job.first_rank + rank for rank in job.draft.compressed)
    return draft, notes, tuple(Job(str(job.directory), job.first_rank, job.draft.num_ranks) for job in jobs)


def _read(directory: Path, first_rank: int) -> _Job:
    if not directory.is_dir():
        raise ConfigError(f"{directory}: not a directory, expected only run directories, or only files")
    if is_compact(directory):
        raise ConfigError(f"{directory} is a compact run, expected an ordinary one, as `generate` writes without --compact")
    files = find_files(directory, None)
    assert files.workload is not None and files.directory is not None  # find_files
    inputs = RepairInputs(files.workload, files.system, files.network, files.groups, files.remote_memory, files.directory)
    draft = read_draft(inputs, None, None, first_rank=first_rank)
    if draft.num_ranks != draft.network.num_npus:
        size = f"{draft.num_ranks:,} traces, but its network has {draft.network.num_npus:,} NPUs"
        raise ConfigError(f"{directory}: found {size}, expected a trace of each: mend it with `lint --fix`")
    if draft.custom:
        prefix = next(iter(draft.custom))
        remedy = "expected the run before `plan`: plan the runs together afterwards"
        raise ConfigError(f"{directory}: its system names the custom collective {describe(prefix)}, {remedy}")
    return _Job(directory, inputs, draft, first_rank)


def _uniform(system: Mapping[str, Any]) -> dict[str, Any]:
    """A system with one entry for all dimensions where all entries are alike: runs may have different numbers of dimensions."""
    return {
        key: value[:1] if isinstance(value, list) and all(entry == value[0] for entry in value) else value
        for key, value in system.items()
    }


def _check_same(jobs: list[_Job], option: str, documents: list[Mapping[str, Any]]) -> None:
    for job, document in zip(jobs[1:], documents[1:], strict=True):
        keys = sorted(key for key in document.keys() | documents[0].keys() if document.get(key) != documents[0].get(key))
        if keys:
            differ = f"{', '.join(keys)} differ{'s' if len(keys) == 1 else ''} from {jobs[0].directory}"
            raise ConfigError(f"{job.directory}: {differ}, expected the same, or --{option} FILE for all runs")


def _place(job: _Job, groups: dict[str, list[Any]]) -> str:
    """Let the nodes of a run name the ranks and groups of the network; the note says which these are."""
    first, draft = job.first_rank, job.draft
    names: dict[str, str] = {}

    def named(key: str, members: list[Any]) -> None:
        names[key] = str(len(groups) + 1)
        groups[names[key]] = [first + rank for rank in members]

    for name, members in draft.groups.items():
        named(name, members)
    for node in draft.collectives():
        key = "" if node.group in ALL_RANKS else node.group
        if key not in names:
            if key:
                raise _fault(job, node, f"group {describe(key)} is not in comm_group.json, expected it there")
            named(key, list(range(draft.num_ranks)))
        if not key and not all(getattr(node.get("involved_dim"), "values", ())):
            raise _fault(job, node, "involved_dim leaves out dimensions of its network, expected a communicator group")
        if node.group_name != names[key]:
            node.set("pg_name", names[key])
        _shift(node, ROOT_ATTRIBUTES, first)
    for node in draft.nodes(NodeType.COMM_SEND, NodeType.COMM_RECV):
        _shift(node, _ENDS, first)
    names_text = f", all of them group {names['']}" if "" in names else ""
    return f"ranks {first} to {first + draft.num_ranks - 1}: {job.directory}{names_text}"


def _shift(node: DraftNode, attributes: tuple[str, ...], first_rank: int) -> None:
    """Add the run's first rank to attributes that name ranks."""
    for name in attributes if first_rank else ():
        rank = node.number(name)
        if rank is not None:
            set_number(node.message, name, rank + first_rank)


def _fault(job: _Job, node: DraftNode, message: str) -> ConfigError:
    return ConfigError(f"{job.inputs.workload}.{node.rank - job.first_rank}.et node {node.id}: {message}")
