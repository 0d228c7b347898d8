"""What tests look at in figures."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from astra_tacos.pages.style import _RC, save_figure

CUT = 1.5
"""Pixels by which a text may leave the figure: its box has a rim."""


def drawn(draw, *arguments, **options):
    """A figure made in the house's style, and laid out."""
    with matplotlib.rc_context(_RC):
        figure = draw(*arguments, **options)
        FigureCanvasAgg(figure).draw()
    return figure


def check_nothing_is_cut(figure: Figure) -> None:
    """Every text that is shown is inside of the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = figure.bbox.width, figure.bbox.height
    hidden = _out_of_view(figure)
    for text in figure.findobj(Text):
        if not text.get_visible() or not text.get_text().strip() or text in hidden:
            continue
        box = text.get_window_extent(canvas.get_renderer())
        inside = box.x0 >= -CUT and box.y0 >= -CUT and box.x1 <= width + CUT and box.y1 <= height + CUT
        assert inside, (text.get_text(), box)


def _out_of_view(figure: Figure) -> set[Text]:
    """Labels of ticks beyond the limits of their axis, which are made but not drawn."""
    hidden = set()
    for axes in figure.findobj(Axes):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            rim = 1e-6 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - rim <= tick.get_loc() <= high + rim:
                    hidden |= {tick.label1, tick.label2}
    return hidden


def check_same_bytes(tmp_path: Path, draw, *arguments, **options) -> None:
    """Whether the same figure has the same bytes twice, in all formats, and nothing else is written."""
    starts = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}
    for suffix, start in starts.items():
        for name in ("one", "two"):
            save_figure(tmp_path / f"{name}{suffix}", lambda: draw(*arguments, **options))
        data = (tmp_path / f"one{suffix}").read_bytes()
        assert data.startswith(start)
        assert data == (tmp_path / f"two{suffix}").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2 * len(starts)
