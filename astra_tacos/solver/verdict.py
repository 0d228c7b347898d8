"""Verdicts of the oracle on files: schedules, traces, programs, run directories and planned runs.

What replays of files took: of a schedule, or of the traces of a collective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.rows import Answer, Row
from astra_tacos.support.units import format_time

if TYPE_CHECKING:
    from astra_tacos.collective.collective import Collective
    from astra_tacos.network.topology import Topology
    from astra_tacos.run.backend import Backend
    from astra_tacos.run.chunks import TraceParts
    from astra_tacos.run.run import Run, RunInputs
    from astra_tacos.schedule.schedule import Schedule
    from astra_tacos.verifier.scheduled_oracle import Rewriting
    from astra_tacos.verifier.violation import Violation

_PLACEMENT = "place.json"
"""Beside the files of a run that was placed."""
_FIGURES = ("time_ns", "predicted_ns", "bound_ns", "chunked_bound_ns", "efficiency", "optimal")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one file: its path, what it is, what is wrong, what was not checked."""

    path: str
    what: str
    violations: tuple[Violation, ...]
    unchecked: str | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    """Of a schedule: its time, its bounds, and how near it is to them."""
    rewriting: Rewriting | None = None
    """How much of a planned run is not as it was, where its nodes were made of those of the run before."""

    @property
    def proven(self) -> bool:
        """Whether the collective was checked and nothing violates it."""
        return not self.violations and self.unchecked is None

    def to_json(self) -> dict[str, Any]:
        """The entry of `checked`; violations are listed apart."""
        about = {"path": self.path, "what": self.what, "proven": self.proven, "unchecked": self.unchecked}
        rewritten = {} if self.rewriting is None else {"rewriting": self.rewriting.to_json()}
        return about | {"violations": len(self.violations), **self.figures, **rewritten}

    def listed(self) -> list[dict[str, Any]]:
        """Each violation as an object."""
        fields = ("code", "message", "send", "npu", "chunk", "time_ns")
        return [{"path": self.path} | {field: getattr(each, field) for field in fields} for each in self.violations]

    @property
    def outcome(self) -> str:
        """`ok`, `3 violations` or `not proven`."""
        if self.violations:
            return f"{len(self.violations)} violation{'' if len(self.violations) == 1 else 's'}"
        return "ok" if self.proven else "not proven"


def verify_directory(directory: Path, topology: Topology | None, collective: str | None) -> list[Verdict]:
    """Verdicts on everything in a run directory: its schedule, its traces and its programs.

    Parameters
    ----------
    topology, collective
        What the programs have to run on and compute; None for those of the schedule.
    """
    from astra_tacos.schedule.storage import load_schedule

    schedule = load_schedule(directory / "schedule.npz")
    topology, collective = topology or schedule.topology, collective or schedule.collective.name
    root = schedule.collective.root
    unequal = schedule.collective if schedule.collective.part_bytes is not None else None
    prefixes = sorted(path.with_name(path.name.removesuffix(".0.et")) for path in (directory / "collective").glob("*.0.et"))
    traces = [verify_program(prefix, topology, collective, root, unequal) for prefix in prefixes]
    xmls = [verify_program(path, topology, collective, root) for path in sorted(directory.glob("*.xml"))]
    return [_verify_schedule(directory / "schedule.npz", schedule, collective), *traces, *xmls]


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

    told = _told(directory)
    if told.parts is None and before is None:
        raise ConfigError(
            f"{directory}: its collectives keep their algorithms, so there is nothing to prove of them alone: expected --before "
            "with the run before"
        )
    prefixes = sorted({path.name[: -len(".0.et")] for path in (directory / "workload").glob("*.0.et")})
    if len(prefixes) != 1:
        raise ConfigError(f"{directory / 'workload'}: found {len(prefixes)} workloads, expected one")
    after = RunInputs.in_folder(directory, prefixes[0])
    npu_of_rank = None if told.npu_of_rank is None else np.array(told.npu_of_rank, np.int64)
    with scratch_directory() as scratch:
        original = None if before is None else _read_before(before, after, told.npu_of_rank, scratch)
        verdict = verify_run(read_run(after), told.parts or {}, original, npu_of_rank=npu_of_rank)
    what = f"a planned run of {verdict.num_collectives:,} collective nodes"
    what += f" ({verdict.num_native:,} native)" if verdict.num_native else ""
    what += f", {verdict.num_traces:,} traces, {verdict.num_messages:,} messages"
    unchecked = "; ".join(verdict.unchecked) or None
    return Verdict(str(directory), what, verdict.violations, unchecked, rewriting=verdict.rewriting)


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
    found = read_own(plan, _Changes, "plan --output")
    placement = found.get("placement")
    only_scheduled = "schedule" in found and "traces" not in found
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
        found = find_files(before, None)
        assert found.workload is not None  # find_files
        before, own_groups = found.workload, found.groups
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


def verify_program(
    path: Path, topology: Topology | None, collective: str | None, root: int | None = None, unequal: Collective | None = None
) -> Verdict:
    """The verdict on an MSCCL XML (.xml), an MSCCL++ plan (.json), or traces of a collective (their prefix).

    Traces alone do not tell whether parts have sizes of their own: `unequal` is the collective if they have.
    """
    from astra_tacos.run.trace.reader import read_trace
    from astra_tacos.verifier.program import verify_msccl_xml, verify_mscclpp_plan, verify_trace, verify_trace_of

    if path.suffix == ".xml":
        verdict = verify_msccl_xml(path, collective, topology)
    elif path.suffix == ".json":
        verdict = verify_mscclpp_plan(path, collective, topology)
    elif unequal is not None:
        verdict = verify_trace_of(read_trace(path), unequal, topology)
    else:
        verdict = verify_trace(read_trace(path), collective, topology, root)
    what = f"{verdict.collective or 'no known collective'} on {verdict.num_ranks} NPUs"
    if verdict.num_messages is not None:
        what += f", {verdict.num_messages:,} messages"
    return Verdict(str(path), what, verdict.violations, verdict.unchecked)


