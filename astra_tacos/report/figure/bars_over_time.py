"""Bars in rows over time, or the shares of time that many of them take: the common part of all timelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from astra_tacos.report.links_over_time import Bars

MOST_VECTOR_BARS = 3_000
"""Number of bars up to which they are drawn as vectors; more are stored as pixels, even in SVG and PDF."""
MOST_BARS = 100_000
"""Number of bars up to which bars are drawn; for more, shares of time are drawn instead."""
_BINS = {"double": 1500, "single": 700}
_BAR_HEIGHT = 0.86
_MOST_RIMS = 600


@dataclass(frozen=True, slots=True)
class TimePanel:
    """A panel with rows from top to bottom and time from left to right.

    Parameters
    ----------
    axes
        The panel.
    colours
        The colour of each kind of bars.
    end_ns
        End of the time axis.
    scale
        Length of the time unit in ns.
    width
        Width of the figure, a key of `WIDTHS`.
    """

    axes: Any
    colours: tuple[str, ...]
    end_ns: int
    scale: float
    width: str

    def add(self, bars: Bars, rows: int, most_rows: int, strength: float = 1.0) -> int:
        """Draw bars, or an image of their shares of time if there are many, or more than `most_rows` rows.

        Returns the largest number of rows that share a line of the image, 0 for bars. `strength` is that of the colours, from 0
        (white) to 1.
        """
        if len(bars.row) <= MOST_BARS and rows <= most_rows:
            self.add_bars(bars, strength)
            return 0
        from matplotlib.colors import to_rgb

        lines, bins = min(rows, most_rows), _BINS[self.width]
        image = np.ones((lines, bins, 3))
        shares = np.clip(bars.shares(len(self.colours), rows, (lines, bins), self.end_ns), 0, 1)
        for share, colour in zip(shares, self.colours, strict=True):
            image -= strength * share[:, :, None] * (1 - np.array(to_rgb(colour)))
        extent = (0.0, self.end_ns / self.scale, float(rows), 0.0)
        self.axes.imshow(np.clip(image, 0, 1), extent=extent, aspect="auto", interpolation="nearest", zorder=1)
        return -(-rows // lines)

    def add_bars(self, bars: Bars, strength: float = 1.0, least: tuple[float, float] | None = None) -> None:
        """Draw bars; `least` is the least width (in time units) and height (in rows) of bars that are highlighted."""
        from matplotlib.collections import PolyCollection

        has_rims = least is None and len(bars.row) <= _MOST_RIMS  # separate a bar from the next one where bars are large
        style: dict[str, Any] = {"linewidths": 0.25 if has_rims else 0.0, "edgecolors": "white" if has_rims else "none"}
        style |= {"rasterized": len(bars.row) > MOST_VECTOR_BARS, "zorder": 2 if least is None else 5}
        least_width, least_height = least or (0.0, 0.0)
        half = max(_BAR_HEIGHT, least_height) / 2
        for kind, colour in enumerate(self.colours):
            own = np.flatnonzero(bars.kind == kind)
            begin, end = bars.start_ns[own] / self.scale, bars.end_ns[own] / self.scale
            wider = np.maximum(least_width - (end - begin), 0) / 2
            left, right, top, bottom = begin - wider, end + wider, bars.row[own] + 0.5 - half, bars.row[own] + 0.5 + half
            corners = np.stack((left, top, left, bottom, right, bottom, right, top), axis=1).reshape(-1, 4, 2)
            self.axes.add_collection(PolyCollection(list(corners), facecolors=[mixed(colour, strength)], **style))


def mixed(colour: str, share: float) -> tuple[float, float, float]:
    """A colour mixed with white, as red, green and blue from 0 to 1; `share` is the share of the colour."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - share * (1 - part) for part in to_rgb(colour))
    return red, green, blue
