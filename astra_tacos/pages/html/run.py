"""The page of a training run: of a plan with the run before and after it, or of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from astra_tacos.pages.html.page import MOST_DATA_BYTES, Section, counted, encode, escape, render_page, span
from astra_tacos.pages.html.run_bars import path_section, schedule_section
from astra_tacos.pages.html.run_data import MOST_SEGMENTS, choose_rows, link_data, timeline_data
from astra_tacos.pages.plan_file import OnlyScheduledFile, PlanFile, ScheduledRunFile
from astra_tacos.pages.prints import prints_text
from astra_tacos.pages.rank_states import STATES, Segments, coarser, find_segments, state_over_time
from astra_tacos.pages.run_report import RESULT_FILE, ReplayFile, recorded_collectives, run_rows
from astra_tacos.run.recording import REPLAY_FILE, Nodes, RecordedReplay, Recording, load_recording
from astra_tacos.run.trace.schema import CommType
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import read_json_object
from astra_tacos.support.formats.values import describe
from astra_tacos.support.own_files import decoded, read_own
from astra_tacos.support.rows import Row, detail, notes_of
from astra_tacos.support.rows_html import rows_html
from astra_tacos.support.units import format_size

_POINT = (
    "Point at a bar, or move with the arrow keys, to read which node it is; "
    "pick it to highlight the same node on all ranks of its group."
)


def _run_sections(
    rows: list[Row], rule: str, recording: Recording, block: int, cases: dict[str, Any], links: dict[str, Any] | None
) -> list[Section]:
    """The sections of the page, from top to bottom.

    Parameters
    ----------
    links
        Data of the links; None if the network has none.
    """
    both = recording.before is not None
    num_ranks = recording.nodes.num_ranks
    twice = " Before and after share one time axis." if both else ""
    bars = "How each rank spends its time until it has finished."
    if block > 1:
        bars = "How ranks spend their time until they have finished; "
        bars += f"each bar is the mean of {block:,} ranks that follow one another."
    sections = [
        Section("summary", "Summary", rows_html(rows)),
        Section(
            "ranks",
            "What ranks do, when",
            f'<div id="over-time"></div><h3>Rank by rank</h3><p class="introduction">{escape(rule)} {_POINT}</p>'
            '<div id="timeline"></div><div id="picked"></div><h3>Time of each rank</h3>'
            f'<p class="introduction">{bars}</p><div id="rank-bars"></div>',
            f"How many of the {recording.nodes.title} compute, communicate, or wait at every moment.{twice} Exposed "
            "communication, as ASTRA-sim counts it, is all time without compute until a rank has finished: exposed collectives "
            "and messages, waiting for a message, and idling.",
        ),
        Section("collectives", "Collectives", '<div id="case-bars"></div><div id="case-table"></div>', str(cases["says"])),
    ]
    if links is not None:
        shown, most = len(links["busiest"]["link"]), links["num_links"]
        busiest = f"All {shown:,} links." if shown == most else f"The {shown:,} busiest of {most:,} links."
        sections.append(
            Section(
                "links",
                "Links",
                '<div id="link-matrices" class="split"></div><h3>From the busiest link to the idlest</h3>'
                '<div id="link-curves"></div><h3>Dimensions</h3><div id="link-dimensions"></div><h3>Busiest links</h3>'
                f'<p class="introduction">{busiest}</p><div id="link-table"></div>',
                _links_say(links, num_ranks),
            )
        )
    return sections


def _links_say(links: dict[str, Any], num_ranks: int) -> str:
    text = (
        f"For how much of the run each of the {links['num_links']:,} links is busy, from source (rows) to destination (columns)."
    )
    if links["routed"]:
        text += (
            " This model has no links. The figure is the time that all messages would take on the links of their routes, "
            "dimension by dimension; more than 100% is a bottleneck that this model does not see."
        )
    if links["block_size"] > 1 or len(links["labels"]) < num_ranks:
        text += (
            f" A cell is the mean over the links between blocks of {links['block_size']:,} NPUs; the switches of a dimension are "
            "one row and column, named by its number."
        )
    return text


_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "\N{MICRO SIGN}s"), (1, "ns"))


def _plan_rows(result: PlanFile, recording: Recording) -> list[Row]:
    """The main figures of a plan, from the object in `plan.json`."""
    times = result["before_ns"], result["time_ns"], result["exposed_before_ns"], result["exposed_ns"]
    main = _compared(*times, result["speed_up"])
    printed = prints_text(result["prints"], result["backend"])
    kept = [case["reason"] for case in result["cases"] if case["reason"]]
    return [
        *main,
        Row("collectives", result["num_collectives"], note=f"{counted(len(result['cases']), 'case')}, each synthesized once"),
        detail("network model", result["backend"]),
        detail("before", _before(result)),
        detail("at least", result["bound_ns"], "ns", result["bound_where"]),
        *_best_native(result),
        *([detail("prints", printed)] if printed else []),
        *_common(recording),
        *([detail("not changed", "; ".join(dict.fromkeys(kept)))] if kept else []),
    ]


def _compared(before: int | None, after: int, was: int | None, now: int, speed_up: float | None) -> list[Row]:
    """A run, and its exposed communication, before (None if it did not end) and after."""
    share = f"{now / max(after, 1):.0%}"
    if before is None or was is None or speed_up is None:
        rows = [Row("end of the run", _change(None, after), note=f"{after:,} ns")]
    else:
        share = f"{was / max(before, 1):.0%} → {share}"
        gain = f"{abs(before - after) / max(before, 1):.1%} {'less' if after < before else 'more'} time"
        rows = [
            Row("end of the run", _change(before, after), note=f"{before:,} → {after:,} ns"),
            Row("speed-up", f"{speed_up:.3f}x", note="as long as before" if before == after else gain),
        ]
    return [*rows, Row("exposed", _change(was, now), note=f"the most of a rank: {share} of the run")]


def _schedule_rows(schedule: ScheduledRunFile, recording: Recording) -> list[Row]:
    """The main figures of a run that was only scheduled, from the entry `schedule` of `plan.json`."""
    times = schedule["as_is_ns"], schedule["after_ns"], schedule["exposed_as_is_ns"], schedule["exposed_after_ns"]
    return [
        *_compared(*times, schedule["speed_up"]),
        detail("policies", schedule["policies"]),
        detail("network model", schedule["backend"]),
        detail("before", "the run before, with the same collective algorithms"),
        *_common(recording),
        *notes_of(schedule["notes"]),
    ]


def _before(result: PlanFile) -> str:
    if result["before_ns"] is None:
        return f"the run did not end: {result.get('before_reason')}"
    return f"native {result['baseline']} everywhere" if result.get("baseline") else "the run as it was"


def _best_native(result: PlanFile) -> list[Row]:
    """The fastest native configuration; nothing for plans that know of none."""
    best = result.get("best_native")
    if best is None:
        return []
    text = f"{best['name']}; {result['speed_up_over_best_native']:.3f} times as long as this run"
    moved_ns = result.get("moved_ns")
    moved = [] if moved_ns is None else [detail("best native, moved", moved_ns, "ns", "in the schedule or placement of this run")]
    return [detail("best native", result["best_native_ns"], "ns", text), *moved]


def _replay_rows(result: ReplayFile) -> list[Row]:
    """The main figures of a replay, and what `lint` found, from the object in `replay.json`."""
    counts = Counter((finding["severity"], finding["code"]) for finding in result.get("findings", ()))
    listed = ", ".join(
        f"{code} ({severity}{f', {count:,} times' if count > 1 else ''})" for (severity, code), count in sorted(counts.items())
    )
    return [*run_rows(result), *([detail("lint", listed or "nothing found")] if "findings" in result else [])]


def _common(recording: Recording) -> list[Row]:
    """Exactness, bytes sent, and network."""
    replays = recording.replays
    exactness = {_exactness(replay) for _, replay in replays}
    alike = recording.nodes.num_alike
    sent = " → ".join(format_size(int(replay.sent_bytes.sum()) * alike) for _, replay in replays)
    exact = exactness.pop() if len(exactness) == 1 else "; ".join(f"{when}: {_exactness(replay)}" for when, replay in replays)
    return [
        detail("exactness", exact),
        detail("sent", sent, note="in all"),
        detail("network", f"{recording.network}: {recording.shape or 'a graph'}, {recording.num_npus:,} NPUs"),
    ]


def _exactness(replay: RecordedReplay) -> str:
    if not replay.approximate:
        return "exact, to the nanosecond as ASTRA-sim"
    return f"approximate, as it has {', '.join(replay.approximate)}"


def _change(before: int | None, after: int) -> str:
    """One or two times as text, such as `2.44 → 1.34 ms`, with three digits in the unit of the longer one."""
    times = [after] if before is None else [before, after]
    scale, unit = next((entry for entry in _UNITS if max(times) >= entry[0]), _UNITS[-1])
    longest = max(times) / scale
    digits = 0 if scale == 1 or longest >= 100 else 1 if longest >= 10 else 2
    return " → ".join(f"{time / scale:,.{digits}f}" for time in times) + f" {unit}"


_CASE_COLUMNS = {
    "collective": "collective",
    "size_bytes": "size_bytes",
    "members": "members",
    "groups": "groups",
    "count": "count",
    "algorithm": "algorithm",
    "predicted_ns": "predicted_ns",
    "bound_ns": "bound_ns",
    "before_ns": "spent_before_ns",
    "after_ns": "spent_after_ns",
    "share": "share",
}
"""Columns of the table of collectives, and the names of the same figures in `plan.json`."""


def _plan_cases(result: PlanFile) -> dict[str, Any]:
    """Data of the distinct collectives of a plan, from the object in `plan.json`."""
    cases: Sequence[Mapping[str, Any]] = result["cases"]
    columns: dict[str, list[Any]] = {column: [case[name] for case in cases] for column, name in _CASE_COLUMNS.items()}
    columns["algorithm"] = [
        f"{case['algorithm']} x{case['chunks_per_npu']}" if case["chunks_per_npu"] else str(case["algorithm"]) for case in cases
    ]
    columns["note"] = [_note(case) for case in cases]
    says = (
        "Nodes of one pattern and size whose groups see the same network are one case, which is synthesized once. Before and "
        "after: the most time that a rank spends in its collectives, overlapped or not; share: of the run after. Predicted and "
        "bound: of one group alone; ~ marks an estimate."
    )
    labels = [f"{case['collective']} {format_size(case['size_bytes'])}, {case['members']} members" for case in cases]
    return {"kind": "plan", "says": says, "labels": labels, "exact": [case["exact"] for case in cases], "columns": columns}


def _note(case: Mapping[str, Any]) -> str:
    notes = [case["reason"]] if case["reason"] else []
    if case["was_cut_off"]:
        notes.append("the search was cut off by its budget")
    if case.get("ran_out_of_time"):
        notes.append("the search was cut off by its time limit: the result depends on the machine")
    return "; ".join(notes)


def _replay_cases(result: Mapping[str, Any]) -> dict[str, Any]:
    """Data of the collectives of a replay, from the object in `replay.json`."""
    collectives = result["collectives"]
    longest = [max(entry["total_ns"], default=0) for entry in collectives]
    names = [entry["pattern"].lower().replace("_", "-") for entry in collectives]
    columns = {
        "collective": names,
        "size_bytes": [entry["size_bytes"] for entry in collectives],
        "count": [entry["nodes"] for entry in collectives],
        "algorithm": [entry["algorithm"] for entry in collectives],
        "after_ns": longest,
        "share": [time / max(result["end_ns"], 1) for time in longest],
    }
    says = "Nodes of one pattern, size and algorithm together; time: the most that a rank spends in them, overlapped or not."
    labels = [
        f"{name} {format_size(entry['size_bytes'])}, {entry['algorithm']}" for name, entry in zip(names, collectives, strict=True)
    ]
    return {"kind": "replay", "says": says, "labels": labels, "exact": [True] * len(collectives), "columns": columns}


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
    path = directory / PLAN_FILE
    content = read_json_object(path)
    if content.get("num_ranks", recording.num_npus) != recording.num_npus:
        mismatch = f"num_ranks is {describe(content['num_ranks'])}, {REPLAY_FILE} beside it has {recording.num_npus}"
        raise ConfigError(f"{path}: {mismatch}: they belong to different runs")
    if "cases" not in content:
        return _scheduled_page(directory, title, decoded(content, OnlyScheduledFile, path, "plan --output"), recording)
    result = decoded(content, PlanFile, path, "plan --output")
    if result.get("best_native") is not None and None in (
        result.get("best_native_ns"),
        result.get("speed_up_over_best_native"),
    ):
        raise ConfigError(f"{path}: best_native has no time, expected best_native_ns beside it: plan it again")
    subtitle = f"{counted(result['num_collectives'], 'collective')} of {result['num_ranks']:,} ranks, on {_network(recording)}"
    rows, cases, schedule = _plan_rows(result, recording), _plan_cases(result), schedule_section(result)
    return _page(directory, title or "Planned training run", subtitle, rows, cases, recording, schedule)


def _scheduled_page(directory: Path, title: str | None, result: OnlyScheduledFile, recording: Recording) -> bytes:
    """The report of a run whose communication was scheduled, and whose collectives keep their algorithms."""
    subtitle = f"{result['schedule']['policies']}, {recording.nodes.title}, on {_network(recording)}"
    rows, schedule = _schedule_rows(result["schedule"], recording), schedule_section(result)
    end_ns = int(recording.after.finish_ns.max())
    cases = _replay_cases({"collectives": recorded_collectives(recording), "end_ns": end_ns})
    return _page(directory, title or "Scheduled training run", subtitle, rows, cases, recording, schedule)


def replay_page(directory: Path, title: str | None = None) -> bytes:
    """The report of a directory that `replay --output` wrote, as bytes of HTML; `title` replaces the default heading.

    Raises
    ------
    ConfigError
        If the directory is no such output.
    """
    recording = load_recording(directory / REPLAY_FILE)
    path = directory / RESULT_FILE
    result = read_own(path, ReplayFile, "replay --output")
    for name in ("finish_ns", "exposed_comm_ns", "compute_ns", "sent_bytes"):
        if len(result[name]) != recording.nodes.num_ranks:
            mismatch = f"{name} has {len(result[name])} entries, {REPLAY_FILE} beside it has {recording.nodes.num_ranks} ranks"
            raise ConfigError(f"{path}: {mismatch}: they belong to different runs")
    subtitle = f"{'/'.join(Path(result['workload']).parts[-3:])}: {recording.nodes.title}, on {_network(recording)}"
    rows, cases = _replay_rows(result), _replay_cases(result)
    return _page(directory, title or "Replayed training run", subtitle, rows, cases, recording)


def _network(recording: Recording) -> str:
    return f"{recording.network} ({recording.shape})" if recording.shape else recording.network


def _page(
    directory: Path,
    title: str,
    subtitle: str,
    rows: list[Row],
    cases: dict[str, Any],
    recording: Recording,
    schedule: Section | None = None,
) -> bytes:
    """The page of a recording."""
    whens, recorded = [when or "run" for when, _ in recording.replays], [replay for _, replay in recording.replays]
    segments = [find_segments(recording.nodes, replay) for replay in recorded]
    timeline, rule = _timeline(recording, list(zip(recorded, segments, strict=True)))
    links = link_data(recording, recorded)
    rank_bars = _rank_bars(segments, recording.nodes)
    data = {
        "whens": whens,
        "ends": [replay.run_end_ns for replay in recorded],
        "num_ranks": recording.nodes.num_ranks * recording.nodes.num_alike,
        "states": STATES,
        "patterns": [pattern.name.lower().replace("_", "-") for pattern in CommType],
        "over_time": _over_time(recorded, segments, recording.nodes.num_alike),
        "ranks": rank_bars,
        "timeline": timeline,
        "cases": cases,
        "links": links,
    }
    sections = _run_sections(rows, rule, recording, rank_bars["block"], cases, links)
    try:
        sections.insert(2, path_section(recording))
    except ValueError as error:
        raise ConfigError(f"{directory / REPLAY_FILE}: not what astra-tacos writes ({error})") from None
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
        num_segments = sum(len(replay["state"]) for replay in data["replays"])
        if num_segments <= _SURE_SEGMENTS or len(rows.ranks) == 1 or len(encode(data)) <= MOST_DATA_BYTES - _ROOM_FOR_THE_REST:
            return data, rows.rule + merged
        most = num_segments // 2


def _over_time(replays: list[RecordedReplay], segments: list[Segments], num_alike: int) -> dict[str, Any]:
    """Edges of time in ns, and for each replay the mean number of ranks in each state between them."""
    edges = np.linspace(0, max(max(replay.run_end_ns for replay in replays), 1), _MOST_MOMENTS + 1)
    return {
        "edges": edges,
        "shares": [(state_over_time(segments_of_rank, edges) * num_alike).astype(np.float32) for segments_of_rank in segments],
    }


def _rank_bars(segments: list[Segments], nodes: Nodes) -> dict[str, Any]:
    """Time of each rank in each state in ns; of many ranks, the means of blocks of consecutive ranks."""
    totals = [segments_of_rank.totals() for segments_of_rank in segments]
    num_ranks = nodes.num_ranks
    block = -(-num_ranks // _MOST_RANK_BARS)
    firsts = np.arange(0, num_ranks, block)
    counts = np.diff(np.append(firsts, num_ranks))
    number = nodes.numbers
    ends = ((number[first], number[min(first + block, num_ranks) - 1]) for first in range(0, num_ranks, block))
    labels = [span(*both) for both in ends]
    means = [np.add.reduceat(total, firsts, axis=0) / counts[:, None] for total in totals]
    return {"labels": labels, "block": block, "spent": [np.ascontiguousarray(mean.T) for mean in means]}
