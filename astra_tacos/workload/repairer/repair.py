"""`repair`: from a run that ASTRA-sim does not finish to one that it does, and a report of every change."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from astra_tacos.export.run_directory import LOG, check_script_name
from astra_tacos.network.network_files import own_tables
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.rules.rule import Finding
from astra_tacos.run.backend import Backend
from astra_tacos.run.jobs import REPAIR_FILE, Job, job_figures, job_rows
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.run import read_run
from astra_tacos.run.written import check_same
from astra_tacos.support.errors import AstraTacosError, ConfigError
from astra_tacos.support.files import check_outside, check_replaceable, replaced_directory
from astra_tacos.support.rows import Importance, Result, Row, Severity, Table, detail
from astra_tacos.support.temporaries import garbage_kept
from astra_tacos.workload.mends import MENDS
from astra_tacos.workload.mends.mend import Mend
from astra_tacos.workload.repairer.draft import OWN_FILES, Change, Draft, Log
from astra_tacos.workload.repairer.reading import RepairInputs, read_draft

_MOST_STEPS = 4
"""Steps that are shown in an answer of one screen."""
_FIRST_CHANGE = 64
"""Most characters of a change in a table of steps."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RepairResult(Result):
    """A run that was repaired.

    Parameters
    ----------
    warnings
        What `lint` still warns of.
    jobs
        The runs that were put side by side, none of any other run.
    compute_us
        Sum of the durations of compute nodes before and after, over all ranks.
    """

    path: Path
    defaults: tuple[str, ...]
    notes: tuple[str, ...]
    changes: tuple[Change, ...]
    skipped: tuple[str, ...]
    warnings: tuple[Finding, ...]
    outcome: RunOutcome
    compute_us: tuple[int, int]
    jobs: tuple[Job, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What `repair.json` holds."""
        return {
            "path": str(self.path),
            "backend": self.outcome.backend.name,
            "defaults": list(self.defaults),
            "notes": list(self.notes),
            "skipped_steps": list(self.skipped),
            "compute_us_before": self.compute_us[0],
            "compute_us_after": self.compute_us[1],
            "finish_ns": self.outcome.finish_ns.tolist(),
            "exposed_comm_ns": self.outcome.exposed_comm_ns.tolist(),
            "warnings": [asdict(finding) for finding in self.warnings],
            "changes": [asdict(change) for change in self.changes],
            **({"jobs": [asdict(job) for job in self.jobs]} if self.jobs else {}),
        }

    def title(self) -> str:
        """Where the run is that was repaired."""
        return f"{self.path}: a run that ASTRA-sim finishes"

    def rows(self) -> list[Row]:
        """How the run ends, how much was changed, and what was noticed."""
        assumed = sum(change.is_assumed for change in self.changes)
        before, after = self.compute_us
        codes = sorted({finding.code for finding in self.warnings})
        return [
            Row("end of the run", int(self.outcome.end_ns), "ns", f"by {self.outcome.backend}"),
            *job_rows(job_figures(self.jobs, self.outcome.finish_ns)),
            Row("compute time", after, "us", "unchanged" if before == after else f"{before:,} us before, see the changes"),
            Row("changes", len(self.changes), note=f"{assumed:,} of them by assumption" if assumed else ""),
            *([Row("lint warns of", ", ".join(codes))] if codes else []),
            *(Row("assumed", note=text) for text in self.defaults),
            Row("files", str(self.path)),
            *(detail("source", text) for text in self.notes),
        ]

    def tables(self) -> list[Table]:
        """All changes; in short, how many there are of each step."""
        steps = Counter(change.step for change in self.changes)
        if not steps:
            return []
        first = {change.step: f"{change.where}: {change.what}" for change in reversed(self.changes)}
        shown = [
            (step, count, textwrap.shorten(first[step], _FIRST_CHANGE, placeholder=" ..."))
            for step, count in steps.most_common(_MOST_STEPS)
        ]
        short = Table(
            f"changes ({len(shown)} of {len(steps)} steps)",
            ("step", "changes", "the first"),
            shown,
            left=("the first",),
            remarks=("", f"add --verbose to read all changes; {self.path / 'repair.json'} has the same"),
        )
        cells = [(change.step, change.where, change.what, _reason(change)) for change in self.changes]
        left = ("where", "what", "why")
        return [Table("changes", ("step", *left), cells, Importance.DETAIL, left, short=short)]


def _reason(change: Change) -> str:
    return f"{change.reason} (assumed)" if change.is_assumed and "assumed" not in change.reason else change.reason


def check_repair_output(path: Path, inputs: RepairInputs, traces: Iterable[Path] = ()) -> None:
    """Check that a repaired run may be written to `path`: it does not exist, or holds only one.

    Parameters
    ----------
    traces
        The files that are imported, for a run of which the workload's prefix has no meaning.

    Raises
    ------
    ConfigError
        If anything else is there, it is the current directory, or an input is inside.
    """
    check_script_name(inputs.workload.name)

    def is_own(names: set[str]) -> bool:
        return not names or REPAIR_FILE in names <= {*OWN_FILES, REPAIR_FILE, LOG}

    check_replaceable(path, "repaired or imported run of astra_tacos", is_own, own_tables(path))
    check_outside(path, (*(traces or (inputs.workload,)), inputs.system, inputs.network, inputs.groups, inputs.remote_memory))


def repair(
    inputs: RepairInputs,
    output: str | Path,
    *,
    backend: Backend | str | None = None,
    num_ranks: int | None = None,
    without: Iterable[str] = (),
) -> RepairResult:
    """Mend a run that ASTRA-sim does not finish, and write it as a run directory with a report of every change.

    The repaired run has no errors that `lint` finds, and its embedded replay ends; otherwise nothing is written.

    Parameters
    ----------
    backend
        The network model, or its name; None for that of the network.
    num_ranks
        Number of ranks to replicate a single rank's trace over, as data parallelism would; None for as many as the network has.
    without
        Names of steps that are not taken.

    Raises
    ------
    ConfigError
        If a file cannot be read, or the run has a fault that no step mends; the message is one line with the reason.
    ReplayError
        If the repaired run would not end; the message names what waits.
    """
    output = Path(output)
    check_repair_output(output, inputs)
    mends = chosen_mends(without)
    draft = read_draft(inputs, backend, num_ranks)
    if num_ranks is not None and draft.network.num_npus != num_ranks:
        raise ConfigError(f"--ranks: found {num_ranks}, but {draft.network.source} has {draft.network.num_npus} NPUs")
    if num_ranks is None and draft.num_ranks == 1 and draft.network.num_npus > 1:
        raise ConfigError(
            f"{inputs.workload}.1.et: no such file: the network has {draft.network.num_npus:,} NPUs, and there is one trace "
            "(--ranks N replicates it, as data parallelism would)"
        )
    return finish_run(draft, output, mends, tuple(without))


def chosen_mends(without: Iterable[str]) -> tuple[Mend, ...]:
    """All mends but some.

    Raises
    ------
    ConfigError
        If there is no mend of that name.
    """
    names = {mend.name for mend in MENDS}
    unknown = [name for name in without if name not in names]
    if unknown:
        raise ConfigError(f"--without: found {unknown[0]!r}, expected one of {', '.join(mend.name for mend in MENDS)}")
    return tuple(mend for mend in MENDS if mend.name not in set(without))


def finish_run(
    draft: Draft,
    output: Path,
    mends: Iterable[Mend],
    skipped: tuple[str, ...] = (),
    *,
    notes: tuple[str, ...] = (),
    jobs: tuple[Job, ...] = (),
    changes: Iterable[Change] = (),
) -> RepairResult:
    """Mend a draft, check and replay what comes of it, and write it.

    Parameters
    ----------
    skipped
        Names of the mends that are left out.

    Raises
    ------
    ConfigError
        If the run has a fault that nothing mends.
    ReplayError
        If the run would not end.
    """
    before = _compute_us(draft)
    changes = list(changes)
    with garbage_kept():
        for mend in mends:
            log = Log(mend.name)
            try:
                mend.apply(draft, log)
            except ConfigError as error:
                raise ConfigError(f"cannot be repaired ({mend.name}): {error}") from None
            if log.changes:
                draft.changed()
            changes += log.changes
    after = _compute_us(draft)
    if after != before + sum(change.compute_us for change in changes):
        raise RuntimeError(f"compute time went from {before} to {after} us, which the changes do not say")
    report = draft.report()
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    if errors:
        more = f" ({sum(report.errors.values()):,} errors: {', '.join(sorted(report.errors))})" if len(errors) > 1 else ""
        first = errors[0]
        place = Path(first.file).name if first.file else "the run"
        place += "" if first.node is None else f" node {first.node}"
        raise ConfigError(f"cannot be repaired: {first.code}: {place}: {first.message}{more}")
    try:
        run = draft.run()
        outcome = replay_run(run, draft.backend)
    except AstraTacosError as error:
        raise type(error)(f"cannot be repaired: {error}") from None
    with replaced_directory(output) as folder:
        draft.write(folder)
        check_same(run, read_run(draft.inputs(folder)))
        warnings = tuple(finding for finding in report.findings if finding.severity is Severity.WARNING)
        times = (before, after)
        result = RepairResult(output, tuple(draft.defaults), notes, tuple(changes), skipped, warnings, outcome, times, jobs)
        (folder / REPAIR_FILE).write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    return result


def _compute_us(draft: Draft) -> int:
    return sum(nodes.compute_us() for nodes in draft.ranks)
