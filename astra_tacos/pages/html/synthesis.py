"""The report of a synthesized collective: its certificate, network, timeline, arrivals, and a comparison of algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_tacos.pages.certificate_file import CertificateFile
from astra_tacos.pages.compare_rows import CompareRow
from astra_tacos.pages.html.page import Section, escape, render_page
from astra_tacos.pages.html.synthesis_data import MOST_DRAWN_DEVICES, MOST_DRAWN_LINKS, MOST_INTERVALS, collect, compared
from astra_tacos.pages.style import capitalized, shape_text, time_text
from astra_tacos.pages.table import Certificate, sends_text
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.rows import Table
from astra_tacos.support.rows_html import rows_html, table_html
from astra_tacos.support.units import format_size, share_text

_SCRIPTS = ("topology.js", "synthesis_parts.js", "synthesis.js")


def synthesis_page(
    schedule: Schedule,
    result: CertificateFile,
    comparison: Sequence[CompareRow] | None,
    comparison_note: str = "",
    title: str | None = None,
) -> bytes:
    """The page of a schedule, as bytes of HTML.

    Parameters
    ----------
    result
        Its figures, the object in `result.json`.
    comparison
        Rows of other algorithms for the same collective; None for no comparison.
    comparison_note
        Text that says how the comparison was made, or why there is none.
    title
        Heading; by default the collective, its size and the network.

    Raises
    ------
    ConfigError
        If the page is too large.
    """
    data = collect(schedule, result)
    arrivals = Section(
        "arrivals",
        "Arrival of chunks",
        '<div id="arrival-curves"></div>',
        "Share of its needed chunks that an NPU has in their final form (a sum counts once it is complete). "
        f"Of {data['arrivals']['needy']:,} NPUs: the one that is done first, the median, the last, and all together.",
    )
    sections = [_certificate(result, comparison or ()), _network(data), _timeline(schedule, data), arrivals, _links(data)]
    if comparison is not None:
        data["comparison"] = compared(comparison, result)
    sections.insert(-1, _comparison(comparison, comparison_note))
    name = capitalized(result["collective"])
    shape = shape_text(result["topology"])
    subtitle = f"{shape}, {result['num_npus']:,} NPUs, {result['num_links']:,} links: {sends_text(result)}"
    title = title or f"{name} of {format_size(result['size_bytes'])} on {result['network']}"
    return render_page(title, f"{subtitle} by {result['synthesizer']}", sections, data, _SCRIPTS)


def _faster(result: CertificateFile, comparison: Sequence[CompareRow]) -> str:
    """Markup that names a faster algorithm of the comparison; empty if no algorithm is faster."""
    able = [(row.time_ns, row) for row in comparison if row.time_ns is not None and row.time_ns < result["time_ns"]]
    if not able:
        return ""
    time, best = min(able, key=lambda pair: pair[0])
    others = f" and {len(able) - 1} more" if len(able) > 1 else ""
    said = f"{best.synthesizer}{others} {'are' if others else 'is'} faster than this schedule; "
    chunks = f"{best.chunks_per_npu} chunk{'s' if best.chunks_per_npu != 1 else ''} per NPU"
    said += f"{best.synthesizer} takes {time_text(time)} with {chunks}"
    return f'<p id="faster"><strong>{escape(said)}</strong> (<a href="#algorithms">all of them</a>).</p>'


def _certificate(result: CertificateFile, comparison: Sequence[CompareRow]) -> Section:
    html = _faster(result, comparison) + rows_html(Certificate(result).rows())
    if not result["bounds_ns"]:
        return Section("certificate", "Certificate", html)
    html += '<h3>All lower bounds</h3><div class="bounds" role="list">'
    for name, each_ns in sorted(result["bounds_ns"].items(), key=lambda item: -item[1]):
        share = each_ns / max(result["time_ns"], 1e-3)
        binds = " binds" if name == result["bound"] else ""
        html += (
            f'<div class="bound{binds}" role="listitem"><span>{escape(name)}</span><span class="bar">'
            f'<i style="width:{100 * min(share, 1):.2f}%"></i></span>'
            f"<span>{escape(time_text(each_ns))} ({share_text(each_ns, result['time_ns'])})</span></div>"
        )
    html += (
        '</div><p class="note">No algorithm is faster than any of these bounds, whatever it cuts the data into; '
        "the largest counts. Bars are shares of the time.</p>"
    )
    return Section("certificate", "Certificate", html)


def _network(data: dict[str, Any]) -> Section:
    if "picture" in data:
        introduction = (
            "A line is a link in each direction, each drawn in the half that begins at its sender; the darker and wider, the "
            "larger the share of the collective's time in which it is in use."
        )
        if data["binding"]:
            introduction += " Links with a purple edge are those of the lower bound."
        if "sends" in data:
            introduction += (
                " Pick an NPU to read what it held when, or a chunk, in the list or in the timeline, to see the tree of its "
                "sends: blue ones reduce, red ones copy, and the root of the tree is yellow."
            )
        html = '<div class="split network"><div id="topology"></div><div id="npu"></div></div>'
    else:
        introduction = (
            f"This network is too large to draw device by device (more than {MOST_DRAWN_DEVICES:,} devices or "
            f"{MOST_DRAWN_LINKS:,} links). Aggregated: the mean share of time in use of the links between groups of NPUs with "
            "consecutive numbers."
        )
        html = '<div id="matrix"></div><div id="npu"></div>'
    return Section("network", "Network", html, introduction)


def _timeline(schedule: Schedule, data: dict[str, Any]) -> Section:
    if "sends" in data:
        introduction = (
            "The time-expanded network: a row per link, a bar per message that holds it. Point at a bar to highlight all sends "
            "of its chunk (of the first, if it carries several), here and in the drawing of the network; a click or Enter keeps "
            "the highlight, Escape removes it."
        )
    else:
        introduction = (
            f"Aggregated: {schedule.num_sends:,} sends are more than a page holds one by one ({MOST_INTERVALS:,} uses of links). "
            "A cell is the mean share of time in which the links of a row are in use; trees of chunks and lists of what NPUs "
            "held are left out."
        )
    return Section("timeline", "Links over time", '<div id="chunk"></div><div id="links-over-time"></div>', introduction)


def _links(data: dict[str, Any]) -> Section:
    html = '<div id="dimensions"></div><div id="links"></div>'
    if "links" not in data:
        html += '<p class="note">There are too many links to list them one by one.</p>'
    return Section("link-use", "Links by dimension", html, "Shares of the collective's time in which links are in use.")


def _reason(row: CompareRow) -> str:
    """The reason of a refusal without the name of its task, which the page gives elsewhere."""
    return row.refusal.split(f"{row.synthesizer}: ", 1)[-1]


def _comparison(rows: Sequence[CompareRow] | None, note: str) -> Section:
    html = '<div id="comparison"></div>' if rows is not None else ""
    refused = [(row.synthesizer, _reason(row)) for row in rows or () if row.time_ns is None]
    if refused:
        table = Table("Algorithms that refuse", ("algorithm", "reason"), refused, left=("reason",))
        html += f"<h3>{escape(table.title)}</h3>{table_html(table)}"
    return Section("algorithms", "Against the predefined algorithms", html, note)
