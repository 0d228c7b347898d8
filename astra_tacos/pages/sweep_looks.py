"""How the values of a sweep look in every picture: colours and markers of series, colours of cells, and when a scale is wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_tacos.pages.style import MADE_BY, SERIES_STYLES, SHADES, between, look_of
from astra_tacos.pages.sweep_choice import is_number

LOG_FROM = 10.0
"""Ratio of the largest to the smallest value of a column from which on its scale is logarithmic."""
CELLS = ("#fff7bc", "#fee391", "#fec44f", "#fb9a29", "#ec7014", "#cc4c02")
"""Colours of a heat map's cells, ColorBrewer's YlOrBr: black numbers stand out from each, and each from white paper."""
_FEWEST_SHADES = 4


def ordered(values: Sequence[Any]) -> list[Any]:
    """Distinct values: numbers in ascending order, others in the order of their first occurrence, None last."""
    distinct = list(dict.fromkeys(values))
    rest = [value for value in distinct if value is not None]
    rest = sorted(rest) if is_number(rest) else rest
    return rest + [None] * (None in distinct)


def series_looks(name: str | None, values: Sequence[Any]) -> dict[Any, tuple[str, str]]:
    """Colour and matplotlib's marker of each value of a column; one of None without a column.

    Synthesizers have looks of their own; a column of many numbers gets colours from light to dark.
    """
    distinct = ordered(values) if name else [None]
    if name in MADE_BY:
        return {value: look_of(str(value)) for value in distinct}
    count = len(distinct)
    if (is_number(distinct) and count >= _FEWEST_SHADES) or count > len(SERIES_STYLES):
        markers = [SERIES_STYLES[place % len(SERIES_STYLES)][1] for place in range(count)]
        return {value: (between(SHADES, at / max(count - 1, 1)), markers[at]) for at, value in enumerate(distinct)}
    return dict(zip(distinct, SERIES_STYLES, strict=False))
