"""The page of a sweep in a real browser: what it shows is what slow Python finds in the rows."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from helpers.browser import PHONE, opened, saved_rows
from helpers.figures import drawn as drawn_figure
from helpers.sweep_tables import as_columns, made_up_sweep, naive_front, odd_sweep, real_sweep, workload_sweep
from matplotlib.colors import to_rgb

from astra_tacos import ConfigError
from astra_tacos.pages.figure.sweep_plot import draw_sweep
from astra_tacos.pages.html.sweep import MOST_POINTS, Best, best_points, render_sweep
from astra_tacos.pages.html.sweep_data import as_texts, varying_columns
from astra_tacos.pages.style import look_of
from astra_tacos.pages.sweep_choice import choose as choose_columns
from astra_tacos.pages.sweep_columns import SweepColumns

SIZE = 1 << 28
"""The largest of the real sweep, which pictures start with."""


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return written(tmp_path_factory.mktemp("sweep"), real_sweep())


def written(directory, table):
    path = directory / "sweep.html"
    path.write_bytes(render_sweep(table, "sweep.parquet"))
    return path


def rows_of(table):
    return [{name: values[row] for name, values in table.columns.items()} for row in range(table.num_rows)]


def drawn(page, count):
    """Wait until the pictures show that many points."""
    page.wait_for_selector(f"html[data-drawn='{count}']")


def read_csv(page, element):
    """What the CSV button of an element saves."""
    header, *rows = saved_rows(page, element)
    return [dict(zip(header, row, strict=True)) for row in rows]


def choose(page, picture, label, value, count=240):
    page.locator(f"#{picture}-controls label", has=page.get_by_text(label, exact=True)).locator("select").last.select_option(
        value
    )
    drawn(page, count)


def test_same_rows_same_bytes(real):
    assert real.read_bytes() == render_sweep(real_sweep(), "sweep.parquet")


def test_headline_counts_and_best_points(running, real):
    rows = rows_of(real_sweep())
    with opened(running, real) as page:
        assert "Sweep of 240 points: 210 ok, 30 refused by the synthesizer" in page.locator("header").inner_text()
        best = page.locator("#best table").text_content()
        for size in {row["size_bytes"] for row in rows}:
            fastest = min(
                (row for row in rows if row["size_bytes"] == size and row["status"] == "ok"), key=lambda row: row["time_ns"]
            )
            assert f"show {fastest['point']}" in best
        assert "tacos, ring, themis, halving-doubling" in page.locator("#settings").inner_text()


def test_best_points_are_paged_but_whole_on_paper(running, tmp_path):
    with opened(running, written(tmp_path, made_up_sweep(2000))) as page:
        rows = page.locator("#best tbody tr")
        count, visible = rows.count(), rows.locator("visible=true")
        assert count > 10 and visible.count() == 10
        assert page.locator("#best .count").inner_text() == f"1\N{EN DASH}10 of {count}"
        page.locator("#best button", has_text="Next").click()
        assert rows.nth(0).is_hidden() and rows.nth(10).is_visible()
        page.emulate_media(media="print")
        assert visible.count() == count


def test_best_points_say_how_many_tie():
    times = (30_000, 20_000, 40_000, 20_000, 20_000)
    rows = [{"point": i, "status": "ok", "a": i, "time_ns": time} for i, time in enumerate(times)]
    table = as_columns("ties", ("a",), rows)
    assert best_points(table, ["point", "a", "time_ns"]) == ([], [Best(1, "time_ns", (), 2)])
    content = render_sweep(table, "sweep.parquet").decode()
    assert "collective time (2 others tie)" in content and "20.00 \N{MICRO SIGN}s" in content


def test_filter_of_the_table_drives_the_pictures(running, real):
    with opened(running, real) as page:
        page.get_by_label("Filter by synthesizer").fill("tacos")
        drawn(page, 60)
        assert "10 of 60 (240 without the filter)" in page.locator("#sweep-table .count").inner_text()
        assert "60 filtered points of 240" in page.locator("#sweep-view").inner_text()
        page.get_by_label("Filter by b0").fill(">=340")
        drawn(page, 30)
        assert "of 6 points are on the front (size 256 MiB)" in page.locator("#front-scope").inner_text()
        assert {row["synthesizer"] for row in read_csv(page, "#heat-chart")} == {"tacos"}
        page.get_by_label("Filter by size").fill("64 KiB")
        drawn(page, 6)
        assert "of 6 points" in page.locator("#heat-scope").inner_text()  # the size that is left is the one that is shown
        page.get_by_role("button", name="Clear the filter").click()
        drawn(page, 240)


def test_csv_of_the_table_has_what_the_rows_have(running, real):
    table = real_sweep()
    with opened(running, real) as page:
        header, *lines = saved_rows(page, "#sweep-table")
    varying, _ = varying_columns(table)
    assert len(header) == len(varying) and len(lines) == table.num_rows
    for place, name in enumerate(varying):
        for line, value, text in zip(lines, table.columns[name], as_texts(table.columns[name]), strict=True):
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert float(line[place]) == value
            else:
                assert line[place] == (text or "")


FRONTS = (("cost", "time_ns", (-1, -1)), ("num_sends", "bus_bandwidth_gbps", (1, 1)), ("b0", "efficiency", (-1, 1)))


def test_fronts_are_the_naive_ones(running, real):
    rows = [row for row in rows_of(real_sweep()) if row["size_bytes"] == SIZE]
    with opened(running, real) as page:
        for x, y, goals in FRONTS:
            for label, column, goal in (("up", y, goals[1]), ("across", x, goals[0])):
                choose(page, "front", label, column)
                choose(page, "front", f"{label} is", str(goal))
            listed = {int(row["point"]) for row in read_csv(page, "#front-table")}
            chart = read_csv(page, "#front-chart")
            valid = [row for row in rows if row["status"] == "ok"]
            front = naive_front([(-goals[0] * row[x], -goals[1] * row[y]) for row in valid])
            assert listed == {valid[place]["point"] for place in front}
            assert {int(row["point"]) for row in chart if row["on the front"] == "yes"} == listed
            assert {int(row["point"]) for row in chart} == {row["point"] for row in rows if row["status"] == "ok"}


def test_cells_are_the_naive_groups(running, real):
    groups: dict[tuple[float, str], list[float]] = {}
    failed: dict[tuple[float, str], int] = {}
    for row in rows_of(real_sweep()):
        if row["size_bytes"] == SIZE:
            cell = (row["b0"], row["synthesizer"])
            failed[cell] = failed.get(cell, 0) + (row["status"] != "ok")
            if row["status"] == "ok":
                groups.setdefault(cell, []).append(row["time_ns"])
    with opened(running, real) as page:
        for how, reduce in (("best", min), ("median", statistics.median_low), ("worst", max)):
            choose(page, "heat", "of points in a cell", how)
            title = page.locator("#heat-chart .gtitle").text_content()
            assert title == f"The {how} collective time by b0 and synthesizer, size 256 MiB"
            found = read_csv(page, "#heat-chart")
            assert len(found) == len(failed)
            for row in found:
                cell = (float(row["b0"]), row["synthesizer"])
                assert float(row["collective time (ns)"]) == reduce(groups[cell])
                assert (int(row["points"]), int(row["failed"])) == (len(groups[cell]), failed[cell])


def test_lines_are_the_best_of_each_place_under_the_bound(running, real):
    rows = [row for row in rows_of(real_sweep()) if row["status"] == "ok"]
    with opened(running, real) as page:
        assert list(read_csv(page, "#lines-chart")[0])[:2] == ["synthesizer", "b0"]  # the axis with the most values is across
        choose(page, "lines", "across", "size_bytes")
        choose(page, "lines", "up", "bus_bandwidth_gbps")
        found = read_csv(page, "#lines-chart")
    lines = {(row["synthesizer"], int(row["size (bytes)"])): float(row["bus bandwidth (GB/s)"]) for row in found}
    for name in {row["synthesizer"] for row in rows}:
        for size in {row["size_bytes"] for row in rows}:
            mine = [row["bus_bandwidth_gbps"] for row in rows if (row["synthesizer"], row["size_bytes"]) == (name, size)]
            assert lines[name, size] == max(mine)
            assert lines[name, size] <= lines["bound", size] * (1 + 1e-12)


def test_a_chosen_row_is_marked_everywhere_by_keyboard(running, real):
    with opened(running, real) as page:
        page.get_by_label("Filter by size").focus()
        page.keyboard.type("256 MiB")
        drawn(page, 48)
        page.locator("#sweep-table tbody tr").nth(1).focus()
        page.keyboard.press("Enter")
        drawn(page, 48)
        point = int(page.locator("#sweep-table tbody tr[aria-selected=true] td").first.inner_text())
        assert page.locator(".sweep-chosen h3").inner_text().startswith(f"Point {point}")
        for picture in ("front", "lines"):
            names = page.evaluate(f"document.querySelector('#{picture}-chart .js-plotly-plot').data.map((t) => t.name)")
            assert names.count(f"point {point}") == 1
        assert page.evaluate("document.querySelector('#heat-chart .js-plotly-plot').layout.shapes.length") == 1
        page.get_by_role("button", name="Clear the mark").focus()
        page.keyboard.press("Enter")
        drawn(page, 48)
        assert page.locator(".sweep-chosen").count() == 0
        page.locator("#heat-controls select").first.focus()
        before = page.evaluate("document.activeElement.value")
        page.keyboard.press("ArrowDown")
        drawn(page, 48)
        after = page.evaluate("[document.activeElement.tagName, document.activeElement.value]")
        assert after[0] == "SELECT" and after[1] != before


def test_a_view_is_in_the_address(running, real, tmp_path):
    with opened(running, real) as page:
        page.get_by_label("Filter by synthesizer").fill("ring")
        drawn(page, 60)
        choose(page, "heat", "colour", "efficiency", 60)
        page.locator("#sweep-table tbody tr").nth(2).click()
        drawn(page, 60)
        page.locator("nav a", has_text="Lines").click()
        page.wait_for_url(lambda url: "=" in url)  # until the page has put its state beside the link's place
        address, point = page.url, page.locator(".sweep-chosen h3").inner_text()
    with opened(running, real) as page:
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        drawn(page, 60)
        assert page.get_by_label("Filter by synthesizer").input_value() == "ring"
        assert page.locator(".sweep-chosen h3").inner_text() == point
        assert "efficiency" in page.locator("#heat-chart .gtitle").text_content()


@pytest.mark.parametrize("make", [real_sweep, workload_sweep, odd_sweep, lambda: made_up_sweep(2000)])
def test_fits_a_phone(running, tmp_path, make):
    with opened(running, written(tmp_path, make()), PHONE, touch=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_names_are_text_and_values_that_are_none_are_marked(running, tmp_path):
    table = odd_sweep()
    with opened(running, written(tmp_path, table)) as page:
        assert page.locator("main img, main i:not(.key i), main b").count() == 0
        assert page.locator("h1").inner_text() == table.name
        assert table.columns["synthesizer"][0] in page.locator("#sweep-table").inner_text()
        marks = page.evaluate("document.querySelector('#heat-chart .js-plotly-plot').data.map((t) => [t.name, t.x.length])")
        assert marks[1:] == [["no value", 2]]
        assert (
            "1 of 1 point is on the front. 3 points without both figures are left out."
            in page.locator("#front-scope").inner_text()
        )
        lines = str(saved_rows(page, "#sweep-table"))
        assert "Infinity" in lines and "NaN" not in lines
        assert table.columns["error"][3] in page.locator("#failures").inner_text()


def test_labels_of_training_runs(running, tmp_path):
    with opened(running, written(tmp_path, workload_sweep())) as page:
        text = page.locator("main").inner_text()
        assert "time \N{MULTIPLICATION SIGN} cost ($\N{MIDDLE DOT}s)" in text
        assert page.get_by_label("Download transformer_points as CSV").count() == 1
        assert "End of the run against cost" in page.locator("#front-chart .gtitle").text_content()
        assert "speed-up" in text and "exposed communication" in text and "collective time" not in text


@pytest.mark.parametrize("rows", [1, 2])
def test_a_sweep_of_little_says_what_it_lacks(running, tmp_path, rows):
    table = as_columns("tiny", ("a",), [{"point": i, "status": "error", "error": "no", "a": i} for i in range(rows)])
    with opened(running, written(tmp_path, table)) as page:
        text = page.locator("main").inner_text()
        assert text.count("No point has a result: there is nothing to draw.") == 3
        assert ("Sweep of 1 point: 1 with an error" in page.locator("header").inner_text()) == (rows == 1)
        assert not page.locator(".sweep-controls, #front-list").locator("visible=true").count()


def test_what_has_no_sensible_default_is_left_out(running, tmp_path):
    totals = {"torus": 600.0, "boxes": 599.99998, "switch": 600.0000001}
    columns = {"point": [0, 1, 2], "status": ["ok"] * 3, "network": [*totals], "total_bandwidth_gbps": [*totals.values()]}
    columns |= {"time_ns": [100, 101, 102], "efficiency": [0.5, 0.6, 0.7]}
    with opened(running, written(tmp_path, SweepColumns("networks", ("network",), columns))) as page:
        said = [page.locator(f"#{picture}-scope").inner_text() for picture in ("front", "heat", "lines")]
        assert "none varies in this sweep" in said[0] and "has one, network" in said[1] and "one of names, network" in said[2]
        assert page.locator(".js-plotly-plot").count() == 0
        assert page.locator("dt", has_text="total bandwidth per NPU").locator("+ dd").inner_text() == "600 GB/s"


def test_filters_that_leave_nothing_leave_no_empty_axes(running, real):
    with opened(running, real) as page:
        page.get_by_label("Filter by b0").fill(">500")
        drawn(page, 0)
        for picture in ("front", "heat", "lines"):
            assert page.locator(f"#{picture}-scope").inner_text() == "No point is left by the filters."
            assert page.locator(f"#{picture}-chart").is_hidden()
        page.get_by_label("Filter by b0").fill(">500 us")
        drawn(page, 240)
        assert "The filter of b0 is not understood" in page.locator("#sweep-view").inner_text()
        assert page.locator("#front-chart").is_visible()


@pytest.mark.parametrize("by", ["synthesizer", "b0", "outer"])
def test_series_have_the_same_colours_as_in_a_figure(running, real, by):
    """Names with colours of their own, numbers from light to dark, and other names."""
    table = real_sweep()
    choice = choose_columns(table, "lines", x="size_bytes", y="time_ns", by=by)
    lines = [line for axes in drawn_figure(draw_sweep, table, choice).axes for line in axes.get_lines()]
    in_figure = {line.get_label(): line.get_color() for line in lines}
    with opened(running, real) as page:
        choose(page, "lines", "across", "size_bytes")
        choose(page, "lines", "up", "time_ns")
        choose(page, "lines", "a line for each", by)
        plot = "document.querySelector('#lines-chart .js-plotly-plot').data"
        on_page = dict(page.evaluate(f"{plot}.filter((t) => t.name !== 'bound').map((t) => [t.name, t.line.color])"))
        assert on_page == in_figure
        assert len(set(on_page.values())) == len(set(table.columns[by]))


def test_cells_have_the_same_colours_as_in_a_figure(running, real):
    table = real_sweep()
    figure = drawn_figure(draw_sweep, table, choose_columns(table, "heatmap", x="b0", y="synthesizer", value="time_ns"))
    shades = figure.axes[0].images[0].get_cmap()
    with opened(running, real) as page:
        scale = page.evaluate("document.querySelector('#heat-chart .js-plotly-plot').data[0].colorscale")
        in_figure = shades([float(share) for share, _ in scale])[:, :3]
        assert np.allclose([to_rgb(colour) for _, colour in scale], in_figure, atol=0.02)


def test_lines_do_not_mix_networks(running, tmp_path):
    with opened(running, written(tmp_path, made_up_sweep(2000))) as page:
        title = page.locator("#lines-chart .gtitle").text_content
        assert "best over" in title() and "networks" not in title()
        colours = "document.querySelector('#lines-chart .js-plotly-plot').data.map((t) => [t.name, t.line.color])"
        assert ["tacos", look_of("tacos")[0]] in page.evaluate(colours)
    table = made_up_sweep(2000)
    with opened(running, written(tmp_path, SweepColumns(table.name, (*table.axes, "network"), table.columns))) as page:
        assert "network net" in page.locator("#lines-chart .gtitle").text_content()
        choose(page, "lines", "network", "*", 2000)
        assert "all values of network" in page.locator("#lines-chart .gtitle").text_content()


def test_filter_and_axes_find_the_points(running, real):
    """What the heat map has after a filter and other axes is what a loop over the rows finds."""
    best: dict[tuple[str, float], float] = {}
    for row in rows_of(real_sweep()):
        if row["synthesizer"] != "themis" and row["size_bytes"] == 1 << 16 and row["status"] == "ok":
            cell = row["outer"], row["b0"]
            best[cell] = max(best.get(cell, 0.0), row["efficiency"])
    with opened(running, real) as page:
        page.get_by_label("Filter by synthesizer").fill("!=themis")
        drawn(page, 180)
        for label, value in (("across", "outer"), ("up", "b0"), ("colour", "efficiency"), ("size", str(1 << 16))):
            choose(page, "heat", label, value, 180)
        found = read_csv(page, "#heat-chart")
    assert {(row["outer"], float(row["b0"])): float(row["efficiency (0 to 1)"]) for row in found} == best


PLOT = "document.querySelector('#heat-chart .js-plotly-plot')"


def test_a_cell_without_a_value_leads_to_the_reason(running, tmp_path):
    rows = [
        {"point": i, "status": "ok", "a": i % 3, "b": i // 3, "time_ns": 100 + i, "cost": 1.0, "error": None} for i in range(9)
    ]
    rows[4] |= {"status": "refused", "time_ns": None, "error": "needs a power of two"}
    with opened(running, written(tmp_path, as_columns("grid", ("a", "b"), rows))) as page:
        assert "A cross marks points without a value" in page.locator("#heat-scope").inner_text()
        assert page.evaluate(f"{PLOT}.data[1].text") == ["1 failed: refused"]
        cross = page.locator("#heat-chart .scatterlayer .point")
        cross.scroll_into_view_if_needed()
        box = cross.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector("#heat-chart .hoverlayer .hovertext")
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector(".sweep-chosen")
        said = page.locator(".sweep-chosen").inner_text()
        assert said.startswith("Point 4") and "needs a power of two" in said


def test_more_points_than_a_page_holds_are_refused():
    table = made_up_sweep(MOST_POINTS + 1)
    with pytest.raises(ConfigError, match=r"^s\.parquet: found 20,001 points, expected at most 20,000 on a page: choose some"):
        render_sweep(table, "s.parquet")
    with pytest.raises(ConfigError, match=r"found 20,001 points where b0 > 0, expected at most 20,000"):
        render_sweep(table, "s.parquet", where="b0 > 0")


def test_a_condition_chooses_the_points_of_a_page(running, tmp_path):
    table = made_up_sweep(MOST_POINTS + 1)
    chosen = [row for row in rows_of(table) if row["b0"] < 200 and row["synthesizer"] == "ring"]
    path = tmp_path / "sweep.html"
    path.write_bytes(render_sweep(table, "sweep.parquet", where="b0 < 200 and synthesizer == 'ring'"))
    with opened(running, path) as page:
        said = page.locator("header").inner_text()
        assert "Of 20,001 points, those where b0 < 200 and synthesizer == 'ring': " in said
        assert f"{len(chosen):,} points: " in said
        header, *lines = saved_rows(page, "#sweep-table")
        assert [int(line[header.index("point")]) for line in lines] == [row["point"] for row in chosen]


def test_as_many_points_as_a_page_holds(running, tmp_path):
    table = made_up_sweep(MOST_POINTS)
    with opened(running, written(tmp_path, table)) as page:
        assert "of 20,000" in page.locator("#sweep-table .count").inner_text()
        choose(page, "front", "size", "*", MOST_POINTS)
        shown = page.evaluate("document.querySelectorAll('#front-chart .scatterlayer .point').length")
        assert shown > sum(status == "ok" for status in table.columns["status"])