def verify_schedule_file(path: Path, collective: str | None) -> Verdict:
    """The verdict on a schedule, with its times if nothing is wrong; None for the collective that it says."""
    from astra_tacos.bounds.symmetric import certify_symmetric
    from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, load_any_schedule
    from astra_tacos.verifier.symmetric_oracle import verify_symmetric

    schedule = load_any_schedule(path)
    if not isinstance(schedule, SymmetricSchedule):
        return _verify_schedule(path, schedule, collective)
    task = schedule.task
    sends = f"{schedule.num_sends:,} sends, {schedule.num_rows:,} of them of NPU 0's chunks"
    verdict = Verdict(str(path), f"{task.collective} on {task.num_npus:,} NPUs, {sends}", verify_symmetric(schedule))
    return _of_schedule(verdict, task.collective, collective, partial(certify_symmetric, schedule))


def _verify_schedule(path: Path, schedule: Schedule, collective: str | None) -> Verdict:
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.verifier.schedule_oracle import verify

    own = schedule.collective
    what = f"{own.name} on {own.num_members} NPUs, {schedule.num_sends:,} sends"
    return _of_schedule(Verdict(str(path), what, verify(schedule)), own.name, collective, partial(certify, schedule))


def _of_schedule(verdict: Verdict, own: str, expected: str | None, certify: Callable[[], dict[str, Any]]) -> Verdict:
    """The verdict, also on the collective that is expected, and with figures of its certificate if nothing is wrong."""
    from astra_tacos.verifier.violation import Violation

    if expected not in (None, own):
        wrong = Violation("wrong-collective", f"is of {own}, expected {expected}")
        return replace(verdict, violations=(wrong, *verdict.violations))
    if verdict.violations:
        return verdict
    certificate = certify()
    return replace(verdict, figures={name: certificate[name] for name in _FIGURES})


def replay_schedule_file(path: Path) -> dict[str, Any]:
    """Replay a schedule, or a symmetric one, under its own timing model."""
    from astra_tacos.bounds.symmetric import class_busy_ns, describe_class
    from astra_tacos.replayer.schedule_replay import replay_schedule, replay_symmetric
    from astra_tacos.schedule.symmetric_schedule import SymmetricSchedule, load_any_schedule
    from astra_tacos.verifier.symmetric_oracle import check_symmetric

    schedule = load_any_schedule(path)
    if isinstance(schedule, SymmetricSchedule):
        check_symmetric(schedule)  # a replay of NPU 0's chunks speaks for all only then
        task, time_ns = schedule.task, replay_symmetric(schedule).collective_time_ns
        link_model, finish_ns = task.link_model, [time_ns] * task.num_npus
        busy = enumerate(class_busy_ns(schedule).tolist())
        links: dict[str, Any] = {"class_busy_ns": {describe_class(task, at): busy_ns for at, busy_ns in busy}}
    else:
        replayed = replay_schedule(schedule)
        link_model, finish_ns, time_ns = schedule.timing.link_model, replayed.finish_ns.tolist(), replayed.collective_time_ns
        links = {"link_busy_ns": replayed.link_busy_ns.tolist()}
    return {
        "path": str(path),
        "model": f"{link_model} links",
        "finish_ns": finish_ns,
        "collective_time_ns": time_ns,
        "predicted_ns": schedule.collective_time_ns,
        "as_predicted": time_ns == schedule.collective_time_ns,
        **links,
    }


def replay_trace_file(prefix: Path, network_path: Path, backend: Backend | None, ns3_config: Path | None) -> dict[str, Any]:
    """Replay the traces of one collective on a network; `ns3_config` counts on the packet level."""
    from astra_tacos.network.network_config import configured, read_network
    from astra_tacos.replayer.trace_replay import replay_trace
    from astra_tacos.run.trace.reader import read_trace

    network = configured(read_network(network_path), ns3_config)
    replayed = replay_trace(read_trace(prefix, chunks=False), network, backend)
    finish = replayed.finish_ns.tolist()
    return {
        "path": str(prefix),
        "model": replayed.backend.name,
        "finish_ns": finish,
        "collective_time_ns": max(finish),
        **network.carried_error,
    }


def replayed_answer(result: dict[str, Any]) -> Answer:
    """What was replayed, when it ends, and which NPUs finish last and first."""
    finish = result["finish_ns"]
    last, first = max(finish), min(finish)
    same = ""
    if "predicted_ns" in result:
        same = ", as predicted" if result["as_predicted"] else f", the prediction is {result['predicted_ns']:,} ns"
    rows = [Row("collective time", last, "ns", f"{format_time(last)}{same}")]
    if "class_busy_ns" in result:
        rows.append(Row("finish", note="all NPUs at the same time, as all do the same"))
    else:
        rows.append(Row("last to finish", last, "ns", f"NPU {finish.index(last)}"))
        rows.append(Row("first to finish", first, "ns", f"NPU {finish.index(first)}"))
    return Answer(f"{result['path']}: {len(finish):,} NPUs, {result['model']}", rows)
