"""Reports of plans and replays: what their data say, and the pages in a real browser."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
from helpers.browser import DESKTOP, PHONE, opened
from helpers.command import read_json
from helpers.figures import drawn
from helpers.lint_runs import RunFiles, coll, comp, recv, send
from helpers.plans import planned, put_on_links, written
from helpers.recordings import random_recording, write_replay
from matplotlib.colors import to_hex

from astra_tacos import ConfigError
from astra_tacos.pages.figure.timeline_plot import draw_rank_timeline
from astra_tacos.pages.html.page import MOST_PAGE_BYTES
from astra_tacos.pages.html.run import plan_page, replay_page
from astra_tacos.pages.html.run_data import choose_rows, link_data
from astra_tacos.pages.rank_states import find_segments
from astra_tacos.run.recording import load_recording


def two_stages():
    """Two stages of four ranks: All-Reduces in each, of two sizes, and messages from the first to the second."""
    groups = {"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}
    ranks = []
    for rank in range(8):
        group = 1 if rank < 4 else 2
        message = send(2, rank + 4, [1], size=1 << 16) if rank < 4 else recv(2, rank - 4, size=1 << 16)
        ranks.append(
            [
                comp(0, [] if rank < 4 else [2], us=20),
                coll(1, [0], size=1 << 20, group=group),
                message,
                comp(3, [0], us=30),
                coll(4, [1, 2, 3], size=1 << 18, group=group),
                comp(5, [4], us=5),
            ]
        )
    return RunFiles(ranks=ranks, groups=groups, topology=("FullyConnected", "Switch"), npus=(4, 2))


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    planned(written(folder, two_stages()), folder / "planned", baseline="ring")
    return folder / "planned"


@pytest.fixture(scope="module")
def page_file(plan_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(plan_page(plan_folder))
    return path


# ---- What is on the page ----


def test_the_same_directory_has_the_same_page(plan_folder):
    assert plan_page(plan_folder) == plan_page(plan_folder)


def test_a_damaged_directory_is_refused(plan_folder, tmp_path):
    with pytest.raises(ConfigError, match=r"replay\.npz: cannot be read"):
        plan_page(tmp_path)
    (tmp_path / "replay.npz").write_bytes((plan_folder / "replay.npz").read_bytes())
    for text, reason in (("[", "not valid JSON"), ("[]", "expected a JSON object"), ('{"num_ranks": 8}', "required field")):
        (tmp_path / "plan.json").write_text(text)
        with pytest.raises(ConfigError, match=reason):
            plan_page(tmp_path)


def test_page_and_figure_have_the_same_states(running, plan_folder, page_file):
    legend = drawn(draw_rank_timeline, load_recording(plan_folder / "replay.npz")).legends[0]
    named = {
        text.get_text(): to_hex(patch.get_facecolor()) for text, patch in zip(legend.texts, legend.get_patches(), strict=True)
    }
    with opened(running, page_file) as page:
        states = {state["label"]: state["colour"] for state in page.evaluate("AT.data.states")}
        assert named.items() <= states.items()
        fills = page.evaluate(
            "document.querySelector('#over-time .js-plotly-plot').data.map(({ name, fillcolor }) => [name, fillcolor])"
        )
        assert {tuple(fill) for fill in fills} == set(states.items())
        key = page.locator("#timeline .key").first
        assert key.inner_text().split("\n") == list(states)[:-1]


def rows_of(recording, most_segments):
    segments = [find_segments(recording.nodes, replay) for replay in (recording.before, recording.after) if replay]
    return choose_rows(recording.nodes, segments, recording.after.finish_ns, most_segments)


def test_ranks_that_do_the_same_share_a_row_if_there_are_many():
    rows = rows_of(random_recording(100, 6, alike=True), 10_000)
    assert (rows.ranks, rows.labels) == ((0,), ("0-99",))
    assert "All 100 ranks are shown" in rows.rule
    rows = rows_of(random_recording(60, 6, alike=True), 10_000)
    assert rows.ranks == tuple(range(60))
    assert len(rows_of(random_recording(100, 6, both=True), 10_000).ranks) == 100


def test_above_the_budget_some_ranks_stand_for_all():
    recording = random_recording(100, 6, both=True)
    rows = rows_of(recording, 240)
    assert len(rows.ranks) == 20
    assert {int(recording.after.finish_ns.argmax()), int(recording.after.finish_ns.argmin())} < set(rows.ranks)
    assert max(np.diff(rows.ranks)) <= 13
    assert "Of 100 ranks, 20 are rows" in rows.rule
    assert len(rows_of(recording, 3).ranks) == 1


def test_switches_are_called_by_their_device_number_everywhere(plan_folder):
    recording = load_recording(plan_folder / "replay.npz")
    links = link_data(recording, [recording.after])
    npus = [str(npu) for npu in range(8)]
    assert links["labels"] == [*npus, *(f"switch {device}" for device in range(8, 12))]
    ends = {end for name in links["busiest"]["link"] for end in name.split(" → ")}
    assert ends == set(links["labels"])


def test_matrices_of_large_networks_are_of_blocks():
    recording = random_recording(1000, 2)
    links = link_data(recording, [recording.after])
    size = links["block_size"]
    assert len(links["labels"]) == -(-1000 // size) <= 64
    assert links["labels"][1] == f"{size}-{2 * size - 1}"
    matrix = links["matrices"][0]
    share = recording.after.link_busy_ns / recording.after.run_end_ns
    np.testing.assert_allclose(matrix["mean"][0, 0], share[: size - 1].mean(), rtol=1e-6)
    np.testing.assert_allclose(matrix["mean"][0, 1], share[size - 1], rtol=1e-6)
    np.testing.assert_allclose(matrix["most"][0, 0], share[: size - 1].max(), rtol=1e-6)
    assert matrix["links"].sum() == 1000
    assert np.isnan(matrix["mean"][0, 5])
    assert len(links["busiest"]["link"]) == 500
    assert links["busiest"]["share"][0][0] == share.max()


def test_a_thousand_ranks_that_all_differ_fit_into_a_page(tmp_path):
    content = replay_page(write_replay(tmp_path / "replay", random_recording(1024, 200)))
    assert len(content) < MOST_PAGE_BYTES
    assert b"Every rank is a row." in content
    content = replay_page(write_replay(tmp_path / "more", random_recording(2048, 300)))
    assert len(content) < MOST_PAGE_BYTES
    assert b"Of 2,048 ranks, " in content


# ---- In the browser ----


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_plan_is_drawn(page_file, plan_folder, running, size):
    result = read_json(plan_folder / "plan.json")
    with opened(running, page_file, size, touch=size == PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        text = page.locator("#summary").inner_text()
        for wanted in (
            f"{result['before_ns']:,} → {result['time_ns']:,} ns",
            f"{result['best_native_ns']:,} ns: ",
            f"{result['bound_ns']:,} ns: ",
            f"{result['speed_up']:.3f}x",
            "native ring everywhere",
        ):
            assert wanted in text
        assert result["backend"] in text
        for place in ("over-time", "rank-bars", "case-bars", "link-matrices", "link-curves"):
            assert page.locator(f"#{place} .js-plotly-plot").count() >= 1, place
        assert page.locator("#link-matrices .js-plotly-plot").count() == 2
        pictures = page.locator("[role=img], svg[role=application]")
        assert all(pictures.nth(number).get_attribute("aria-label") for number in range(pictures.count()))


def test_the_timeline_answers_to_the_pointer(page_file, running):
    with opened(running, page_file) as page:
        svg = page.locator("#timeline svg[role=application]")
        svg.scroll_into_view_if_needed()
        box = svg.bounding_box()
        said = page.locator("#timeline .live")
        # The third bar of rank 0: its first computes, with the second it communicates, too.
        x, y = page.evaluate(
            """() => { const svg = document.querySelector("#timeline svg[role=application]");
            const { start, end } = RUN.bars(AT.data.timeline);
            const frame = [...svg.querySelectorAll("rect")].find((one) => one.getAttribute("fill") === "none");
            const at = Number(frame.getAttribute("x")), wide = Number(frame.getAttribute("width"));
            return [at + (wide * (start[2] + end[2])) / 2 / Math.max(...end), 10]; }"""
        )
        page.mouse.move(box["x"] + x, box["y"] + y)
        assert "Before, rank 0: exposed communication, " in said.inner_text()
        assert "all-reduce 1 MiB in group 1 by native all-reduce (ring) (n1, node 1)" in said.inner_text()
        page.mouse.click(box["x"] + x, box["y"] + y)
        picked = page.locator("#picked").inner_text()
        assert "Picked on rank 0" in picked
        assert "Before: " in picked
        assert "After: " in picked
        page.locator("#timeline path.lit").first.wait_for(state="attached")
        lit = page.evaluate("RUN.timeline.shown().highlighted.length")
        assert lit >= 8  # four ranks of the group, before and after


def test_bars_are_what_the_replay_saw(page_file, plan_folder, running):
    """The bars of each rank, summed by state in the browser, against the figures of the directory."""
    with opened(running, page_file) as page:
        sums = page.evaluate(
            """() => { const bars = RUN.bars(AT.data.timeline); const sums = {};
            bars.row.forEach((row, bar) => {
              const key = `${row} ${bars.colour[bar]}`;
              sums[key] = (sums[key] || 0) + bars.end[bar] - bars.start[bar];
            });
            return sums; }"""
        )
    with np.load(plan_folder / "replay.npz") as archive:
        for which, when in enumerate(("before", "after")):
            for rank in range(8):
                computes = sum(sums.get(f"{8 * which + rank} {state}", 0) for state in (0, 1))
                assert computes == archive[f"{when}_compute_ns"][rank]


def test_odd_runs_are_drawn(tmp_path, running):
    """A run that did not end before, one on a network of listed links, and one without any communication."""
    crossed = [[coll(0, size=1 << 16, group=first), coll(1, size=1 << 16, group=3 - first)] for first in (1, 2)]
    stuck = written(tmp_path / "stuck", RunFiles(ranks=crossed, groups={"1": [0, 1], "2": [0, 1]}))
    listed = written(tmp_path / "listed", RunFiles(ranks=[[coll(0, size=1 << 20)] for _ in range(3)]))
    put_on_links(listed, dict.fromkeys(permutations(range(3), 2), 25))
    silent = written(tmp_path / "silent", RunFiles(ranks=[[comp(0, us=3)] for _ in range(2)]))
    expected = {"stuck": "the run did not end: ", "listed": "a graph, 3 NPUs", "silent": "1.000x"}
    for inputs, (name, text) in zip((stuck, listed, silent), expected.items(), strict=True):
        planned(inputs, tmp_path / name / "plan")
        path = tmp_path / f"{name}.html"
        path.write_bytes(plan_page(tmp_path / name / "plan"))
        with opened(running, path) as page:
            assert text in page.locator("#summary").inner_text()
            assert page.locator("#link-matrices .js-plotly-plot").count() == (1 if name == "stuck" else 2)


def test_a_replay_of_a_thousand_ranks_is_drawn(tmp_path, running):
    path = tmp_path / "report.html"
    path.write_bytes(replay_page(write_replay(tmp_path / "replay", random_recording(1024, 100))))
    with opened(running, path) as page:
        assert page.locator("#timeline svg[role=application]").get_attribute("data-shows") == "heat"
        assert "102,400 bars in view" in page.locator("#timeline [data-role=shows]").inner_text()
        assert "blocks of 16 NPUs" in page.locator("#links").inner_text()
        page.locator("#timeline svg[role=application]").focus()
        page.keyboard.press("ArrowRight")
        for _ in range(8):
            page.keyboard.press("+")
        page.locator("#timeline svg[data-shows=bars]").wait_for()
        assert "The run has no collectives." in page.locator("#case-bars").inner_text()


def test_names_are_plain_text_to_plotly(tmp_path, running):
    """Traces may be called anything; Plotly makes links and bold letters of what looks like HTML."""
    nasty = "<a href='http://there'>x</a><b>y</b>"
    folder = write_replay(tmp_path / "replay", random_recording(4, 6))
    result = read_json(folder / "replay.json")
    result["collectives"] = [{"pattern": "ALL_REDUCE", "size_bytes": 1024, "algorithm": nasty, "nodes": 2, "total_ns": [5] * 4}]
    (folder / "replay.json").write_text(json.dumps(result))
    path = tmp_path / "report.html"
    path.write_bytes(replay_page(folder))
    with opened(running, path) as page:
        assert nasty in (page.locator("#case-bars .yaxislayer-above").text_content() or "")
        page.locator("#case-bars .bars path").first.hover(force=True)
        page.wait_for_selector("#case-bars .hovertext")
        assert nasty in (page.locator("#case-bars .hovertext").text_content() or "")
        assert not page.locator("#case-bars svg a").count()
