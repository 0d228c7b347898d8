"""`astra-tacos synthesize` on networks with too many sends to list: what NPU 0's chunks do, which stands for all."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astra_tacos.cli.console import print_rows, progress
from astra_tacos.cli.first_use import SYMMETRIC, compile_ahead
from astra_tacos.errors import ConfigError

if TYPE_CHECKING:
    from astra_tacos.config.network import NetworkConfig
    from astra_tacos.run.backend import Backend
    from astra_tacos.synthesizer.search.search_options import SearchOptions

MOST_ROWS = 50_000_000
"""Sends that can be listed one by one."""


def check_sends(network: NetworkConfig, collective: str, options: SearchOptions) -> None:
    """Refuse, before the search, what has too many sends to be listed.

    Parameters
    ----------
    network, collective, options
        As for `takes_symmetric`.

    Raises
    ------
    ConfigError
        If there are more than `MOST_ROWS` sends: says how many NPUs have fewer, and where `symmetric` does without a list.
    """
    from astra_tacos.collective import ROOTED
    from astra_tacos.judge.symmetric import has_many_sends, is_symmetric, sends_of_pair

    if collective in ROOTED or not has_many_sends(network, collective, replace(options, max_sends=MOST_ROWS)):
        return
    instead = f"use at most {(1 + isqrt(1 + 4 * MOST_ROWS // sends_of_pair(collective, options))) // 2:,} NPUs"
    if isinstance(options.chunks_per_npu, int) and options.chunks_per_npu > 1:
        instead += ", or fewer chunks"
    if is_symmetric(network, collective, replace(options, synthesizer="symmetric")):
        instead += ", or `synthesize --synthesizer symmetric`, which makes NPU 0's chunks for all"
    raise ConfigError(
        f"{network.source}: {network.num_npus:,} NPUs, for which {collective} has more than {MOST_ROWS:,} sends, too many to "
        f"list: {instead}"
    )


def takes_symmetric(network: NetworkConfig, collective: str, options: SearchOptions) -> bool:
    """Whether a schedule has more sends than `--max-sends` with one chunk per NPU, and `symmetric` is asked for and can do it.

    Parameters
    ----------
    network
        The network, as described.
    collective
        Name of the collective.
    options
        What is asked of the search.
    """
    from astra_tacos.judge.symmetric import has_many_sends, is_symmetric

    return is_symmetric(network, collective, options) and has_many_sends(network, collective, options)


def synthesize_compact(
    network: NetworkConfig,
    task: tuple[str, int],
    options: SearchOptions,
    backend: Backend | None,
    output: Path | None,
    with_checks: bool,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Synthesize, verify and, into `output`, write: the result as for JSON, and rows to print under it.

    Parameters
    ----------
    network
        The network, which looks the same from every NPU.
    task
        Name and size of the collective.
    options
        What is asked of the search; chunks, link model and reductions count.
    backend
        The network model that was asked for; None for what stock ASTRA-sim comes closest to.
    output
        Directory to write, None for none.
    with_checks
        Whether the oracle checks the schedule.

    Raises
    ------
    SynthesisError
        If chunks are too small or too large for the links.
    VerificationError
        If the oracle objects.
    """
    from astra_tacos.bounds.symmetric_certificate import certify_symmetric
    from astra_tacos.files import replaced_directory, write_json
    from astra_tacos.judge.judges import FIGURES
    from astra_tacos.judge.symmetric import symmetric_tasks, symmetric_times
    from astra_tacos.run.backend import backend_of_model
    from astra_tacos.schedule.symmetric_storage import save_symmetric_schedule
    from astra_tacos.synthesizer.symmetric.chunks import fastest_symmetric
    from astra_tacos.verifier.symmetric_oracle import check_symmetric

    asked, reason = symmetric_tasks(network, *task, options, backend)
    compile_ahead(*SYMMETRIC)
    with progress("synthesizing"):
        schedule = fastest_symmetric(asked, None, options.chooses_chunks)
    if with_checks:
        with progress("verifying"):
            check_symmetric(schedule)
    notes = [
        f"{schedule.num_sends:,} sends, more than --max-sends {options.max_sends:,}: kept as the {schedule.num_rows:,} sends of "
        "NPU 0's chunks, which all other NPUs make alike"
    ]
    if output is not None:
        notes.append("no traces and no MSCCL XML; raise --max-sends where ASTRA-sim can run a collective of this size")
    result = certify_symmetric(schedule) | {"link_model_reason": reason, "verified": with_checks}
    result |= {"backend": (backend or backend_of_model(schedule.task.link_model)).name}
    result |= dict.fromkeys(FIGURES) | symmetric_times(schedule, backend)
    if output is not None:
        with progress("writing"), replaced_directory(output) as directory:
            save_symmetric_schedule(schedule, directory / "schedule.npz")
            write_json(directory / "result.json", result)
    checks = "verified, for all NPUs: the network looks the same from each" if with_checks else "not verified"
    rows = [("checks", checks), *([] if output is None else [("files", str(output))]), *(("note", note) for note in notes)]
    return result | {"output": None if output is None else str(output), "notes": notes}, rows


def print_compact(result: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    """Print the figures, and what else there is to say."""
    from astra_tacos.report.table import synthesis_rows

    print_rows([*synthesis_rows(result), *rows])
