"""What `plan --schedule` prints of the scheduling: the choice, what was tried, and exposed communication by collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astra_tacos.cli.console import print_rows, print_table

if TYPE_CHECKING:
    from astra_tacos.planner.retime.schedule_run import ScheduleResult

_MOST_TRIED = 12
_MOST_LAYERS = 8
_WITH = {"native": "with the run's own collectives", "synthesized": "with synthesized collectives"}


def _iteration(result: ScheduleResult) -> list[tuple[str, str]]:
    """The row of an iteration, if it was to be short."""
    before, after = result.iteration_as_is_ns, result.iteration_ns
    if before is None or after is None:
        return []
    return [("iteration", f"{before:,} ns (as it is) -> {after:,} ns, {before / max(after, 1):.3f} times as fast")]


def print_schedule(result: ScheduleResult) -> None:
    """Print what scheduling did to a run."""
    print_rows(
        [
            ("schedule", result.name),
            ("judged by", f"the embedded replay, {result.backend}, {_WITH[result.collectives]}"),
            *_iteration(result),
            ("end of the run", f"{result.as_is_ns:,} ns (as it is) -> {result.after_ns:,} ns"),
            ("exposed communication", f"up to {result.exposed_as_is_ns:,} ns -> {result.exposed_after_ns:,} ns"),
            ("speed-up", f"{result.speed_up:.3f}"),
            *(("note", note) for note in result.notes),
        ]
    )
    if len(result.tried) > 1:
        ended = sorted((one for one in result.tried if one.end_ns is not None), key=lambda one: one.end_ns or 0)
        shown = ended[:_MOST_TRIED]
        title = f"policies ({len(shown)} of {len(result.tried)} that were tried; plan.json has all)"
        rows = [(one.name, f"{one.end_ns:,}", f"{result.as_is_ns / (one.end_ns or 1):.3f}") for one in shown]
        print_table(title, ("policies", "end ns", "speed-up"), rows)
    exposed = sorted((one for one in result.layers if max(one[1:]) > 0), key=lambda one: -max(one[1:]))[:_MOST_LAYERS]
    if exposed:
        rows = [(name, f"{was:,}", f"{now:,}") for name, was, now in exposed]
        title = "exposed communication by collective (mean of its ranks; the largest)"
        print_table(title, ("collective", "before ns", "after ns"), rows)
