"""Replays of a run, by the embedded engine or by the user's ASTRA-sim, with what `lint` finds in its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.network.network_config import NetworkConfig, configured, read_network
from astra_tacos.pages.run_report import (
    check_replay_directory,
    run_result,
    run_rows,
    run_tables,
    run_title,
    write_replay_directory,
    write_run_csv,
)
from astra_tacos.replayer.astra_sim import AstraSimResult, backend_of, find_binary, run_astra_sim
from astra_tacos.replayer.run_replay import replay_run, try_classes
from astra_tacos.run.backend import NS3, PACKET, Backend, choose_backend
from astra_tacos.run.compact_run import expand, read_compact
from astra_tacos.run.jobs import Job, job_figures, job_rows, jobs_of
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.recording import record_run
from astra_tacos.run.run import Run, RunInputs, read_run
from astra_tacos.run.trace.reader import trace_files
from astra_tacos.solver.first_use import Progress
from astra_tacos.support.errors import AstraTacosError, OutputError, ReplayError
from astra_tacos.support.files import check_apart, output_place, together
from astra_tacos.support.rows import Importance, Result, Row, Table
from astra_tacos.workload.lint import LintReport, lint

_RANKS_SHOWN = 8
"""Ranks that never finished, in a finding."""


@dataclass(frozen=True, slots=True)
class ReplayOutputs:
    """Where a replay by the embedded engine is written, None for not: a table of ranks, a timeline for Perfetto, a directory."""

    table: Path | None = None
    timeline: Path | None = None
    directory: Path | None = None

    def check(self, inputs: Iterable[Path | None]) -> None:
        """Check, before any work is done, that nothing is replaced that is no earlier replay.

        Raises
        ------
        ConfigError
            If something would be.
        """
        check_apart((self.table, self.timeline), inputs)
        if self.directory is not None:
            files = {output_place(path) for path in (self.table, self.timeline) if path is not None}
            if output_place(self.directory) in files:
                raise OutputError(f"{self.directory}: given twice, expected another directory (--output)")
            check_replay_directory(self.directory)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Replayed(Result):
    """A replay as `replay` prints it.

    Parameters
    ----------
    figures
        The object that `replay --json` prints.
    ran, answer
        What was replayed, in a line; and its main figures.
    report
        What `lint` finds; None for a compact run, which it does not read.
    reason
        Why the run does not end; None if it does.
    write
        Writes all that is asked for, or nothing; returns the files and directories.
    """

    ran: str
    figures: dict[str, Any]
    answer: list[Row]
    report: LintReport | None
    reason: str | None = None
    write: Callable[[Progress], list[Path]] = lambda progress: []

    def title(self) -> str:
        """What was replayed, in a line."""
        return self.ran

    def rows(self) -> list[Row]:
        """The main figures, and how much `lint` finds."""
        return [*self.answer, *(self.report.counted() if self.report else [])]

    def tables(self) -> list[Table]:
        """Ranks, collectives and busiest links, of a run that the embedded engine replayed to its end."""
        return list(run_tables(self.figures)) if "end_ns" in self.figures else []


def replay_embedded(
    inputs: RunInputs,
    backend: Backend | None,
    outputs: ReplayOutputs,
    limit: int | None,
    progress: Progress,
    slow: Mapping[int, float],
    delay_ns: Mapping[int, int],
) -> Replayed:
    """Replay a run by the embedded engine. A run that `lint` finds errors in is not exact to ASTRA-sim.

    Parameters
    ----------
    inputs, backend
        The run, and the network model of the replay; None for the one with queues. `lint` judges stock ASTRA-sim.
    limit
        Most findings of a code; None for all.
    slow
        Ranks whose compute takes a factor longer than their traces say, and these factors.
    delay_ns
        Ranks that start later than their traces say, and by how many ns.

    Raises
    ------
    ConfigError
        If a file is not what it should be, or the network model cannot have the network.
    """
    with progress("reading"):
        run = read_run(inputs).slowed(slow).delayed(delay_ns)
    model = choose_backend(backend)
    jobs = jobs_of(inputs.directory, run.workload.num_ranks)
    return _replayed(run, model, _every_rank(run, model, outputs), outputs, progress, lambda: lint(inputs, backend, limit), jobs)


def replay_compact(
    folder: Path,
    network: NetworkConfig,
    backend: Backend | None,
    outputs: ReplayOutputs,
    progress: Progress,
    slow: Mapping[int, float],
    delay_ns: Mapping[int, int],
) -> Replayed:
    """Replay a compact run: one rank of each class, or every rank where ranks of a class may differ.

    Parameters
    ----------
    backend, outputs, progress, slow, delay_ns
        See `replay_embedded`; for a timeline, and with delays, every rank is replayed.

    Raises
    ------
    ConfigError
        If a file is not what it should be, or there are more ranks than can be replayed one by one where they have to be.
    ReplayError
        As `replay_run`.
    """
    with progress("reading"):
        run = read_compact(folder, network).slowed(slow)
    model = choose_backend(backend)
    outcome = None if outputs.timeline or delay_ns else try_classes(run, model)
    if outcome is not None:
        return _replayed(run, model, lambda _: outcome, outputs, progress)
    expanded = expand(run).delayed(delay_ns)
    return _replayed(expanded, model, _every_rank(expanded, model, outputs), outputs, progress)


_Advanced = Callable[[int, int], None]


def _every_rank(run: Run, model: Backend, outputs: ReplayOutputs) -> Callable[[_Advanced], RunOutcome]:
    """What replays all ranks of a run, with what its outputs need."""
    timeline, loads = outputs.timeline is not None, outputs.directory is not None
    return lambda advanced: replay_run(run, model, record_transmissions=timeline, route_loads=loads, progress=advanced)


def _replayed(
    run: Run,
    model: Backend,
    replay: Callable[[_Advanced], RunOutcome],
    outputs: ReplayOutputs,
    progress: Progress,
    find: Callable[[], LintReport] | None = None,
    jobs: tuple[Job, ...] = (),
) -> Replayed:
    """The replay of a run that was read, with what `find` finds in its files, and with the end of each job."""
    reason = None
    with progress("replaying (ranks that have finished)") as advanced:
        try:
            outcome = replay(advanced)
        except ReplayError as error:
            reason = str(error)
    report = None
    if find is not None:
        with progress("linting"):
            report = find()
    findings = {} if report is None else {"findings": report.to_json()}
    if reason is not None:
        names = {"workload": run.workload.prefix, "network": run.network.source, "backend": model.name}
        return Replayed(run_title(run), names | {"reason": reason} | findings, [], report, reason)
    recording = record_run(run, outcome)
    job_ends = job_figures(jobs, outcome.finish_ns)
    figures = run_result(run, outcome, recording) | findings | run.network.carried_error
    figures |= {"jobs": job_ends} if job_ends else {}
    beyond = [f"lint finds errors: {', '.join(sorted(report.errors))}"] if report and report.errors else []
    beyond += [f"rank {rank} computes {factor:g} times as long as its trace says" for rank, factor in run.slow]
    beyond += [f"rank {rank} starts {time_ns:,} ns later than its trace says" for rank, time_ns in run.delay]
    if beyond:
        figures["beyond_astra_sim"] += beyond
        figures["exact_to"] = None

    def write(progress: Progress) -> list[Path]:
        written: list[Path] = []
        with together():
            if outputs.table is not None:
                written += write_run_csv(outputs.table, figures)
            if outputs.timeline is not None:
                from astra_tacos.export.chrome_trace import write_chrome_trace

                with progress("writing"):
                    write_chrome_trace(outputs.timeline, run, outcome)
                written.append(outputs.timeline)
            if outputs.directory is not None:
                write_replay_directory(outputs.directory, figures, recording)
                written.append(outputs.directory)
        return written

    beside = [row for row in outcome.rows() if row.importance is Importance.DETAIL]
    answer = [*run_rows(figures), *job_rows(job_ends), *beside]
    return Replayed(run_title(run), figures, answer, report, write=write)


def replay_in_astra_sim(inputs: RunInputs, binary: Path | None, backend: str, limit: int | None, progress: Progress) -> Replayed:
    """Run ASTRA-sim.

    Parameters
    ----------
    binary
        The program; None for the one that the environment or PATH has.
    backend
        What it is: `ASTRA_SIM`, with an analytical network model, or `NS3`.
    limit
        Most findings of a code; None for all.

    Raises
    ------
    ConfigError
        If there is no such program, it cannot have the network, or the network or the traces cannot be read.
    """
    in_ns3 = backend == NS3
    network = configured(read_network(inputs.network), inputs.ns3)
    program = find_binary(binary, network, PACKET if in_ns3 else None)
    model = PACKET if in_ns3 else backend_of(program, network)
    num_ranks = min(len(trace_files(inputs.workload)), network.num_npus)
    with progress("running ASTRA-sim"):
        seen = run_astra_sim(program, num_ranks, inputs, network if in_ns3 else None)
    reason = _why(inputs, model) if seen.stalled else None
    with progress("linting"):
        report = lint(inputs, model, limit)
    figures = {
        "workload": str(inputs.workload),
        "network": str(inputs.network),
        "backend": backend,
        "binary": str(seen.binary),
        "approximate": False,
        "finish_ns": seen.finish_ns.tolist(),
        "exposed_comm_ns": seen.exposed_comm_ns.tolist(),
        "links": [],
        "stalled": seen.stalled,
        **network.carried_error,
        **({} if reason is None else {"reason": reason}),
        "findings": report.to_json(),
    }
    title = f"{len(seen.finish_ns)} ranks of {inputs.workload} on {inputs.network}, by {seen.binary}"
    return Replayed(title, figures, _rows(seen, reason), report, reason)


def _rows(seen: AstraSimResult, reason: str | None) -> list[Row]:
    """The main figures of a run of ASTRA-sim."""
    rows = []
    stalled = seen.stalled
    finished = sorted(set(range(len(seen.finish_ns))) - set(stalled))
    if finished:
        last = max(finished, key=seen.finish_ns.tolist().__getitem__)
        exposed = seen.exposed_comm_ns[finished]
        rows.append(Row("end of the run", int(seen.finish_ns[last]), "ns", f"rank {last}"))
        rows.append(Row("exposed", int(exposed.max()), "ns", f"at least {exposed.min():,} ns on every rank"))
    if reason is not None:
        names = ", ".join(map(str, stalled[:_RANKS_SHOWN])) + (", ..." if len(stalled) > _RANKS_SHOWN else "")
        count = f"{len(stalled)} of {len(seen.finish_ns)} ranks"
        # An aborted process may take the last lines of its log with it.
        subject, again = ("never finished", "") if seen.exit_status >= 0 else ("no end in the log", ": run it again")
        rows.append(Row(subject, count, note=f"{names} (exit status {seen.exit_status}{again})"))
        rows.append(Row("last lines of ASTRA-sim", note=seen.last_words or "none"))
        rows.append(Row("the embedded replay", note=reason))
    return rows


def _why(inputs: RunInputs, model: Backend) -> str:
    """What the embedded engine says about a run in which ASTRA-sim left ranks behind."""
    try:
        replay_run(read_run(inputs), model)
    except AstraTacosError as error:
        return str(error)
    return "finishes. If lint finds no error, check that the binary has the same backend, and that paths resolve from --directory"
