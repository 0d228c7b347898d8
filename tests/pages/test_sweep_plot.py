"""Figures of sweeps, from tables made up for them: what is drawn against naive loops over the rows."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from random import Random

import numpy as np
import pytest
import yaml
from helpers.examples import some_of
from helpers.figures import check_nothing_is_cut, check_same_bytes, drawn
from helpers.sweep_tables import naive_front
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos import ConfigError
from astra_tacos.pages.figure.sweep_axis import scale_of
from astra_tacos.pages.figure.sweep_plot import draw_sweep
from astra_tacos.pages.style import WIDTHS, look_of, save_figure
from astra_tacos.pages.sweep_choice import KINDS, choose, describe_reduction, filtered, measure, representative
from astra_tacos.pages.sweep_columns import SweepColumns

SIZES = tuple(1 << power for power in (16, 20, 24, 28))
SYNTHESIZERS = ("tacos", "ring", "my-own")


def table(collectives=("all-reduce",), sizes=SIZES, seeds=(1, 2, 3), costs=(100.0, 200.0), name="made_up"):
    """A full grid; `ring` refuses the smallest size."""
    random = Random(1)
    rows = []
    for collective in collectives:
        for size in sizes:
            for synthesizer in SYNTHESIZERS:
                for seed in seeds:
                    for cost in costs:
                        refused = synthesizer == "ring" and size == SIZES[0]
                        time = None if refused else int((size / 50 + 2000) * random.uniform(1, 2) / cost * 100)
                        rows.append(
                            {
                                "point": len(rows),
                                "status": "refused" if refused else "ok",
                                "kind": "collective",
                                "topology": "Ring 4 x Switch 4",
                                "link_bandwidth_gibps": [50.0, 25.0],
                                "cost": cost,
                                "collective": collective,
                                "size_bytes": size,
                                "synthesizer": synthesizer,
                                "seed": seed,
                                "time_ns": time,
                                "efficiency": time and 2000 / time,
                                "bus_bandwidth_gbps": time and size / time,
                                "made_by": None if refused else synthesizer,
                                "speed_up": None,
                            }
                        )
    axes = ("collective", "size_bytes", "synthesizer", "seed", "cost")
    return SweepColumns(name, axes, {column: [row[column] for row in rows] for column in rows[0]})


def rows_of(made):
    return [dict(zip(made.columns, values, strict=True)) for values in zip(*made.columns.values(), strict=True)]


def note_of(figure):
    if figure.legends:
        return " ".join(figure.legends[0].get_title().get_text().split())
    return " ".join(figure._supxlabel.get_text().split())


def test_lines_are_the_best_of_what_shares_a_place():
    made = table()
    figure = drawn(draw_sweep, made, choose(made))
    best = defaultdict(lambda: -math.inf)
    for row in rows_of(made):
        if row["bus_bandwidth_gbps"] is not None:
            key = row["synthesizer"], row["size_bytes"]
            best[key] = max(best[key], row["bus_bandwidth_gbps"])
    (axes,) = figure.axes
    found = {}
    for line in axes.get_lines():
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
            found[line.get_label(), x] = y
        if line.get_label() in made.columns["synthesizer"]:
            assert (line.get_color(), line.get_marker()) == look_of(line.get_label())
    assert found == pytest.approx(dict(best))
    assert "best over seed, cost (up to 6 points each)" in note_of(figure)
    assert "6 of 72 points have no bus bandwidth (6 refused)" in note_of(figure)
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("size", "bus bandwidth (GB/s)", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["64 KiB", "1 MiB", "16 MiB", "256 MiB"]
    assert "all-reduce" in figure.get_suptitle()


def test_tasks_have_panels_of_their_own():
    made = table(collectives=("all-reduce", "all-gather"))
    figure = drawn(draw_sweep, made, choose(made))
    assert [axes.get_title() for axes in figure.axes] == ["all-reduce", "all-gather"]
    by_size = drawn(draw_sweep, made, choose(made, "lines", x="seed", by="size_bytes"))
    assert [axes.get_title() for axes in by_size.axes] == ["all-reduce", "all-gather"]
    with pytest.raises(ConfigError, match=r"8 tasks \(by collective, size_bytes\) would be as many panels, expected at most 6"):
        draw_sweep(made, choose(made, "lines", x="seed"))
    one = table(sizes=SIZES[:2])
    figure = drawn(draw_sweep, one, choose(one, "lines", x="seed"))
    assert [axes.get_title() for axes in figure.axes] == ["64 KiB", "1 MiB"]


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_that_an_axis_tells_have_panels_too(kind):
    """Each synthesizer has a collective of its own, as a `list` in a sweep file can have it."""
    made = table(sizes=SIZES[1:2] if kind == "pareto" else SIZES)
    told = dict(zip(SYNTHESIZERS, (("all-reduce", None), ("broadcast", 2), ("broadcast", 3)), strict=True))
    does = [told[name] for name in made.columns["synthesizer"]]
    columns = made.columns | {"collective": [name for name, _ in does], "root": [root for _, root in does]}
    tied = SweepColumns("tied", ("size_bytes", "synthesizer", "cost"), columns)
    panels = drawn(draw_sweep, tied, choose(tied, kind, by=None if kind == "heatmap" else "synthesizer")).axes
    names = {"all-reduce": "tacos", "broadcast, root 2": "ring", "broadcast, root 3": "my-own"}
    assert {axes.get_title() for axes in panels if axes.get_title()} == set(names)
    if kind == "lines":
        assert {axes.get_title(): axes.get_lines()[0].get_label() for axes in panels} == names


def test_cells_of_a_heat_map_are_the_best_of_their_points():
    made = table()
    choice = choose(made, "heatmap", x="size_bytes", y="synthesizer", value="efficiency")
    figure = drawn(draw_sweep, made, choice)
    panel, bar = figure.axes
    image = np.ma.filled(panel.images[0].get_array().astype(float), np.nan)
    assert image.shape == (3, 4)
    for down, synthesizer in enumerate(SYNTHESIZERS):
        for right, size in enumerate(SIZES):
            values = [
                r["efficiency"]
                for r in rows_of(made)
                if (r["size_bytes"], r["synthesizer"]) == (size, synthesizer) and r["efficiency"] is not None
            ]
            assert image[down, right] == pytest.approx(max(values)) if values else np.isnan(image[down, right])
    assert np.isnan(image).sum() == 1
    assert len(panel.texts) == 11
    assert bar.get_ylabel() == "efficiency, higher is better"
    assert [label.get_text() for label in panel.get_yticklabels()] == list(SYNTHESIZERS)
    assert "no value" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert "best over seed, cost (up to 6 points each)" in note_of(figure)


@pytest.mark.parametrize(("value", "best"), [("efficiency", np.nanmax), ("time_ns", np.nanmin)])
def test_bright_is_better_in_a_heat_map(value, best):
    made = table(sizes=SIZES[1:3])
    figure = drawn(draw_sweep, made, choose(made, "heatmap", x="seed", y="synthesizer", value=value))
    for panel in figure.axes[:-1]:
        image = panel.images[0]
        brightness = image.to_rgba(image.get_array())[..., :3].sum(axis=-1)
        cells = np.ma.filled(image.get_array().astype(float), np.nan)
        assert brightness.flat[np.flatnonzero(cells == best(cells))[0]] == brightness[~np.isnan(cells)].max()


def test_the_front_is_what_nothing_beats():
    made = table(sizes=SIZES[:2], costs=tuple(float(cost) for cost in range(100, 160, 10)))
    figure = drawn(draw_sweep, made, choose(made, "pareto"))
    assert len(figure.axes) == 2
    for axes, size in zip(figure.axes, SIZES, strict=False):
        scale = {"collective time (ns)": 1, "collective time (µs)": 1e3}[axes.get_ylabel()]
        points = [(r["cost"], r["time_ns"]) for r in rows_of(made) if r["size_bytes"] == size and r["time_ns"]]
        (line,) = axes.get_lines()
        found = [(x, round(y * scale)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]
        assert found == sorted({points[place] for place in naive_front(points)})
        assert sum(len(part.get_offsets()) for part in axes.collections) == len(points)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["tacos", "ring", "my-own", "Pareto front"]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-5, 5)), min_size=1, unique_by=lambda pair: pair[0]))
def test_one_stands_for_many(pairs):
    values = sorted(value for _, value in pairs)
    assert representative(pairs, -1)[1] == values[0]
    assert representative(pairs, 1)[1] == values[-1]
    assert representative(pairs, 0)[1] == values[(len(values) - 1) // 2]
    assert all(representative(pairs, goal) in pairs for goal in (-1, 0, 1))


def test_what_was_reduced_is_said():
    made = table()
    first = [0, 2, 4]  # seeds 1, 2, 3 of one cost
    assert describe_reduction(made, [first, [1]], -1) == "best over seed (up to 3 points each)"
    assert describe_reduction(made, [[0], [1]], -1) == ""
    assert describe_reduction(made, [[0, 1]], 0) == "median over cost (up to 2 points each)"


@pytest.mark.parametrize(
    ("sizes", "costs", "x"), [(4, 3, "size_bytes"), (2, 5, "cost"), (4, 4, "size_bytes"), (8, 20, "size_bytes")]
)
def test_the_longest_axis_is_across(sizes, costs, x):
    """Random draws are no axis, and sizes that would be too many panels are one."""
    made = table(
        sizes=[1 << (16 + power) for power in range(sizes)], costs=[100.0 + cost for cost in range(costs)], seeds=range(9)
    )
    assert choose(made, "lines").x == x
    heat = choose(made, "heatmap")
    assert (heat.x, heat.y) == (x, "cost" if x == "size_bytes" else "size_bytes")


def test_what_is_constant_is_said():
    made = table(seeds=(5,), costs=(100.0,))
    assert "constant: seed 5, cost 100" in note_of(drawn(draw_sweep, made, choose(made)))
    assert "constant" not in note_of(drawn(draw_sweep, table(), choose(table())))
    one = filtered(table(), "synthesizer == 'tacos'")
    assert "constant: synthesizer tacos" in note_of(drawn(draw_sweep, one, choose(one, "lines", by="cost")))


def test_what_suits_a_sweep_is_drawn_by_default():
    made = table()
    assert (choose(made).kind, choose(made).x, choose(made).by) == ("lines", "size_bytes", "synthesizer")
    costs = table(sizes=SIZES[:1])
    assert (choose(costs).kind, choose(costs).x, choose(costs).y) == ("pareto", "cost", "time_ns")
    seeds = table(sizes=SIZES[:1], costs=(1.0,))
    assert (choose(seeds).kind, choose(seeds).x, choose(seeds).y) == ("heatmap", "seed", "synthesizer")
    assert choose(made, "heatmap").value == "bus_bandwidth_gbps"


WRONG = """
x: size_byte | --x: found 'size_byte', expected a column of the sweep, such as size_bytes
by: speed_up | --by: column speed_up is empty in all 72 points
y: link_bandwidth_gibps | --y: column link_bandwidth_gibps has lists of numbers, expected a column of numbers or text
y: status | --y: column status has 'ok', expected a column of numbers
kind: pareto, x: synthesizer | --x: column synthesizer has 'tacos', expected a column of numbers
by: point | --by: column point has 72 values, expected at most 12
kind: lines, value: cost | --value: is for --kind heatmap, expected --y for --kind lines
kind: heatmap, by: seed | --by: is for --kind lines and pareto
"""


@pytest.mark.parametrize("case", WRONG.strip().splitlines())
def test_what_cannot_be_drawn(case, tmp_path):
    asked, expected = case.split(" | ")
    made = table()
    with pytest.raises(ConfigError) as error:
        save_figure(tmp_path / "x.svg", lambda: draw_sweep(made, choose(made, **yaml.safe_load(f"{{{asked}}}"))))
    assert expected in str(error.value)
    assert not list(tmp_path.iterdir())


def test_sweeps_in_which_nothing_varies_or_nothing_came_out():
    made = table(sizes=SIZES[:1], seeds=(1,), costs=(1.0,))
    with pytest.raises(ConfigError, match="found synthesizer as axes that vary, expected two"):
        choose(made, "heatmap")
    with pytest.raises(ConfigError, match="none of cost, total_bandwidth_gbps, num_npus varies"):
        choose(made, "pareto")
    one = SweepColumns("one", (), {name: values[:1] for name, values in made.columns.items()})
    with pytest.raises(ConfigError, match="no axis of the sweep varies"):
        choose(one)
    empty = SweepColumns("empty", made.axes, made.columns | {"time_ns": [None] * made.num_rows})
    with pytest.raises(ConfigError, match="column time_ns is empty in all 3 points"):
        draw_sweep(empty, choose(empty, "lines", x="synthesizer"))


@pytest.mark.parametrize(("kind", "width"), some_of([*itertools.product(KINDS, WIDTHS)], 3))
def test_nothing_is_cut_off(kind, width):
    for made in (table(sizes=SIZES[:2]), table(("all-reduce", "all-gather"), SIZES[:2]), table(sizes=SIZES[:1], name="x" * 90)):
        check_nothing_is_cut(drawn(draw_sweep, made, choose(made, kind), width, "where cost > 1 and seed < 9"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_give_the_same_bytes(tmp_path, kind):
    made = table(sizes=SIZES[:2])
    check_same_bytes(tmp_path, draw_sweep, made, choose(made, kind), "single")


def test_large_sums_are_short():
    made = table(sizes=SIZES[1:2], costs=(50_000.0, 100_000.0, 2_500_000.0))
    scale = scale_of(measure(made, "cost"), made.columns["cost"])
    assert [scale.text(cost) for cost in (9_000.0, 50_000.0, 100_000.0, 2_500_000.0)] == ["9,000", "50k", "100k", "2.5M"]
