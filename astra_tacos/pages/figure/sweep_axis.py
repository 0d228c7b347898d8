"""Axes of the figures of a sweep: scales with units for numbers, categories for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from astra_tacos.pages.style import WIDTH_INCHES, shape_text, time_unit
from astra_tacos.pages.sweep_choice import is_number
from astra_tacos.pages.sweep_columns import Measure
from astra_tacos.pages.sweep_looks import LOG_FROM, ordered
from astra_tacos.support.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOG_WITHIN = 4.0
"""Ratio of the largest to the smallest value within one panel from which on its axis is logarithmic."""
_LOG_TICKS = ((6, (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)), (50, (1.0, 2.0, 5.0)))
"""Ticks within a decade for axes whose limits have at most this ratio."""
_MOST_TICKS = {"double": 8, "single": 6}
_TICKS_PER_INCH = 1.75
"""Largest number of ticks per inch for sizes, so that labels such as `256 KiB` do not touch."""
_MOST_CHARACTERS = {"double": 60, "single": 30}
_LONGEST_LABEL = 40


@dataclass(frozen=True, slots=True)
class Scale:
    """How the values of a column are drawn.

    Parameters
    ----------
    is_size, is_share, is_money
        Whether the values are bytes, shares from 0 to 1, or dollars.
    """

    label: str
    divisor: float
    is_log: bool
    is_size: bool
    is_share: bool
    is_money: bool

    def text(self, value: float) -> str:
        """The text of a value at a tick."""
        if self.is_size:
            return format_size(round(value))
        if self.is_share:
            return f"{value:.4g}" if abs(value) > 10 else f"{value * 100:.4g}%"
        scaled = value / self.divisor
        if self.is_money and abs(scaled) >= 10_000:
            return f"{scaled / 1e3:.4g}k" if abs(scaled) < 1e6 else f"{scaled / 1e6:.4g}M"
        return f"{scaled:,.0f}" if abs(scaled) >= 1000 else f"{scaled:.3g}"

    def cell(self, value: float) -> str:
        """The text of a value in a cell of a heat map, with the same number of digits in all cells."""
        scaled = value / self.divisor
        if self.is_share and abs(value) <= 10:
            return f"{value * 100:.3g}%"
        if self.is_size or abs(scaled) >= 1000 or scaled == round(scaled):
            return self.text(value)
        return f"{scaled:#.3g}".rstrip(".")


def scale_of(measure: Measure, values: Sequence[float]) -> Scale:
    """The scale of a column of numbers; `values` must not be empty."""
    low, high = min(values), max(values)
    divisor, unit = 1.0, measure.unit
    if unit == "ns":
        unit, divisor = time_unit(low if low > 0 else high / 10)
    is_size, is_share = unit == "bytes", unit == "share"
    label = measure.label if not unit or is_size or is_share else f"{measure.label} ({unit})"
    return Scale(label, divisor, low > 0 and high >= LOG_FROM * low, is_size, is_share, unit == "$")


def category(value: Any) -> str:
    """The label of a value of a column that has other values than numbers."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = shape_text(f"{value:g}" if isinstance(value, float) else str(value))
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"


def series_of(values: Sequence[Any], rows: Sequence[int]) -> list[Any]:
    """Distinct values of some rows, in the order that `ordered` gives to the values of all rows."""
    there = {values[row] for row in rows}
    return [value for value in ordered(values) if value in there]


def texts(values: Sequence[Any], measure: Measure) -> list[str]:
    """Labels of distinct values, in the unit of the column's scale."""
    present = [value for value in values if value is not None]
    if not is_number(present):
        return [category(value) for value in values]
    scale = scale_of(measure, present)
    return ["none" if value is None else scale.text(value) for value in values]


def label_style(labels: Sequence[str], width: str, room: float) -> dict[str, Any]:
    """Text properties of the labels under an axis: they are rotated if they would touch each other.

    Parameters
    ----------
    width
        Width of the figure, a key of `WIDTHS`.
    room
        Width of the axis as a share of the figure's width.
    """
    if sum(map(len, labels)) <= _MOST_CHARACTERS[width] * room:
        return {}
    return {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}


def dress(axes: Axes, which: str, scale: Scale, values: Sequence[float], width: str) -> None:
    """Set scale, ticks and grid of the x or y axis.

    Parameters
    ----------
    which
        `x` or `y`.
    width
        Width of the figure, a key of `WIDTHS`.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    formatter = FuncFormatter(lambda value, _: scale.text(value * scale.divisor))
    distinct = sorted(set(values))
    is_log = scale.is_log and (scale.is_size or max(values) >= _LOG_WITHIN * min(values))
    if is_log:
        axes.set(**{f"{which}scale": "log"})
    if scale.is_size:
        beside = axes.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
        most = max(3, min(_MOST_TICKS[width], int(_TICKS_PER_INCH * WIDTH_INCHES[width] / beside)))
        step = -(-len(distinct) // most)
        axis.set_major_locator(FixedLocator(distinct[::step]))
        axis.set_minor_locator(NullLocator())
    elif is_log:
        low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
        subs = next((ticks for ratio, ticks in _LOG_TICKS if high < ratio * low), (1.0,))
        axis.set_major_locator(LogLocator(subs=subs, numticks=10))
        axis.set_minor_formatter(NullFormatter())
    elif len(distinct) <= _MOST_TICKS[width] - 2 and which == "x":
        axis.set_major_locator(FixedLocator([value / scale.divisor for value in distinct]))
    else:
        axis.set_major_locator(MaxNLocator(_MOST_TICKS[width] - 1, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(formatter)
    axes.grid(visible=True, which="major", axis="x" if which == "x" else "y")
    axes.set_axisbelow(True)
