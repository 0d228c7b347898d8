"""What policies of a scheduled run take: rows from the object in `plan.json`, and their bars as a figure for a paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from astra_tacos.pages.rank_states import COMPUTES, EXPOSED, IDLE, STATES
from astra_tacos.pages.style import new_figure, time_unit, wrapped
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.own_files import Number, read_own

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = tuple(STATES[state] for state in (COMPUTES, EXPOSED, IDLE))
"""Names and colours of the parts of a run's time."""
AS_IS = "as it is"
FIFO = "fifo"


class EndFile(TypedDict):
    """Times of a run with some policies, means over ranks."""

    end_ns: Number
    compute_ns: Number
    exposed_ns: Number


class TriedFile(TypedDict):
    """What was tried: policies, and their times if the run ended."""

    policies: str
    uses: NotRequired[list[str]]
    end_ns: Number | None
    iteration_ns: Number | None
    compute_ns: Number | None
    exposed_ns: Number | None


class LayerFile(TypedDict):
    """The exposed communication of a layer; files of earlier releases do not tell the kind of collective."""

    collective: str
    kind: NotRequired[str]
    exposed_as_is_ns: Number
    exposed_after_ns: Number


class ScheduleFile(TypedDict):
    """How communication was scheduled: `schedule` in `plan.json`."""

    policies: str
    collectives: str
    backend: str
    as_is: EndFile
    tried: list[TriedFile]
    layers: list[LayerFile]


class ScheduledFile(TypedDict):
    """A `plan.json` of which the policies are drawn."""

    schedule: NotRequired[ScheduleFile]


@dataclass(frozen=True, slots=True)
class PolicyTime:
    """The run with some policies; times in ns, means over ranks, whose sum is the end of the run.

    Parameters
    ----------
    compute_ns, exposed_ns, idle_ns
        Time in which a rank computes, communicates without computing, and does neither.
    """

    name: str
    compute_ns: float
    exposed_ns: float
    idle_ns: float
    is_chosen: bool

    @property
    def parts_ns(self) -> tuple[float, float, float]:
        """The times, in the order of `PARTS`."""
        return self.compute_ns, self.exposed_ns, self.idle_ns

    @property
    def end_ns(self) -> float:
        """End of the run."""
        return sum(self.parts_ns)


def read_policies(path: Path, most: int) -> tuple[list[PolicyTime], str]:
    """The rows of an output of `plan --schedule`, or of its plan.json, and how they were judged, as text.

    Raises
    ------
    ConfigError
        As `policy_times`, or if the file is something else.
    """
    file = path / "plan.json" if path.is_dir() else path
    plan = read_own(file, ScheduledFile, "plan --schedule")
    rows = policy_times(plan, str(file), most)
    return rows, f"judged with {plan['schedule']['collectives']} collectives, {plan['schedule']['backend']}"


def policy_times(plan: Mapping[str, Any], source: str, most: int) -> list[PolicyTime]:
    """The run as it is, then each policy alone with its best options and what was written, the slowest first.

    Parameters
    ----------
    plan
        The object in `plan.json`.
    most
        How many rows there are at most.

    Raises
    ------
    ConfigError
        If nothing was scheduled, or by a version that did not say which policies it had tried.
    """
    scheduled = plan.get("schedule")
    if scheduled is None:
        raise ConfigError(f"{source}: no schedule of communication, expected an output of plan --schedule")
    tried = [policy for policy in scheduled["tried"] if policy["end_ns"] is not None]
    tried.sort(key=lambda policy: policy["iteration_ns"] or policy["end_ns"])
    if any(policy["compute_ns"] is None or policy["exposed_ns"] is None for policy in tried):
        raise ConfigError(f"{source}: an entry of a finished run has no compute or exposed time: plan the run again")
    if any("uses" not in policy for policy in tried):
        raise ConfigError(f"{source}: an entry does not name its policies, expected a plan by a newer plan --schedule")
    alone: dict[str, dict[str, Any]] = {}
    for policy in tried:
        if policy["policies"] == scheduled["policies"]:
            alone[""] = policy
        elif len(policy["uses"]) < 2:
            alone.setdefault("".join(policy["uses"]) or FIFO, policy)
    kept = list(alone.values())[: most - 1] if len(alone) > 1 else tried[: most - 1]
    kept.sort(key=lambda policy: -policy["end_ns"])
    rows = [_row(AS_IS, scheduled["as_is"], scheduled["policies"] == "as-is")]
    return rows + [_row(policy["policies"], policy, policy["policies"] == scheduled["policies"]) for policy in kept]


def _row(name: str, figures: Mapping[str, Any], is_chosen: bool) -> PolicyTime:
    compute, exposed = float(figures["compute_ns"]), float(figures["exposed_ns"])
    return PolicyTime(name, compute, exposed, max(float(figures["end_ns"]) - compute - exposed, 0.0), is_chosen)


_NAME_SHARE = 0.42
_BAR_INCHES, _LINE_INCHES, _GAP_INCHES = 0.15, 0.13, 0.09


def draw_policies(rows: Sequence[PolicyTime], width: str, note: str) -> Figure:
    """Draw a bar for each row.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    """
    names = [wrapped(row.name.replace(",", ", "), width, _NAME_SHARE) for row in rows]
    place, height = _places([name.count("\n") + 1 for name in names])
    figure = new_figure(width, 0.9 + height)
    axes = figure.subplots()
    unit, scale = time_unit(max(row.end_ns for row in rows))
    left = [0.0] * len(rows)
    for part, values in zip(PARTS, zip(*(row.parts_ns for row in rows), strict=True), strict=True):
        axes.barh(
            place,
            [value / scale for value in values],
            left=left,
            height=_BAR_INCHES,
            color=part.colour,
            label=part.label,
            linewidth=0,
        )
        left = [begin + value / scale for begin, value in zip(left, values, strict=True)]
    first = rows[0].end_ns
    # Four digits of the longest, so that all have as many decimals.
    decimals = max(3 - math.floor(math.log10(max(row.end_ns for row in rows) / scale or 1.0)), 0)
    for at, row in enumerate(rows):
        text = f" {row.end_ns / scale:,.{decimals}f}" + ("" if at == 0 else f" ({first / max(row.end_ns, 1):.2f}x)")
        axes.text(left[at], place[at], text, va="center", fontsize=6.5, fontweight="bold" if row.is_chosen else "normal")
    axes.set_yticks(place, names)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row.is_chosen else "normal")
    axes.set_ylim(height, 0)
    axes.set_xlim(0, 1.16 * max(left))
    axes.set_xlabel(f"end of the run ({unit}), mean over ranks; bold: the one that was written")
    axes.tick_params(axis="y", length=0)
    if note:
        figure.suptitle(wrapped(note, width), fontsize=8)
    figure.legend(loc="outside lower center", ncols=len(PARTS), handlelength=1.2)
    return figure


def _places(lines: Sequence[int]) -> tuple[list[float], float]:
    """Middles of the rows that names of so many lines need, and the height of all of them, in inches."""
    place, height = [], 0.0
    for count in lines:
        line_height = count * _LINE_INCHES + _GAP_INCHES
        place.append(height + line_height / 2)
        height += line_height
    return place, height
