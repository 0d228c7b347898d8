"""The frame of report pages, in a real browser: data, charts, tables, timelines, and what a page must never do."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from helpers.browser import PHONE, frames, opened, saved, saved_rows

from astra_tacos import ConfigError
from astra_tacos.pages.html import page as frame
from astra_tacos.pages.html.page import Section, encode, render_page

NASTY = "<script>alert(1)</script> & \"quotes\" 'single' </title>"
NUM_BARS, NUM_ROWS = 9_000, 30


@pytest.fixture(scope="module")
def bars():
    """Bars of 300 to 500 ns, one after the other in each row."""
    row = np.arange(NUM_BARS) % NUM_ROWS
    start = (np.arange(NUM_BARS) // NUM_ROWS) * 1000 + row * 10
    return {"row": row, "start": start, "end": start + 300 + row * 5, "colour": np.arange(NUM_BARS) % 2}


@pytest.fixture(scope="module")
def path(tmp_path_factory, bars):
    data = {
        "bars": bars,
        "names": [NASTY, *(f"name {number}" for number in range(1, 200))],
        "values": np.arange(200) * 1.5,
        "holes": [None if number % 3 else number for number in range(200)],
        "grid": np.arange(6.0).reshape(2, 3),
        "signed": np.array([-1, 70_000]),
        "wide": np.array([1 << 40, 3]),
        "infinite": float("inf"),
    }
    html = '<div id="chart"></div><div id="table"></div><div id="line"></div>'
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_bytes(render_page(NASTY, NASTY, [Section("all", NASTY, html, NASTY)], data, ()))
    return path


SETUP = """async () => {
  window.seen = [];
  const d = AT.data;
  await AT.chart(document.getElementById("chart"), [{ x: [1, 2, 3], y: [1, 4, 9] }], { xaxis: { title: { text: "x" } } },
    { name: "squares", alt: "Squares.", rows: () => [["x", "y"], ...Array.from({ length: 300 }, (_, i) => [i, i * i])] });
  window.table = AT.table(document.getElementById("table"),
    [{ title: "name", values: d.names }, { title: "value", values: d.values }, { title: "hole", values: d.holes }],
    { name: "things", pageSize: 20, onSelect: (row) => seen.push(["row", row]) });
  window.line = AT.timeline(document.getElementById("line"), { rows: Array.from({ length: 30 }, (_, r) => `row ${r}`),
    groups: [{ label: "first", rows: 10 }, { label: "second", rows: 20 }], bars: d.bars, name: "bars", alt: "Bars.",
    legend: [{ label: "even", colour: "#4477aa" }, { label: "odd", colour: "#ee6677" }],
    onPoint: (bar) => seen.push(["point", bar]), onPick: (bar) => seen.push(["pick", bar]) });
  await new Promise((done) => setTimeout(done, 50));
}"""


@pytest.fixture(scope="module")
def shared(running, path):
    with opened(running, path) as opened_page:
        yield opened_page


@pytest.fixture
def page(shared):
    """The page with everything on it made afresh."""
    shared.emulate_media(media="screen")
    shared.evaluate(SETUP)
    return shared


def unpacked(text):
    content = gzip.decompress(base64.b64decode(text))
    (length,) = struct.unpack("<I", content[:4])
    return json.loads(content[4 : 4 + length]), content[(4 + length + 7) // 8 * 8 :]


def test_arrays_are_packed_in_the_narrowest_type():
    arrays = [np.array([0, 255]), np.array([-1, 127]), np.array([65_535]), np.array([70_000]), np.array([1 << 40])]
    data, block = unpacked(encode({"a": arrays, "f": np.array([1.5]), "b": np.array([True, False]), "e": np.array([], np.int64)}))
    assert [entry["$array"][0] for entry in data["a"]] == ["u1", "i1", "u2", "u4", "f8"]
    assert [data[key]["$array"][0] for key in "fbe"] == ["f8", "u1", "u1"]
    assert all(entry["$array"][1] % 8 == 0 for entry in data["a"])
    kind, offset, length = data["a"][4]["$array"]
    assert np.frombuffer(block, f"<{kind}", length, offset).tolist() == [1 << 40]


def test_numbers_that_a_browser_cannot_hold_are_refused():
    with pytest.raises(ConfigError, match="9007199254740992"):
        encode(np.array([1 << 53]))
    with pytest.raises(TypeError, match="3-dimensional"):
        encode(np.zeros((1, 1, 1)))
    assert unpacked(encode([float("nan"), np.float64(2.5), np.int64(3), True, None]))[0] == [None, 2.5, 3, True, None]


def test_a_page_that_is_too_large_is_refused():
    noise = np.random.default_rng(0).integers(0, 1 << 31, 2_000_000)
    with pytest.raises(ConfigError, match=r"large: the page would have [\d,]+ bytes, expected at most 8,000,000"):
        render_page("large", "", [], {"noise": noise}, ())


def test_every_asset_is_named_by_a_builder():
    """An asset that nobody asks for is dead weight, one that is missing breaks a page."""
    folder = Path(frame.__file__).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    for asset in (folder / "assets").iterdir():
        assert f'"{asset.name}"' in code, asset.name
        assert "</script" not in asset.read_text() or asset.suffix == ".j2", asset.name
        assert "http" not in asset.read_text().replace("http-equiv", "").replace("http://www.w3.org/2000/svg", ""), asset.name


def test_text_is_escaped_and_data_arrive(page):
    assert page.title() == NASTY
    assert page.locator("h1").inner_text() == NASTY
    assert page.locator("h2").inner_text() == NASTY
    assert page.evaluate("AT.data.names[0]") == NASTY
    assert page.evaluate("AT.data.grid.map((row) => Array.from(row))") == [[0, 1, 2], [3, 4, 5]]
    assert page.evaluate("[...AT.data.signed, ...AT.data.wide]") == [-1, 70_000, 1 << 40, 3]
    assert page.evaluate("AT.data.infinite") is None
    assert page.evaluate("AT.data.holes.slice(0, 4)") == [0, None, None, 3]


def test_a_request_to_a_server_is_forbidden(running, path):
    with pytest.raises(AssertionError, match="Content Security Policy"), opened(running, path) as page:
        page.evaluate("fetch('http://127.0.0.1:9/').catch(() => null)")
        page.wait_for_timeout(100)


@pytest.mark.parametrize("which", ["chart", "line"])
def test_pictures_are_saved(page, which):
    box = page.locator(f"#{which}")
    svg = saved(page, box.locator("[data-save=SVG]"))
    assert svg.startswith(b"<svg") and b"</svg>" in svg
    assert saved(page, box.locator("[data-save=PNG]")).startswith(b"\x89PNG\r\n\x1a\n")


def test_a_saved_table_has_all_rows_and_the_one_on_the_page_says_what_is_left_out(page):
    assert saved_rows(page, "#chart") == [["x", "y"], *([str(number), str(number * number)] for number in range(300))]
    page.locator("#chart summary").click()
    page.locator("#chart details tbody tr").first.wait_for()
    assert page.locator("#chart details tbody tr").count() == 200
    assert "100 more rows are left out here; the CSV has all 300" in page.locator("#chart details").inner_text()


def test_a_timeline_saves_every_bar(page, bars):
    rows = saved_rows(page, "#line")
    assert rows[0] == ["row", "start_ns", "end_ns", "kind"]
    assert len(rows) == NUM_BARS + 1
    last = NUM_BARS - 1
    assert rows[-1] == [f"row {bars['row'][last]}", str(bars["start"][last]), str(bars["end"][last]), "odd"]


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("name", "NAME 19", [19, *range(190, 200)]),
        ("name", "<script>", [0]),
        ("value", ">=295.5", [197, 198, 199]),
        ("value", "=4.5", [3]),
        ("value", "3..6", [2, 3, 4]),
        ("hole", "<7", [0, 3, 6]),
        ("hole", "=", None),
        ("value", "297..", [198, 199]),
        ("hole", "!=6", [n for n in range(0, 200, 3) if n != 6]),
        ("hole", "none", [n for n in range(200) if n % 3]),
        ("name", "!=name 7", [n for n in range(200) if n != 7]),
    ],
)
def test_filters(page, column, text, expected):
    field = page.get_by_label(f"Filter by {column}")
    field.fill(text)
    assert field.get_attribute("aria-invalid") == str(expected is None).lower()
    assert page.evaluate("table.rows()") == (list(range(200)) if expected is None else expected)
    status = page.locator("#table .count").inner_text()
    assert (f"the filter of {column} is not understood" in status) == (expected is None)
    if expected is not None:
        assert f"of {len(expected)} (200 without the filter)" in status


FILTERS = """
bytes | 4 KiB | [4096]
bytes | >4KiB | [5000, 65536]
bytes | 4KiB..5KB | [4096, 5000]
bytes | 20us | null
ns | >20,000 | [65536]
ns | < 5 µs | [4096]
ns | 4.10 us | [4096]
share | >=409600% | [4096, 5000, 65536]
 | 409 | []
 | 1,2 | null
