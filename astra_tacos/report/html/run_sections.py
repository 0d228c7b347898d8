"""The sections of a run's report and their explanations."""

from __future__ import annotations

from typing import Any

from astra_tacos.report.html.page import Section, escape
from astra_tacos.run.recording import Recording

_POINT = (
    "Point at a bar, or move with the arrow keys, to read which node it is; "
    "pick it to highlight the same node on all ranks of its group."
)


def run_sections(
    facts: str, rule: str, recording: Recording, block: int, cases: dict[str, Any], links: dict[str, Any] | None
) -> list[Section]:
    """The sections of the page, from top to bottom.

    Parameters
    ----------
    facts
        Markup of the summary.
    rule
        Sentences that say which ranks the timeline shows.
    recording
        The recorded run.
    block
        Number of ranks for which one bar stands.
    cases
        Data of the collectives.
    links
        Data of the links; None if the network has none.
    """
    both = recording.before is not None
    num_ranks = recording.nodes.num_ranks
    twice = " Before and after share one time axis." if both else ""
    sections = [
        Section("summary", "Summary", facts),
        Section(
            "ranks",
            "What ranks do, when",
            f'<div id="over-time"></div><h3>Rank by rank</h3><p class="introduction">{escape(rule)} {_POINT}</p>'
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
        return "How each rank spends its time until it has finished."
    return (
        f"How ranks spend their time until they have finished; each bar is the mean of {block:,} ranks that follow one another."
    )


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


def _busiest_say(links: dict[str, Any]) -> str:
    shown = len(links["busiest"]["link"])
    if shown == links["num_links"]:
        return f"All {shown:,} links."
    return f"The {shown:,} busiest of {links['num_links']:,} links."
