"""The verdict of the oracle on a planned run, by its files and by those of the run before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict

from astra_tacos.solver.verdict import Verdict
from astra_tacos.support.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.run.chunks import TraceParts
    from astra_tacos.run.run import Run, RunInputs

_PLACEMENT = "place.json"
"""Beside the files of a run that was placed."""


def verify_planned(directory: Path, before: Path | None) -> Verdict:
    """The verdict on a planned run, also by the run that it was made of, if its directory or the prefix of its traces is given.

    Raises
    ------
    ConfigError
        If files are missing or wrong, or the run has no collective of its own, so that only the run before says what it does.
    """
    import numpy as np

    from astra_tacos.run.run import RunInputs, read_run
    from astra_tacos.support.temporaries import scratch_directory
    from astra_tacos.verifier.run_oracle import verify_run

    changes = _told(directory)
    if changes.parts is None and before is None:
        raise ConfigError(
            f"{directory}: its collectives keep their algorithms, so there is nothing to prove of them alone: expected --before "
            "with the run before"
        )
    prefixes = sorted({path.name[: -len(".0.et")] for path in (directory / "workload").glob("*.0.et")})
    if len(prefixes) != 1:
        raise ConfigError(f"{directory / 'workload'}: found {len(prefixes)} workloads, expected one")
    after = RunInputs.in_folder(directory, prefixes[0])
    npu_of_rank = None if changes.npu_of_rank is None else np.array(changes.npu_of_rank, np.int64)
    with scratch_directory() as scratch:
        original = None if before is None else _read_before(before, after, changes.npu_of_rank, scratch)
        verdict = verify_run(read_run(after), changes.parts or {}, original, npu_of_rank=npu_of_rank)
    summary = f"a planned run of {verdict.num_collectives:,} collective nodes"
    summary += f" ({verdict.num_native:,} native)" if verdict.num_native else ""
    summary += f", {verdict.num_traces:,} traces, {verdict.num_messages:,} messages"
    unchecked = "; ".join(verdict.unchecked) or None
    return Verdict(str(directory), summary, verdict.violations, unchecked, rewriting=verdict.rewriting)


class _Placement(TypedDict):
    npu_of_rank: list[int]


class _Changes(TypedDict):
    """What `plan.json` says of a run's nodes and ranks that are not where they were, and whether it has traces."""

    schedule: NotRequired[dict[str, Any]]
    placement: NotRequired[_Placement | None]
    traces: NotRequired[dict[str, Any]]


class _Told(NamedTuple):
    """What the files of a plan say of it.

    Parameters
    ----------
    parts
        What its traces are for, by prefix; None if collectives keep their algorithms.
    npu_of_rank
        Where the ranks of the run before are; None if they stay where they were.
    """

    parts: dict[str, TraceParts] | None
    npu_of_rank: list[int] | None


def is_placed(directory: Path) -> bool:
    """Whether a directory says where the ranks of the run in it are, and was not planned further."""
    return (directory / _PLACEMENT).is_file() and not (directory / "plan.json").is_file()


def _told(directory: Path) -> _Told:
    from astra_tacos.run.chunks import read_trace_parts
    from astra_tacos.support.own_files import read_own

    if is_placed(directory):
        placed = directory / _PLACEMENT
        return _Told(None, _npus(placed, read_own(placed, _Placement, "plan --only-place")))
    plan = directory / "plan.json"
    document = read_own(plan, _Changes, "plan --output")
    placement = document.get("placement")
    only_scheduled = "schedule" in document and "traces" not in document
    return _Told(None if only_scheduled else read_trace_parts(plan), None if placement is None else _npus(plan, placement))


def _npus(path: Path, placement: _Placement) -> list[int]:
    ranks = placement["npu_of_rank"]
    if sorted(ranks) != list(range(len(ranks))):
        raise ConfigError(f"{path}: placement: found no 'npu_of_rank' that names each NPU once: plan the run again")
    return ranks


def _read_before(before: Path, after: RunInputs, npu_of_rank: list[int] | None, scratch: Path) -> Run:
    """The run before, under the numbers of the NPUs where its ranks are, with the system and network of the run after.

    Its groups are its own where its directory has them, else those of the run after, which keep the ranks of each id.
    """
    from astra_tacos.run.directory import find_files
    from astra_tacos.run.groups import read_communicator_groups
    from astra_tacos.run.run import read_run

    own_groups = None
    if before.is_dir():
        files = find_files(before, None)
        assert files.workload is not None  # find_files
        before, own_groups = files.workload, files.groups
    prefix = before if npu_of_rank is None else _renumbered(before, npu_of_rank, scratch)
    run = read_run(replace(after, workload=prefix))
    if own_groups is None:
        return run
    groups = read_communicator_groups(own_groups)
    place = {} if npu_of_rank is None else dict(enumerate(npu_of_rank))
    members = {group: tuple(place.get(rank, rank) for rank in ranks) for group, ranks in groups.members.items()}
    return replace(run, groups=replace(groups, members=members))


def _renumbered(before: Path, npu_of_rank: list[int], folder: Path) -> Path:
    """The prefix of the traces of a run under the numbers of the NPUs where its ranks are."""
    for rank, npu in enumerate(npu_of_rank):
        path = Path(f"{before}.{rank}.et")
        if not path.is_file():
            raise ConfigError(f"{path}: no such file, expected traces of the {len(npu_of_rank)} ranks that were placed")
        (folder / f"{before.name}.{npu}.et").symlink_to(path.resolve())
    return folder / before.name