"""


@pytest.mark.parametrize("case", FILTERS.strip("\n").splitlines())
def test_filters_take_units(page, case):
    unit, text, expected = case.split(" | ")
    rows = "((f) => f && [4096, 5000, 65536].filter((v) => f(v, () => String(v))))"
    found = page.evaluate(f"(a) => {rows}(AT.filter(a.text, a))", {"text": text, "type": "number", "unit": unit.strip()})
    assert found == json.loads(expected)


def test_a_table_is_sorted_paged_selected_and_saved(page):
    table = page.locator("#table")
    header = table.get_by_role("button", name="hole")
    header.click()
    assert table.locator("th[aria-sort=ascending]").inner_text().startswith("hole")
    assert page.evaluate("table.rows().slice(0, 3)") == [0, 3, 6]
    header.click()
    assert page.evaluate("table.rows().slice(0, 2)") == [198, 195]
    assert page.evaluate("AT.data.holes[table.rows().at(-1)]") is None, "what has no value comes last"
    assert table.locator(".count").inner_text() == "1–20 of 200"  # noqa: RUF001
    table.get_by_role("button", name="next page").click()
    assert table.locator(".count").inner_text() == "21–40 of 200"  # noqa: RUF001
    page.get_by_label("Filter by name").fill("name 5")
    row = table.locator("tbody tr").first
    row.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("seen.at(-1)") == ["row", page.evaluate("table.rows()[0]")]
    assert table.locator("tr[aria-selected=true]").count() == 1
    rows = saved_rows(page, "#table")
    assert rows[0] == ["name", "value", "hole"]
    assert [row[0] for row in rows[1:]] == [f"name {number}" for number in page.evaluate("table.rows()")]


def test_a_timeline_changes_between_density_and_bars(page, bars):
    svg = page.locator("#line svg[tabindex]")
    assert svg.get_attribute("data-shows") == "heat"
    assert "9,000 bars in view" in page.locator("#line [data-role=shows]").inner_text()
    page.evaluate("line.zoom({ t0: 0, t1: 50000, r0: 0, r1: 30 })")
    frames(page)
    shown = page.evaluate("line.shown()")
    inside = (bars["start"] <= 50_000) & (bars["end"] >= 0)
    assert (shown["kind"], shown["count"]) == ("bars", int(inside.sum()))
    assert "Every bar is drawn" in page.locator("#line [data-role=shows]").inner_text()
    drawn = page.evaluate(
        "[...document.querySelectorAll('#line svg path')].map((p) => p.getAttribute('d').split('M').length - 1)"
    )
    assert sum(drawn) == shown["count"]


def test_the_density_is_the_share_of_time_in_use(page, bars):
    cells = page.evaluate("Array.from(AT._timelineModel(AT.data.bars, 30).heat({ t0: 0, t1: 12000, r0: 0, r1: 30 }, 15, 7))")
    expected = np.zeros((15, 7))
    width = 12_000 / 7
    for row, start, end in zip(bars["row"], bars["start"], bars["end"], strict=True):
        for column in range(7):
            expected[row // 2, column] += max(0.0, min(end, (column + 1) * width) - max(start, column * width)) / width / 2
    assert np.allclose(np.reshape(cells, (15, 7)), expected, atol=1e-5)


def test_the_keyboard_moves_zooms_picks_and_clears(page, bars):
    page.locator("#line svg[tabindex]").focus()
    press = page.keyboard.press
    press("ArrowRight")
    first = page.evaluate("seen.at(-1)")
    assert first == ["point", 0]
    press("ArrowRight")
    assert page.evaluate("seen.at(-1)") == ["point", NUM_ROWS], "the next bar of the row"
    press("ArrowDown")
    assert page.evaluate("seen.at(-1)") == ["point", NUM_ROWS + 1], "the bar below"
    assert "row 1: 1,010 ns to 1,315 ns" in page.locator("#line .live").inner_text()
    press("Enter")
    assert page.evaluate("seen.at(-1)") == ["pick", NUM_ROWS + 1]
    before = page.evaluate("line.shown().view")
    press("+")
    frames(page)
    after = page.evaluate("line.shown().view")
    assert after["t1"] - after["t0"] == pytest.approx((before["t1"] - before["t0"]) / 2)
    assert after["t0"] <= bars["start"][NUM_ROWS + 1] <= after["t1"], "what is selected stays in view"
    press("Shift+ArrowRight")
    frames(page)
    assert page.evaluate("line.shown().view.t0") > after["t0"]
    press("0")
    frames(page)
    assert page.evaluate("line.shown().view") == {"t0": 0, "t1": int(bars["end"].max()), "r0": 0, "r1": NUM_ROWS}
    press("Escape")
    frames(page)
    assert page.evaluate("seen.at(-1)") == ["pick", None]
    assert page.evaluate("line.shown().selected") == -1


def where(page, row, time):
    """Pixels of a row and time in the whole view."""
    box = page.locator("#line svg[tabindex]").bounding_box()
    edge = page.locator("#line svg[tabindex] > rect[stroke='#9aa5b1']")
    view = page.evaluate("line.shown().view")
    x, y, width, height = (float(edge.get_attribute(name)) for name in ("x", "y", "width", "height"))
    across = (time - view["t0"]) / (view["t1"] - view["t0"])
    down = (row + 0.5 - view["r0"]) / (view["r1"] - view["r0"])
    return box["x"] + x + across * width, box["y"] + y + down * height


def test_the_pointer_points_picks_drags_and_zooms(page, bars):
    page.evaluate("line.zoom({ t0: 0, t1: 20000, r0: 0, r1: 30 })")
    frames(page)
    page.locator("#line").scroll_into_view_if_needed()
    bar = 5 * NUM_ROWS + 7
    x, y = where(page, 7, bars["start"][bar] + 100)
    page.mouse.move(x, y)
    assert page.evaluate("seen.at(-1)") == ["point", bar]
    page.mouse.click(x, y)
    frames(page)
    assert page.evaluate("seen.at(-1)") == ["pick", bar]
    assert page.locator("#line path.selected").count() == 1
    page.evaluate("line.highlight([1, 2, 31])")
    frames(page)
    assert page.evaluate(
        "[...document.querySelectorAll('#line path.lit')].map((p) => p.getAttribute('d').split('M').length - 1)"
    ) == [2, 1]
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=4)
    page.mouse.up()
    frames(page)
    moved = page.evaluate("line.shown().view")
    assert moved["t0"] > 0 and moved["t1"] - moved["t0"] == pytest.approx(20_000)
    assert page.evaluate("seen.at(-1)") == ["pick", bar], "a drag picks nothing"
    page.mouse.wheel(0, -200)
    frames(page)
    page.wait_for_timeout(50)
    view = page.evaluate("line.shown().view")
    assert view["t1"] - view["t0"] < 20_000


def test_a_phone_has_nothing_to_scroll_sideways(running, path):
    with opened(running, path, PHONE, touch=True) as page:
        page.evaluate(SETUP)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        page.set_viewport_size({"width": 360, "height": 740})
        for _ in range(100):  # Plotly takes its time to follow
            if page.evaluate("document.documentElement.scrollWidth") == 360:
                break
            page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_print_has_no_controls_and_fits_the_sheet(page):
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    frames(page)
    assert page.locator(".figure-tools button:visible, .table-foot button:visible, input:visible").count() == 0
    assert page.locator("#line svg[tabindex]").bounding_box()["width"] <= 680
    assert page.locator("#chart .main-svg").first.bounding_box()["width"] <= 680


def test_an_old_browser_is_told_what_is_missing(running, path):
    context = running.new_context()
    context.add_init_script("delete window.DecompressionStream")
    page = context.new_page()
    page.goto(path.as_uri())
    assert "too old" in page.locator("#at-notice").inner_text()
    context.close()
