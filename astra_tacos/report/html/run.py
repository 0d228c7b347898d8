"""The report of a training run: a plan, before and after, or a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.errors import ConfigError
from astra_tacos.report.html.link_use import link_data
from astra_tacos.report.html.page import Section, render_page
from astra_tacos.report.html.rank_timeline import Rows, choose_rows, timeline_data
from astra_tacos.report.html.run_cases import plan_cases, replay_cases
from astra_tacos.report.html.run_facts import plan_facts, replay_facts
from astra_tacos.report.rank_states import STATES, Segments, find_segments, state_over_time
from astra_tacos.report.replay_directory import RESULT_FILE
from astra_tacos.run.recording import REPLAY_FILE, RecordedReplay, Recording, load_recording
from astra_tacos.trace.schema import CommType

PLAN_FILE = "plan.json"
_MOST_RANK_BARS = 128
_MOST_MOMENTS = 240
_SCRIPTS = ("run_timeline.js", "run.js")


def plan_page(directory: Path) -> bytes:
    """The report of a directory that `plan` wrote.

    Raises
    ------
    ConfigError
        If it is none, or was written without the recording that reports are made from.
    """
    result = _read(directory / PLAN_FILE)
    recording = load_recording(directory / REPLAY_FILE)
    subtitle = f"{result['num_collectives']:,} collectives of {result['num_ranks']:,} ranks, on {_network(recording)}"
    facts, cases = plan_facts(result, recording), plan_cases(result)
    return _page("Planned training run", subtitle, facts, cases, recording)


def replay_page(directory: Path) -> bytes:
    """The report of a directory that `replay --output` wrote.

    Raises
    ------
    ConfigError
        If it is none.
    """
    result = _read(directory / RESULT_FILE)
    recording = load_recording(directory / REPLAY_FILE)
    subtitle = f"{Path(result['workload']).name}: {recording.nodes.num_ranks:,} ranks, on {_network(recording)}"
    return _page("Replayed training run", subtitle, replay_facts(result, recording), replay_cases(result), recording)


def _read(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from None
    if not isinstance(result, dict):
        raise ConfigError(f"{path}: holds a {type(result).__name__}, expected an object")
    return result


def _network(recording: Recording) -> str:
    return f"{recording.network} ({recording.shape})" if recording.shape else recording.network


def _page(title: str, subtitle: str, facts: str, cases: dict[str, Any], recording: Recording) -> bytes:
    replays = [("after" if recording.before else "run", recording.after)]
    if recording.before is not None:
        replays.insert(0, ("before", recording.before))
    whens, recorded = [when for when, _ in replays], [replay for _, replay in replays]
    segments = [find_segments(recording.nodes, replay) for replay in recorded]
    rows = choose_rows(recording.nodes, segments, recording.after.finish_ns)
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
        "timeline": timeline_data(recording, list(zip(recorded, segments, strict=True)), rows),
        "cases": cases,
        "links": links,
    }
    sections = _sections(facts, rows, recording, rank_bars["block"], cases, links)
    return render_page(title, subtitle, sections, data, _SCRIPTS)


def _over_time(replays: list[RecordedReplay], segments: list[Segments]) -> dict[str, Any]:
    """Ranks in each state over time; one time axis."""
    edges = np.linspace(0, max(max(replay.run_end_ns for replay in replays), 1), _MOST_MOMENTS + 1)
    return {"edges": edges, "shares": [state_over_time(found, edges).astype(np.float32) for found in segments]}


def _rank_bars(segments: list[Segments]) -> dict[str, Any]:
    """Time of each rank in each state, or the mean of ranks that follow one another, if there are many."""
    totals = [found.totals() for found in segments]
    num_ranks = len(totals[0])
    block = -(-num_ranks // _MOST_RANK_BARS)
    firsts = np.arange(0, num_ranks, block)
    counts = np.diff(np.append(firsts, num_ranks))
    labels = [str(first) if count == 1 else f"{first}-{first + count - 1}" for first, count in zip(firsts, counts, strict=True)]
    means = [np.add.reduceat(total, firsts, axis=0) / counts[:, None] for total in totals]
    return {"labels": labels, "block": block, "spent": [np.ascontiguousarray(mean.T) for mean in means]}


def _sections(
    facts: str, rows: Rows, recording: Recording, block: int, cases: dict[str, Any], links: dict[str, Any] | None
) -> list[Section]:
    both = recording.before is not None
    num_ranks = recording.nodes.num_ranks
    twice = " Before and after share one time axis." if both else ""
    sections = [
        Section("summary", "Summary", facts),
        Section(
            "ranks",
            "What ranks do, when",
            f'<div id="over-time"></div><h3>Rank by rank</h3><p class="introduction">{rows.rule}</p>'
            '<div id="timeline"></div><div id="picked"></div><h3>Time of each rank</h3>'
            f'<p class="introduction">{_bars_say(num_ranks, block)}</p><div id="rank-bars"></div>',
            f"How many of the {num_ranks:,} ranks compute, communicate, or wait at every moment.{twice} Exposed communication, "
            "as ASTRA-sim counts it, is all time without compute until a rank has finished: exposed collectives and messages, "
            "waiting for a message, and idling.",
        ),
        Section("collectives", "Collectives", '<div id="case-bars"></div><div id="case-table"></div>', str(cases["says"])),
    ]
    if links is not None:
        sections.append(
            Section(
                "links",
                "Links",
                '<div id="link-matrices" class="split"></div><h3>From the busiest link to the idlest</h3>'
                '<div id="link-curves"></div><h3>Dimensions</h3><div id="link-dimensions"></div><h3>Busiest links</h3>'
                f'<p class="introduction">{_busiest_say(links)}</p><div id="link-table"></div>',
                _links_say(links, num_ranks),
            )
        )
    return sections


def _bars_say(num_ranks: int, block: int) -> str:
    if block == 1:
        return "Until it has finished."
    return f"Until it has finished; each bar is the mean of {block:,} ranks that follow one another."


def _links_say(links: dict[str, Any], num_ranks: int) -> str:
    text = (
        f"For how much of the run each of the {links['num_links']:,} links is busy, from source (rows) to destination (columns)."
    )
    if links["routed"]:
        text += (
            " The congestion-unaware model has no links: theirs is the time that all messages would take them on their routes, "
            "dimension by dimension; more than 100% is a bottleneck that this model does not see."
        )
    if links["block_size"] > 1 or len(links["labels"]) < num_ranks:
        text += f" Each cell is the mean over the links between blocks of {links['block_size']:,} NPUs."
    return text


def _busiest_say(links: dict[str, Any]) -> str:
    shown = len(links["busiest"]["link"])
    if shown == links["num_links"]:
        return f"All {shown:,} links."
    return f"The {shown:,} busiest of {links['num_links']:,} links."
