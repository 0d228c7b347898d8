"""The report of a training run: of a plan with the run before and after it, or of a replay."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.report.html.encoding import encode
from astra_tacos.report.html.page import MOST_DATA_BYTES, Section, render_page
from astra_tacos.report.html.rank_timeline import MOST_SEGMENTS, choose_rows, timeline_data
from astra_tacos.report.html.run_cases import plan_cases, replay_cases
from astra_tacos.report.html.run_facts import counted, plan_facts, replay_facts, schedule_facts
from astra_tacos.report.html.run_links import link_data
from astra_tacos.report.html.run_path import path_section
from astra_tacos.report.html.run_schedule import schedule_section
from astra_tacos.report.html.run_sections import run_sections
from astra_tacos.report.rank_states import STATES, Segments, coarser, find_segments, state_over_time
from astra_tacos.report.replay_directory import RESULT_FILE
from astra_tacos.report.run_report import recorded_collectives
from astra_tacos.run.recording import REPLAY_FILE, RecordedReplay, Recording, load_recording
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.text_files import read_json_object

PLAN_FILE = "plan.json"
_MOST_RANK_BARS = 128
_MOST_MOMENTS = 240
_SURE_SEGMENTS = 100_000
"""Number of segments that fit into a page even if they compress badly."""
_ROOM_FOR_THE_REST = 1_000_000
_SCRIPTS = ("run_timeline.js", "run.js")


def plan_page(directory: Path, title: str | None = None) -> bytes:
    """The report of a directory that `plan` wrote, as bytes of HTML; `title` replaces the default heading.

    Raises
    ------
    ConfigError
        If the directory is no output of `plan`, or was written without the recording from which reports are made.
    """
    recording = load_recording(directory / REPLAY_FILE)
    with _read(directory / PLAN_FILE) as result:
        if "cases" not in result:  # only scheduled
            return _scheduled_page(directory, title, result, recording)
        subtitle = (
            f"{counted(result['num_collectives'], 'collective')} of {result['num_ranks']:,} ranks, on {_network(recording)}"
        )
        facts, cases, schedule = plan_facts(result, recording), plan_cases(result), schedule_section(result)
    return _page(directory / REPLAY_FILE, title or "Planned training run", subtitle, facts, cases, recording, schedule)


def _scheduled_page(directory: Path, title: str | None, result: dict[str, Any], recording: Recording) -> bytes:
    """The report of a run whose communication was scheduled, and whose collectives keep their algorithms."""
    subtitle = f"{result['schedule']['policies']}, {recording.nodes.num_ranks:,} ranks, on {_network(recording)}"
    facts, schedule = schedule_facts(result["schedule"], recording), schedule_section(result)
    end_ns = int(recording.after.finish_ns.max())
    cases = replay_cases({"collectives": recorded_collectives(recording, recording.after), "end_ns": end_ns})
    return _page(directory / REPLAY_FILE, title or "Scheduled training run", subtitle, facts, cases, recording, schedule)


def replay_page(directory: Path, title: str | None = None) -> bytes:
    """The report of a directory that `replay --output` wrote, as bytes of HTML; `title` replaces the default heading.

    Raises
    ------
    ConfigError
        If the directory is no such output.
    """
    recording = load_recording(directory / REPLAY_FILE)
    with _read(directory / RESULT_FILE) as result:
        subtitle = (
            f"{'/'.join(Path(result['workload']).parts[-3:])}: {recording.nodes.num_ranks:,} ranks, on {_network(recording)}"
        )
        facts, cases = replay_facts(result, recording), replay_cases(result)
    return _page(directory / REPLAY_FILE, title or "Replayed training run", subtitle, facts, cases, recording)


@contextlib.contextmanager
def _read(path: Path) -> Iterator[dict[str, Any]]:
    """Read the object in a file; errors in the context, where the object is used, become errors of the file.

    Raises
    ------
    ConfigError
        If the file is not JSON, or the object lacks what its use needs.
    """
    try:
        yield read_json_object(path)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ConfigError(f"{path}: not what astra-tacos writes ({detail})") from None


def _network(recording: Recording) -> str:
    return f"{recording.network} ({recording.shape})" if recording.shape else recording.network


def _page(
    source: Path,
    title: str,
    subtitle: str,
    facts: str,
    cases: dict[str, Any],
    recording: Recording,
    schedule: Section | None = None,
) -> bytes:
    """The page of a recording.

    Parameters
    ----------
    source
        The recording's file, as errors name it.
    title, subtitle
        The heading, and the line under it.
    facts, cases
        Markup of the summary, and data of the collectives.
    recording
        The recorded run.
    schedule
        The section on how its communication was scheduled, if it was.
    """
    replays = [("after" if recording.before else "run", recording.after)]
    if recording.before is not None:
        replays.insert(0, ("before", recording.before))
    whens, recorded = [when for when, _ in replays], [replay for _, replay in replays]
    segments = [find_segments(recording.nodes, replay) for replay in recorded]
    timeline, rule = _timeline(recording, list(zip(recorded, segments, strict=True)))
    links = link_data(recording, recorded)
    rank_bars = _rank_bars(segments)
    data = {
        "whens": whens,
        "ends": [replay.run_end_ns for replay in recorded],
        "num_ranks": recording.nodes.num_ranks,
        "states": list(STATES),
        "patterns": [pattern.name.lower().replace("_", "-") for pattern in CommType],
        "over_time": _over_time(recorded, segments),
        "ranks": rank_bars,
        "timeline": timeline,
        "cases": cases,
        "links": links,
    }
    sections = run_sections(facts, rule, recording, rank_bars["block"], cases, links)
    try:
        sections.insert(2, path_section(recording))
    except ValueError as error:
        raise ConfigError(f"{source}: not what astra-tacos writes ({error})") from None
    if schedule is not None:
        sections.insert(1, schedule)
    return render_page(title, subtitle, sections, data, _SCRIPTS)


def _timeline(recording: Recording, replays: list[tuple[RecordedReplay, Segments]]) -> tuple[dict[str, Any], str]:
    """The data of as many rows as fit on the page, and sentences that say which rows these are.

    If single ranks have very many segments, segments too short to be seen are merged.
    """
    most = MOST_SEGMENTS
    longest = int(np.sum([np.diff(segments.rank_first) for _, segments in replays], axis=0).max())
    merged = ""
    if longest > MOST_SEGMENTS // 4:
        end_ns = max(replay.run_end_ns for replay, _ in replays)
        resolution_ns = -(-12 * len(replays) * end_ns // MOST_SEGMENTS)
        replays = [(replay, coarser(segments, resolution_ns)) for replay, segments in replays]
        merged = f" Times under {resolution_ns:,} ns that follow one another are merged into the state that takes most of them."
    while True:
        rows = choose_rows(recording.nodes, [segments for _, segments in replays], recording.after.finish_ns, most)
        data = timeline_data(recording, replays, rows)
        num_segments = sum(len(one["state"]) for one in data["replays"])
        if num_segments <= _SURE_SEGMENTS or len(rows.ranks) == 1 or len(encode(data)) <= MOST_DATA_BYTES - _ROOM_FOR_THE_REST:
            return data, rows.rule + merged
        most = num_segments // 2


def _over_time(replays: list[RecordedReplay], segments: list[Segments]) -> dict[str, Any]:
    """Edges of time in ns, and for each replay the mean number of ranks in each state between them."""
    edges = np.linspace(0, max(max(replay.run_end_ns for replay in replays), 1), _MOST_MOMENTS + 1)
    return {"edges": edges, "shares": [state_over_time(found, edges).astype(np.float32) for found in segments]}


def _rank_bars(segments: list[Segments]) -> dict[str, Any]:
    """Time of each rank in each state in ns; of many ranks, the means of blocks of consecutive ranks."""
    totals = [found.totals() for found in segments]
    num_ranks = len(totals[0])
    block = -(-num_ranks // _MOST_RANK_BARS)
    firsts = np.arange(0, num_ranks, block)
    counts = np.diff(np.append(firsts, num_ranks))
    labels = [str(first) if count == 1 else f"{first}-{first + count - 1}" for first, count in zip(firsts, counts, strict=True)]
    means = [np.add.reduceat(total, firsts, axis=0) / counts[:, None] for total in totals]
    return {"labels": labels, "block": block, "spent": [np.ascontiguousarray(mean.T) for mean in means]}
