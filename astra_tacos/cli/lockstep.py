"""`astra-tacos synthesize` on very large networks: the compact lockstep form of a schedule, streamed to disk."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.cli.compact import compact_answer
from astra_tacos.cli.console import progress

if TYPE_CHECKING:
    from astra_tacos.collective.collective import Collective
    from astra_tacos.schedule.lockstep_schedule import LockstepSchedule
    from astra_tacos.schedule.timing import LinkModel
    from astra_tacos.synthesizer.search.search_options import SearchOptions
    from astra_tacos.topology.topology import Topology

MOST_ROWS = 50_000_000
"""Sends from which on a schedule is not kept as rows, if it has a compact form."""
_SYNTHESIZERS = ("auto", "tacos")


def takes_lockstep(topology: Topology, collective: Collective, synthesizer: str) -> bool:
    """Whether a collective is too large for rows and has a compact form."""
    from astra_tacos.synthesizer.matching import lockstep

    possible = collective.name in lockstep.COLLECTIVES and lockstep.refusal(topology, collective) is None
    return collective.least_sends > MOST_ROWS and possible and synthesizer in _SYNTHESIZERS


def synthesize_lockstep(
    topology: Topology,
    collective: Collective,
    options: SearchOptions,
    link_model: tuple[LinkModel, str],
    output: Path | None,
    with_checks: bool,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Synthesize, verify and, into `output`, write: the result as for JSON, and rows to print under it.

    Parameters
    ----------
    topology, collective, options
        What to synthesize.
    link_model
        How long a send holds its link, and why, "" where the user said so.
    output
        Directory to write, None for none.
    with_checks
        Whether the oracle checks the schedule.

    Raises
    ------
    VerificationError
        If the oracle objects.
    """
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.files import replaced_directory, write_json
    from astra_tacos.judge.judges import FIGURES
    from astra_tacos.run.backend import backend_of_model
    from astra_tacos.schedule.lockstep_storage import CHUNK_FILE, save_lockstep_schedule
    from astra_tacos.schedule.timing import compute_timing
    from astra_tacos.synthesizer.matching.lockstep import lockstep_rounds

    model, reason = link_model
    timing = compute_timing(topology, collective, model, options.reduce_bandwidth_gbps)
    seed, threads = options.seed, options.threads
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(replaced_directory(output)) if output is not None else None
        path = directory / CHUNK_FILE if directory is not None else None
        with progress("synthesizing") as on_progress:
            schedule = lockstep_rounds(topology, collective, timing, seed, threads=threads, path=path, on_progress=on_progress)
        if with_checks:
            _check(schedule, threads)
        notes = [f"more than {MOST_ROWS:,} sends: made in rounds in one trial, and kept in the compact form"]
        if output is not None:
            notes.append("no traces and no MSCCL XML: ASTRA-sim cannot run a collective of this size")
        result = certify(schedule) | {"link_model_reason": reason, "verified": with_checks}
        result |= {"backend": backend_of_model(model).name, **dict.fromkeys(FIGURES)}
        if directory is not None:
            save_lockstep_schedule(schedule, directory)
            write_json(directory / "result.json", result)
    checks = "verified, every send and every round" if with_checks else "not verified"
    return compact_answer(result, checks, output, notes)


def _check(schedule: LockstepSchedule, threads: int | None) -> None:
    from astra_tacos.errors import VerificationError
    from astra_tacos.verifier.lockstep_oracle import verify_lockstep

    with progress("verifying") as on_progress:
        violations = verify_lockstep(schedule, threads, on_progress)
    if violations:
        raise VerificationError(f"{len(violations)} violations, the first: {violations[0]}")
