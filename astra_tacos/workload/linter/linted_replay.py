"""Replays of a run, by the embedded engine or by the user's ASTRA-sim, with what `lint` finds in its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.network.network_config import configured, read_network
from astra_tacos.replayer.astra_sim import AstraSimResult, backend_of, find_binary, run_astra_sim
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.report.run_report import (
    Tables,
    check_replay_directory,
    run_result,
    run_rows,
    run_tables,
    run_title,
    write_replay_directory,
    write_run_csv,
)
from astra_tacos.run.backend import NS3, PACKET, Backend, choose_backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.recording import Recording, record_run
from astra_tacos.run.run import Run, RunInputs, read_run
from astra_tacos.run.trace.reader import trace_files
from astra_tacos.solver.first_use import Progress
from astra_tacos.support.errors import AstraTacosError, ReplayError
from astra_tacos.support.files import check_apart, together
from astra_tacos.workload.linter.lint import LintReport, lint

_MOST_RANKS = 8


@dataclass(frozen=True, slots=True)
class ReplayOutputs:
    """Where a replay by the embedded engine is written, None for not: a table of ranks, a timeline for Perfetto, a directory."""

    table: Path | None = None
    timeline: Path | None = None
    directory: Path | None = None

    def check(self, inputs: RunInputs) -> None:
        """Check, before any work is done, that nothing is replaced that is no earlier replay.

        Raises
        ------
        ConfigError
            If something would be.
        """
        check_apart((self.table, self.timeline), (inputs.network, inputs.system, inputs.groups, inputs.remote_memory))
        if self.directory is not None:
            check_replay_directory(self.directory)


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedReplay:
    """A replay by the embedded engine.

    Parameters
    ----------
    run, outcome, recording
        The run, and its replay; None of a run that does not end.
    figures
        The object that `replay --json` prints.
    report
        What `lint` finds.
    """

    run: Run
    outcome: RunOutcome | None
    recording: Recording | None
    figures: dict[str, Any]
    report: LintReport

    @property
    def reason(self) -> str | None:
        """Why the run does not end; None if it does."""
        return self.figures["reason"] if self.outcome is None else None

    def write(self, outputs: ReplayOutputs, progress: Progress) -> list[Path]:
        """Write all that is asked for, or nothing; returns the files and directories."""
        written: list[Path] = []
        with together():
            if outputs.table is not None:
                written += write_run_csv(outputs.table, self.figures)
            if outputs.timeline is not None and self.outcome is not None:
                from astra_tacos.export.chrome_trace import write_chrome_trace

                with progress("writing"):
                    write_chrome_trace(outputs.timeline, self.run, self.outcome)
                written.append(outputs.timeline)
            if outputs.directory is not None and self.recording is not None:
                write_replay_directory(outputs.directory, self.figures, self.recording)
                written.append(outputs.directory)
        return written

    def to_json(self) -> dict[str, Any]:
        """The object that `replay --json` prints."""
        return self.figures

    @property
    def title(self) -> str:
        """The run in a line."""
        return run_title(self.run)

    def rows(self) -> list[tuple[str, ...]]:
        """The main figures: labels, figures, remarks."""
        return run_rows(self.figures)

    def tables(self) -> Tables:
        """Title, header and rows of each table."""
        return run_tables(self.figures)


def replay_embedded(
    inputs: RunInputs, backend: Backend | None, outputs: ReplayOutputs, limit: int | None, progress: Progress
) -> EmbeddedReplay:
    """Replay a run by the embedded engine. A run that `lint` finds errors in is not exact to ASTRA-sim.

    Parameters
    ----------
    inputs, backend
        The run, and its network model; None for that of the network.
    outputs
        What will be written.
    limit
        Most findings of a code; None for all.
    progress
        Shows what is being done.

    Raises
    ------
    ConfigError
        If a file is not what it should be, or the network model cannot have the network.
    """
    with progress("reading"):
        run = read_run(inputs)
    model = choose_backend(backend, run.network)
    outcome, recording = None, None
    with progress("replaying (ranks that have finished)") as advanced:
        wanted = {"record_transmissions": outputs.timeline is not None, "route_loads": outputs.directory is not None}
        try:
            outcome = replay_run(run, model, **wanted, progress=advanced)
        except ReplayError as error:
            names = {"workload": run.workload.prefix, "network": run.network.source, "backend": model.name}
            figures: dict[str, Any] = names | {"reason": str(error)}
    if outcome is not None:
        recording = record_run(run, outcome)
        figures = run_result(run, outcome, recording)
    with progress("linting"):
        report = lint(inputs, model, limit)
    figures["findings"] = report.to_json()
    if report.errors and outcome is not None:
        figures["beyond_astra_sim"].append(f"lint finds errors: {', '.join(sorted(report.errors))}")
        figures["exact_to"] = None
    return EmbeddedReplay(run, outcome, recording, figures, report)


@dataclass(frozen=True, slots=True, eq=False)
class AstraSimReplay:
    """A run of the user's ASTRA-sim.

    Parameters
    ----------
    inputs, seen
        The run, and what its log says.
    backend
        What ran it, `ASTRA_SIM` or `NS3`.
    reason
        What the embedded engine says about a run in which ASTRA-sim left ranks behind; None for others.
    report
        What `lint` finds.
    """

    inputs: RunInputs
    seen: AstraSimResult
    backend: str
    reason: str | None
    report: LintReport

    def to_json(self) -> dict[str, Any]:
        """The object that `replay --json` prints."""
        return {
            "workload": str(self.inputs.workload),
            "network": str(self.inputs.network),
            "backend": self.backend,
            "binary": str(self.seen.binary),
            "approximate": False,
            "finish_ns": self.seen.finish_ns.tolist(),
            "exposed_comm_ns": self.seen.exposed_comm_ns.tolist(),
            "links": [],
            "stalled": self.seen.stalled,
            **({} if self.reason is None else {"reason": self.reason}),
            "findings": self.report.to_json(),
        }

    @property
    def title(self) -> str:
        """The run in a line."""
        return f"{len(self.seen.finish_ns)} ranks of {self.inputs.workload} on {self.inputs.network}, by {self.seen.binary}"

    def rows(self) -> list[tuple[str, ...]]:
        """The main figures: labels, figures, remarks."""
        seen, stalled = self.seen, self.seen.stalled
        rows: list[tuple[str, ...]] = []
        finished = sorted(set(range(len(seen.finish_ns))) - set(stalled))
        if finished:
            last = max(finished, key=seen.finish_ns.tolist().__getitem__)
            exposed = seen.exposed_comm_ns[finished]
            rows.append(("end of the run", f"{seen.finish_ns[last]:,} ns", f"rank {last}"))
            rows.append(("exposed", f"{exposed.max():,} ns", f"at least {exposed.min():,} ns on every rank"))
        if self.reason is not None:
            names = ", ".join(map(str, stalled[:_MOST_RANKS])) + (", ..." if len(stalled) > _MOST_RANKS else "")
            count = f"{len(stalled)} of {len(seen.finish_ns)} ranks"
            rows.append(("never finished", count, f"{names} (exit status {seen.exit_status})"))
            rows.append(("last lines of ASTRA-sim", "", seen.last_words or "none"))
            rows.append(("the embedded replay", "", self.reason))
        return rows

    def tables(self) -> Tables:
        """None: ASTRA-sim prints only finish times."""
        return iter(())


def replay_in_astra_sim(
    inputs: RunInputs, binary: Path | None, backend: str, limit: int | None, progress: Progress
) -> AstraSimReplay:
    """Run ASTRA-sim.

    Parameters
    ----------
    inputs
        The files of the run.
    binary
        The program; None for the one that the environment or PATH has.
    backend
        What it is: `ASTRA_SIM`, with an analytical network model, or `NS3`.
    limit
        Most findings of a code; None for all.
    progress
        Shows what is being done.

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
        return AstraSimReplay(inputs, seen, backend, reason, lint(inputs, model, limit))


def _why(inputs: RunInputs, model: Backend) -> str:
    """What the embedded engine says about a run in which ASTRA-sim left ranks behind."""
    try:
        replay_run(read_run(inputs), model)
    except AstraTacosError as error:
        return str(error)
    return "finishes. If lint finds no error, check that the binary has the same backend, and that paths resolve from --directory"
