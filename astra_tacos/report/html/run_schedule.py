"""The section of a report on how communication was scheduled: policies, and exposed communication by collective."""

from __future__ import annotations

from typing import Any

from astra_tacos.report.figure.figure_style import RANK_STATES
from astra_tacos.report.html.page import Section, escape
from astra_tacos.report.html.run_facts import counted
from astra_tacos.report.policy_times import policy_times

_MOST_POLICIES = 16
_MOST_LAYERS = 24
_WIDTH = 400
_COLOURS = (RANK_STATES[0], RANK_STATES[2], RANK_STATES[4])


def schedule_section(result: dict[str, Any]) -> Section | None:
    """The section, from the object in `plan.json`; None if nothing was scheduled."""
    if "schedule" not in result:
        return None
    found = result["schedule"]
    rows = policy_times(result, "plan.json", _MOST_POLICIES)
    longest = max(row.end_ns for row in rows) or 1
    bars = "".join(
        f'<tr><td class="wrap">{"<b>" if row.is_chosen else ""}{_breakable(row.name)}{"</b>" if row.is_chosen else ""}</td>'
        f"<td>{_bar((row.compute_ns, row.exposed_ns, row.idle_ns), longest)}</td>"
        f"<td>{row.end_ns:,.0f}</td><td>{row.exposed_ns:,.0f}</td><td>{rows[0].end_ns / max(row.end_ns, 1):.3f}</td></tr>"
        for row in rows
    )
    header = (
        "<tr><th>policies</th><th>compute, exposed communication, idle</th><th>end, ns</th><th>exposed, ns</th><th>gain</th></tr>"
    )
    body = f'<div class="scroll"><table>{header}{bars}</table></div>'
    layers = sorted(found["layers"], key=lambda one: -max(one["exposed_as_is_ns"], one["exposed_after_ns"]))[:_MOST_LAYERS]
    most = max((max(one["exposed_as_is_ns"], one["exposed_after_ns"]) for one in layers), default=0)
    if most:
        lines = "".join(
            f'<tr><td class="wrap">{_breakable(one["collective"])}</td>'
            f"<td>{_bar((0, one['exposed_as_is_ns'], 0), most)}<br>{_bar((0, one['exposed_after_ns'], 0), most)}</td>"
            f"<td>{one['exposed_as_is_ns']:,}</td><td>{one['exposed_after_ns']:,}</td></tr>"
            for one in layers
        )
        header = "<tr><th>collective</th><th>exposed before and after</th><th>before, ns</th><th>after, ns</th></tr>"
        body += f'<h3>Exposed communication by collective</h3><div class="scroll"><table>{header}{lines}</table></div>'
    says = (
        f"Replayed with {found['collectives']} collectives: {counted(len(found['tried']), 'combination')}. Shown are each policy "
        "alone with its best options, and in bold what was written. Times are means over ranks."
    )
    return Section("schedule", "Schedule of communication", body, says)


def _breakable(name: str) -> str:
    """A name whose lines may end after commas."""
    return escape(name).replace(",", ",<wbr>")


def _bar(values: tuple[float, ...], longest: float) -> str:
    """A stacked bar as SVG."""
    at, parts = 0.0, []
    for value, colour in zip(values, _COLOURS, strict=True):
        size = _WIDTH * value / longest
        parts.append(f'<rect x="{at:.1f}" y="0" width="{size:.1f}" height="11" fill="{colour}"/>')
        at += size
    return f'<svg width="{_WIDTH}" height="11" viewBox="0 0 {_WIDTH} 11" aria-hidden="true">{"".join(parts)}</svg>'
