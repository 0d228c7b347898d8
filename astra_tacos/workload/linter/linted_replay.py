"""Replays of a run, by the embedded engine or by the user's ASTRA-sim, with what `lint` finds in its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.export.chrome_trace import write_chrome_trace
from astra_tacos.network.network_config import configured, read_network
from astra_tacos.replayer.astra_sim import AstraSimResult, backend_of, find_binary, run_astra_sim
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.report.run_report import run_result, write_replay_directory, write_run_csv
from astra_tacos.run.backend import NS3, PACKET, Backend
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.recording import Recording, record_run
from astra_tacos.run.run import Run, RunInputs, read_run
from astra_tacos.run.trace.reader import trace_files
from astra_tacos.solver.first_use import Progress
from astra_tacos.support.errors import AstraTacosError
from astra_tacos.support.files import together
from astra_tacos.workload.linter.lint import LintReport, lint

_MOST_RANKS = 8


@dataclass(frozen=True, slots=True, eq=False)
class LintedReplay:
    """A replay by the embedded engine.

    Parameters
    ----------
    run, outcome, recording
        The run, and its replay.
    figures
        The figures of both, as `replay --json` prints them.
    """

    run: Run
    outcome: RunOutcome
    recording: Recording
    figures: dict[str, Any]

    @classmethod
    def of(cls, run: Run, outcome: RunOutcome, report: LintReport) -> LintedReplay:
        """A replay and what `lint` finds: a run that it finds errors in is not exact to ASTRA-sim."""
        recording = record_run(run, outcome)
        figures = run_result(run, outcome, recording) | {"findings": report.to_json()}
        if report.errors:
            figures["beyond_astra_sim"].append(f"lint finds errors: {', '.join(sorted(report.errors))}")
            figures["exact_to"] = None
        return cls(run, outcome, recording, figures)

    def write(self, table: Path | None, timeline: Path | None, directory: Path | None, progress: Progress) -> list[Path]:
        """Write tables of ranks and links, a timeline for Perfetto and a directory for reports, or those that are asked for.

        Returns
        -------
        list
            What was written.
        """
        written: list[Path] = []
        with together():
            if table is not None:
                written += write_run_csv(table, self.figures)
            if timeline is not None:
                with progress("writing"):
                    write_chrome_trace(timeline, self.run, self.outcome)
                written.append(timeline)
            if directory is not None:
                write_replay_directory(directory, self.figures, self.recording)
                written.append(directory)
        return written


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

    def rows(self) -> list[tuple[str, str]]:
        """The main figures as labels and values."""
        seen, stalled = self.seen, self.seen.stalled
        rows = [("run", f"{self.inputs.workload} on {self.inputs.network}, by {seen.binary}")]
        finished = sorted(set(range(len(seen.finish_ns))) - set(stalled))
        if finished:
            last = max(finished, key=seen.finish_ns.tolist().__getitem__)
            exposed = seen.exposed_comm_ns[finished]
            rows.append(("end of the run", f"{seen.finish_ns[last]:,} ns, rank {last}"))
            rows.append(("exposed communication", f"{exposed.min():,} to {exposed.max():,} ns"))
        if self.reason is not None:
            names = ", ".join(map(str, stalled[:_MOST_RANKS])) + (", ..." if len(stalled) > _MOST_RANKS else "")
            count = f"{len(stalled)} of {len(seen.finish_ns)} ranks"
            rows.append(("never finished", f"{count}: {names} (exit status {seen.exit_status})"))
            rows.append(("last lines of ASTRA-sim", seen.last_words or "none"))
            rows.append(("the embedded replay", self.reason))
        return rows


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
