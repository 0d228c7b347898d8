"""The figure and the table of a comparison, from rows made up for them."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise

import numpy as np
import pytest
from helpers.figures import check_nothing_is_cut, check_same_bytes, drawn
from matplotlib.text import Text

from astra_tacos import SYNTHESIZERS
from astra_tacos.cli.shared.console import print_result
from astra_tacos.pages.compare_rows import COLUMNS, CompareRow, best_bound_ns, write_csv
from astra_tacos.pages.comparison_table import Compared
from astra_tacos.pages.figure.compare_plot import draw_comparison
from astra_tacos.pages.html.compare import compare_page
from astra_tacos.pages.style import WIDTHS, look_of

SIZES = tuple(1 << power for power in range(16, 31, 2))


def row(size, name, slowness, best=False, cut_off=False):
    what = ("net", "Ring 8 x Switch 4", 32, "all-reduce", None, size, name)
    if slowness is None:
        return CompareRow(*what, refusal="needs a power of two")
    bound = size // 100 + 1000
    time = int(bound * slowness)
    return CompareRow(
        *what,
        time_ns=time,
        bound_ns=bound,
        efficiency=bound / time,
        bus_bandwidth_gbps=size / time,
        is_best=best,
        cut_off_by_budget=cut_off,
    )


def rows():
    made = []
    for size in SIZES:
        made += [row(size, "ring", 1.0 + 2e6 / size), row(size, "tacos", 1.25, best=True, cut_off=size > 1 << 28)]
        made += [row(size, "bruck", None), row(size, "direct", None if size < 1 << 20 else 3.0), row(size, "my-own", 2.0)]
    return made


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_are_written_and_the_same_every_time(tmp_path, width):
    check_same_bytes(tmp_path, draw_comparison, rows(), width)
    assert all(1_000 < path.stat().st_size < 400_000 for path in tmp_path.iterdir())


def test_the_figure_says_what_the_rows_say():
    figure = draw_comparison(rows(), "double")
    time, bandwidth = figure.axes
    lines = {line.get_label(): line for line in time.get_lines()}
    assert list(lines) == ["ring", "tacos", "my-own", "direct", "lower bound"]
    assert list(lines["tacos"].get_xdata()) == list(SIZES)
    unit = re.fullmatch(r"time \((.*)\)", time.get_ylabel())
    scale = {"ns": 1, "µs": 1e3, "ms": 1e6}[unit[1]]
    expected = [r.time_ns / scale for r in rows() if r.synthesizer == "tacos" and r.time_ns]
    assert list(lines["tacos"].get_ydata()) == pytest.approx(expected)
    assert [math.isnan(value) for value in lines["direct"].get_ydata()] == [size < 1 << 20 for size in SIZES]
    bounds = best_bound_ns(rows())
    assert list(lines["lower bound"].get_ydata()) == pytest.approx([bounds[size] / scale for size in SIZES])
    highest = bandwidth.get_lines()[-1].get_ydata()
    assert list(highest) == pytest.approx([size / bounds[size] for size in SIZES])
    assert len({(line.get_color(), line.get_marker()) for line in time.get_lines()}) == len(lines)
    assert (time.get_xscale(), time.get_yscale(), bandwidth.get_yscale()) == ("log", "log", "log")


@pytest.mark.parametrize("count, named", [(3, 3), (4, 4), (7, 4), (13, 4)])
def test_sizes_are_named_as_long_as_they_are_few(count, named):
    figure = draw_comparison([row(1 << (10 + power), "ring", 1.5) for power in range(count)], "single")
    ticks = figure.axes[-1].xaxis.get_major_locator()()
    assert len(ticks) == named and ticks[0] == 1 << 10


def test_every_synthesizer_has_a_look_of_its_own():
    names = ["auto", *SYNTHESIZERS]
    assert len({look_of(name) for name in (*names, "native")}) == len(names) + 1


SLOWNESS = {"ring": 2.0, "tacos": 1.1, "bruck": 3.0, "direct": 1.5, "a": 1.2, "b": 1.3, "c": 1.4, "native": 9.0, "d": None}


def test_six_lines_are_drawn_and_a_remark_names_the_others():
    figure = draw_comparison([row(1 << 20, name, times) for name, times in SLOWNESS.items()], "single")
    for axes in figure.axes:
        assert [line.get_label() for line in axes.get_lines()] == ["tacos", "direct", "a", "b", "c", "native", "lower bound"]
    assert figure._supxlabel.get_text().split("\n") == ["slower, not drawn: ring, bruck", "no schedule: d"]


def test_the_best_are_those_over_all_sizes():
    """The fastest of one size is not drawn if others win over all sizes."""
    made = [row(size, name, times) for size in SIZES for name, times in SLOWNESS.items()]
    made += [row(size, "flash", 1.0 if size == SIZES[0] else 30.0) for size in SIZES]
    made += [row(size, "gaps", 1.0 if size == SIZES[0] else None) for size in SIZES]
    figure = draw_comparison(made, "single")
    assert not {"flash", "gaps"} & {line.get_label() for line in figure.axes[0].get_lines()}
    assert "flash, gaps" in figure._supxlabel.get_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_each_line_has_its_name_beside_its_end(width):
    made = [row(size, name, times) for size in SIZES for name, times in SLOWNESS.items() if name != "c" or size < 1 << 24]
    made += [row(size, "a-name-as-long-as-a-user-likes", 1.1) for size in SIZES]
    figure = drawn(draw_comparison, made, width)
    check_nothing_is_cut(figure)
    assert not figure.legends
    for axes in figure.axes:
        ends = {line.get_label()[:20]: np.column_stack(line.get_data()) for line in axes.get_lines()}
        labels = {text.get_text()[:20]: text for text in axes.texts}
        assert list(labels) == list(ends)
        for name, points in ends.items():
            assert labels[name].xy == tuple(points[np.isfinite(points[:, 1])][-1])
        boxes = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
        inside = axes.get_window_extent()
        assert all(box.x0 > inside.x1 for box in boxes)
        assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))


def test_a_comparison_without_times_is_a_figure():
    figure = drawn(draw_comparison, [row(size, "bruck", None) for size in SIZES], "single")
    assert figure._supxlabel.get_text() == "no schedule: bruck"


def test_the_table_marks_the_best_and_explains_gaps(capsys):
    print_result(Compared(rows(), "congestion-aware"), verbose=True)
    text = capsys.readouterr().out
    assert "all-reduce on net: Ring 8 x Switch 4, 32 NPUs" in text
    assert text.count("*") == len(SIZES) + 1
    assert text.count("no algorithm takes less than") == len(SIZES)
    assert "- bruck: needs a power of two" in text
    assert "- direct at 64 KiB, 256 KiB: needs a power of two" in text
    assert "budget was used up" in text


def test_the_page_has_what_the_console_has():
    page = unescape(compare_page(rows()).decode())
    for table in Compared(rows(), "").tables():
        assert table.title in page and all(line in page for line in table.remarks)
        assert all(f">{cell}</td>" in page for cells in table.texts() for cell in cells)


def test_programs_are_columns_also_where_they_do_not_fit(capsys):
    print_result(Compared(rows(), "congestion-aware", ("bruck",)), verbose=False)
    text = capsys.readouterr().out
    assert "bruck" in text.splitlines()[2] and "- bruck: needs a power of two" in text
    print_result(Compared([row(1 << 20, "ring", 2.0, best=True)], "x"), verbose=False)
    print_result(Compared([replace(row(1 << 20, "ring", 2.0, best=True), bound_ns=None)], "congestion-unaware"), verbose=False)
    assert "no bandwidth bound holds" in capsys.readouterr().out


def test_csv_has_a_line_per_row_and_blanks_for_what_is_not():
    file = io.StringIO()
    write_csv(rows(), file)
    lines = file.getvalue().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) == 1 + len(rows())
    assert lines[3].startswith("net,Ring 8 x Switch 4,32,all-reduce,,65536,bruck,,,")
    assert lines[3].endswith(",needs a power of two")
