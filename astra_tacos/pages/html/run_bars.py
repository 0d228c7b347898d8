"""Sections of a run's page that are tables with bars: how communication was scheduled, and the critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from astra_tacos.pages.html.page import Section, counted, escape
from astra_tacos.pages.policy_times import PARTS, policy_times
from astra_tacos.pages.rank_states import COMPUTES, EXPOSED, IDLE, STATES, WAITS
from astra_tacos.run.critical_path import PathSummary, critical_path, describe_kind, summarize_path
from astra_tacos.run.recording import COLLECTIVE, COMPUTE, RECEIVE, SEND, RecordedReplay, Recording
from astra_tacos.support.rows import Table, Value, share_of
from astra_tacos.support.rows_html import table_html
from astra_tacos.support.units import format_time

_MOST_POLICIES = 12
_MOST_KINDS = 6
"""Kinds of collectives with two bars each, before and after."""
_WIDTH = 400


def schedule_section(result: Mapping[str, Any]) -> Section | None:
    """The section, from the object in `plan.json`; None if nothing was scheduled."""
    if "schedule" not in result:
        return None
    chosen = result["schedule"]
    rows = policy_times(result, "plan.json", _MOST_POLICIES)
    longest = max(row.end_ns for row in rows) or 1
    bars = "".join(
        f'<tr><td class="wrap">{"<b>" if row.is_chosen else ""}{_breakable(row.name)}{"</b>" if row.is_chosen else ""}</td>'
        f"<td>{_bar(row.parts_ns, longest)}</td>"
        f"<td>{row.end_ns:,.0f}</td><td>{row.exposed_ns:,.0f}</td><td>{rows[0].end_ns / max(row.end_ns, 1):.3f}</td></tr>"
        for row in rows
    )
    header = (
        "<tr><th>policies</th><th>compute, exposed communication, idle</th><th>end, ns</th><th>exposed, ns</th><th>gain</th></tr>"
    )
    body = _scrolled(header + bars)
    kinds = _exposed_by_kind(chosen["layers"])
    most = max((max(before, after) for _, before, after in kinds), default=0)
    if most:
        lines = "".join(
            f'<tr><td class="wrap">{escape(kind)}</td>'
            f"<td>{_bar((0, before, 0), most)}<br>{_bar((0, after, 0), most)}</td><td>{before:,}</td><td>{after:,}</td></tr>"
            for kind, before, after in kinds
        )
        header = "<tr><th>collectives</th><th>exposed before and after</th><th>before, ns</th><th>after, ns</th></tr>"
        body += f"<h3>Exposed communication by kind of collective</h3>{_scrolled(header + lines)}"
    says = (
        f"Replayed with {chosen['collectives']} collectives: {counted(len(chosen['tried']), 'combination')}. Shown are each "
        "policy alone with its best options, and in bold what was written. Times are means over ranks. Those of a kind are sums "
        "over its collectives, whose number is in parentheses."
    )
    return Section("schedule", "Schedule of communication", body, says)


def _exposed_by_kind(layers: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, int]]:
    """Kinds with their numbers of collectives, and what these expose before and after, in ns: the most first, the rest as one."""
    of_kind: dict[str, list[Mapping[str, Any]]] = {}
    for layer in layers:
        of_kind.setdefault(layer.get("kind", "collectives"), []).append(layer)
    times = ("exposed_as_is_ns", "exposed_after_ns")

    def sums(kinds: Sequence[str]) -> tuple[int, int]:
        before, after = (sum(layer[time] for kind in kinds for layer in of_kind[kind]) for time in times)
        return before, after

    ranked = sorted(of_kind, key=lambda kind: -max(sums([kind])))
    groups = [[kind] for kind in ranked]
    if len(groups) > _MOST_KINDS:
        groups[_MOST_KINDS - 1 :] = [ranked[_MOST_KINDS - 1 :]]
    named = ((group[0] if len(group) == 1 else "other kinds", group) for group in groups)
    return [(f"{name} ({sum(len(of_kind[kind]) for kind in group):,})", *sums(group)) for name, group in named]


def _breakable(name: str) -> str:
    """A name whose lines may end after commas."""
    return escape(name).replace(",", ",<wbr>")


def _bar(values: tuple[float, ...], longest: float) -> str:
    """A stacked bar as SVG."""
    at, parts = 0.0, []
    for value, part in zip(values, PARTS, strict=True):
        size = _WIDTH * value / longest
        parts.append(f'<rect x="{at:.1f}" y="0" width="{size:.1f}" height="11" fill="{part.colour}"/>')
        at += size
    return f'<svg width="{_WIDTH}" height="11" viewBox="0 0 {_WIDTH} 11" aria-hidden="true">{"".join(parts)}</svg>'


_PATH_WIDTH = 720
_HEIGHT = 22
_MOST_BARS = 1500
_STATE_OF = {COMPUTE: COMPUTES, COLLECTIVE: EXPOSED, SEND: WAITS, RECEIVE: WAITS}
_PATH_COLOURS = {kind: STATES[state].colour for kind, state in _STATE_OF.items()}
_SAYS = (
    "The chain of nodes that determined the end of the run: each began when the one before it ended. A collective is on it from "
    "the time at which the member began that it waited for, so what others wait is not on it. Of several that ended at one "
    "instant, it has the last. Where packets of many messages take turns on a link, it follows messages, not what they queued "
    "behind."
)


def path_section(recording: Recording) -> Section:
    """The section: a strip of time and shares for each replay, and the longest stretches of the last one.

    Raises
    ------
    ValueError
        If the causes in the recording are no chain (`critical_path`).
    """
    replays = recording.replays
    longest = max(replay.run_end_ns for _, replay in replays)
    summaries = [summarize_path(recording, replay) for _, replay in replays]
    strips = "".join(
        f"<tr>{f'<td>{when}</td>' if when else ''}<td>{_strip(recording, replay, longest)}</td>"
        f"<td>{format_time(replay.run_end_ns)}, {summary.stretches:,} stretches on {len(summary.ranks):,} "
        f"rank{'' if len(summary.ranks) == 1 else 's'}</td></tr>"
        for (when, replay), summary in zip(replays, summaries, strict=True)
    )
    body = f"{_scrolled(strips)}{_legend()}{_shares([when for when, _ in replays], summaries)}{_longest(summaries[-1])}"
    return Section("critical-path", "Critical path", body, _SAYS)


def _strip(recording: Recording, replay: RecordedReplay, longest_ns: int) -> str:
    """The path as one bar in SVG. Stretches that are too short to be seen are drawn as the kind that takes most of their time."""
    nodes, path = recording.nodes, critical_path(replay)
    rank = nodes.owner
    step = longest_ns / _MOST_BARS
    bars: list[str] = []
    at, spent, end = 0.0, dict.fromkeys((*_PATH_COLOURS, -1), 0.0), 0.0

    def draw(until: float, text: str) -> None:
        kind = max(spent, key=lambda activity: spent[activity])
        colour = _colour(kind)
        x, width = _PATH_WIDTH * at / longest_ns, _PATH_WIDTH * (until - at) / longest_ns
        title = f"<title>{escape(text)}</title>"
        bars.append(f'<rect x="{x:.2f}" y="0" width="{width:.2f}" height="{_HEIGHT}" fill="{colour}">{title}</rect>')

    for number in range(len(path.node)):
        node, end = int(path.node[number]), float(path.end_ns[number])
        kind = int(nodes.kind[node])
        spent[kind if kind in _PATH_COLOURS else -1] += end - float(path.start_ns[number])
        if end - at >= step or number == len(path.node) - 1:
            alone = at == path.start_ns[number]
            name = recording.texts[nodes.name[node]] if nodes.name[node] >= 0 else f"node {nodes.node_id[node]}"
            activity = f"rank {rank[node]}, {name} ({describe_kind(nodes, node)})" if alone else "several short stretches"
            draw(end, f"{activity}: {format_time(int(at))} to {format_time(int(end))}")
            at, spent = end, dict.fromkeys(spent, 0.0)
    size = f'width="{_PATH_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_PATH_WIDTH} {_HEIGHT}" shape-rendering="crispEdges"'
    label = escape(f"The critical path, {len(path.node):,} stretches of time in {format_time(replay.run_end_ns)}")
    return f'<svg {size} role="img" aria-label="{label}">{"".join(bars)}</svg>'


def _colour(kind: int) -> str:
    return _PATH_COLOURS.get(kind, STATES[IDLE].colour)


def _scrolled(rows: str) -> str:
    """A table that scrolls sideways where the screen is narrow."""
    return f'<div class="scroll"><table>{rows}</table></div>'


def _legend() -> str:
    named = (("compute", COMPUTE), ("collectives", COLLECTIVE), ("messages", RECEIVE), ("others", -1))
    marks = (
        f'<svg width="11" height="11"><rect width="11" height="11" fill="{_colour(kind)}"/></svg> {name}' for name, kind in named
    )
    return f'<p class="introduction">{" &ensp; ".join(marks)}</p>'


def _shares(whens: list[str], summaries: list[PathSummary]) -> str:
    of = [{(share.kind, share.what): share for share in summary.shares} for summary in summaries]
    spent = {
        key: max(of_path[key].spent_ns for of_path in of if key in of_path) for key in {key for of_path in of for key in of_path}
    }
    everything = sorted(spent, key=lambda key: (-spent[key], key))
    rows: list[tuple[Value, ...]] = []
    for kind, description in everything:
        shares = [of_path.get((kind, description)) for of_path in of]
        cells = [(None,) * 3 if share is None else (share.count, share.spent_ns, share_of(share.share)) for share in shares]
        rows.append((description, *chain.from_iterable(cells)))
    columns = tuple(f"{name}{_of(when)}" for when in whens for name in ("stretches", "ns", "share"))
    return _titled(Table("Nodes on the path", ("nodes", *columns), rows))


def _longest(summary: PathSummary) -> str:
    rows = [
        (
            stretch["name"],
            stretch["what"],
            stretch["rank"],
            str(stretch["node"]),
            stretch["start_ns"],
            stretch["ns"],
            share_of(stretch["ns"] / max(summary.end_ns, 1)),
        )
        for stretch in summary.longest
    ]
    return _titled(Table("Longest stretches of this run", ("node", "what", "rank", "id", "from, ns", "ns", "share"), rows))


def _titled(table: Table) -> str:
    return f"<h3>{table.title}</h3>{table_html(table)}"


def _of(when: str) -> str:
    return f" {when}" if when else ""
