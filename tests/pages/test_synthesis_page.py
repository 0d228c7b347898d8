"""The report of a schedule in a real browser: what it lights, lists and draws is what the schedule says."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from helpers.browser import PHONE, frames, opened, saved_rows
from helpers.figures import drawn
from helpers.messages import grouped, one_shot
from helpers.networks import MIXED, SWITCH, TORUS, graph, topology
from helpers.pages import page_of
from helpers.schedules import schedule
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex

from astra_tacos import build_topology, certify, make_collective, synthesize
from astra_tacos.network.fabric.kinds import make_fabric
from astra_tacos.pages.compare_rows import CompareRow
from astra_tacos.pages.figure.timeline_plot import draw_timeline
from astra_tacos.pages.figure.topology_plot import draw_topology
from astra_tacos.pages.html.page import MOST_PAGE_BYTES
from astra_tacos.pages.html.synthesis import synthesis_page
from astra_tacos.pages.table import Certificate
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.support.rows import Importance

NASTY = "<script>alert(1)</script><b>\"net'&amp;"


@pytest.fixture(scope="module")
def of():
    """An All-Reduce on three dimensions, one of them of switches."""
    return schedule(topology(*MIXED), chunks=2)


@pytest.fixture(scope="module")
def path(of, tmp_path_factory):
    rows = [
        CompareRow(
            "n", "t", 24, "all-reduce", None, 1 << 20, "slow <b>one</b>", time_ns=of.collective_time_ns * 3, chunks_per_npu=1
        ),
        CompareRow("n", "t", 24, "all-reduce", None, 1 << 20, "unable", refusal="all-reduce on n: unable: is for <others>"),
    ]
    return page_of(of, tmp_path_factory.mktemp("page") / "page.html", comparison=rows, comparison_note="How <it> was made.")


@pytest.fixture(scope="module")
def page(running, path):
    with opened(running, path) as opened_page:
        yield opened_page


def test_the_certificate_says_what_the_result_says(page, of):
    result = certify(of)
    text = page.locator("#certificate").inner_text()
    assert f"{result['efficiency']:.1%}" in text
    assert f"{result['bus_bandwidth_gbps']:,.1f} GB/s" in text
    assert result["bound_where"] in text
    assert "verified" in text
    assert page.locator("#certificate .bound").count() == len(result["bounds_ns"])
    assert page.locator("#certificate .bound.binds").count() == 1
    assert all(row.name in text and row.text in text for row in Certificate(result).rows() if row.importance is Importance.DETAIL)
    assert "bound (these chunks)" in text
    assert page.locator("#faster").count() == 0


def test_the_certificate_says_that_another_algorithm_is_faster(of):
    """That a schedule meets the bound for its chunks is not that nothing is faster."""
    result = certify(of)
    base = CompareRow("n", "t", 24, "all-reduce", None, 1 << 20, "a90", time_ns=90, chunks_per_npu=9)
    rows = [replace(base, synthesizer="a100", time_ns=100), base]
    text = synthesis_page(of, result, rows).decode()
    assert "a90 and 1 more are faster than this schedule; a90 takes 90 ns with 9 chunks per NPU" in text
    rows = [replace(row, time_ns=result["time_ns"]) for row in rows]
    assert "faster than this schedule" not in synthesis_page(of, result, rows).decode()


@pytest.mark.parametrize("chunk", [0, 17, 47])
def test_the_tree_that_is_lit_is_exactly_the_sends_of_the_chunk(page, of, chunk):
    page.get_by_label("Light the tree of chunk").fill(str(chunk))
    page.get_by_label("Light the tree of chunk").press("Enter")
    frames(page)
    sends = np.flatnonzero(of.chunk == chunk)
    use = link_use(of)
    bars = page.evaluate("AT.report.timeline.shown().highlighted")
    lit = page.evaluate(f"{bars}.map((bar) => AT.data.bars.message[bar])")
    assert sorted(lit) == sorted(use.message[np.isin(use.message, of.message_of[sends])].tolist())
    links = [of.topology.channel_link[of.channel[sends]], of.topology.channel_down_link[of.channel[sends]]]
    hops = sum(int((column >= 0).sum()) for column in links)
    drawn = page.evaluate(
        "[...document.querySelectorAll('#topology path.tree')].map((p) => p.getAttribute('d').split('M').length - 1)"
    )
    assert sum(drawn) == hops
    assert f"{len(sends)} sends" in page.locator("#chunk-told").inner_text()
    assert page.evaluate("document.querySelectorAll('#links-over-time path.lit').length") > 0


def test_pointing_lights_a_tree_and_picking_keeps_it(page, of):
    svg = page.locator("#links-over-time svg[tabindex]")
    svg.focus()
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    frames(page)
    assert page.evaluate("AT.report.timeline.shown().highlighted") is None
    assert page.locator("#topology path.tree").count() == 0
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    frames(page)
    selected = page.evaluate("AT.report.timeline.shown().selected")
    chunk = page.evaluate(f"AT.data.sends.chunk[AT.data.bars.send[{selected}]]")
    expected = np.unique(of.message_of[of.chunk == chunk]).tolist()
    lit = page.evaluate("AT.report.timeline.shown().highlighted.map((bar) => AT.data.bars.message[bar])")
    assert sorted(set(lit)) == expected
    assert f"chunk {chunk}" in page.locator("#links-over-time .live").inner_text().lower()
    page.keyboard.press("Enter")
    assert page.locator("#chunk-number").input_value() == str(chunk)
    # The pointer lights another tree, and once it has left, the one that was picked is lit again.
    other = int(np.flatnonzero(of.chunk[of.message_row] != chunk)[0])
    bar = page.evaluate(f"AT.data.bars.message.indexOf({other})")
    box, edge = svg.bounding_box(), page.locator("#links-over-time svg[tabindex] > rect[stroke='#9aa5b1']")
    x, y, width, height = (float(edge.get_attribute(name)) for name in ("x", "y", "width", "height"))
    row, start, end = page.evaluate(f"[AT.data.bars.row[{bar}], AT.data.bars.start[{bar}], AT.data.bars.end[{bar}]]")
    across, down = (start + end) / 2 / of.collective_time_ns, (row + 0.5) / of.topology.num_links
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.mouse.move(box["x"] + x + across * width, box["y"] + y + down * height)
    frames(page)
    lit = page.evaluate("AT.report.timeline.shown().highlighted.map((bar) => AT.data.bars.message[bar])")
    assert sorted(set(lit)) == np.unique(of.message_of[of.chunk == of.chunk[of.message_row[other]]]).tolist()
    page.mouse.move(5, 5)
    page.keyboard.press("Escape")
    frames(page)
    assert page.evaluate("AT.report.timeline.shown().highlighted") is None


@pytest.mark.parametrize("asked", ["-3", "999", "1.5"])
def test_a_chunk_that_is_none_is_not_lit(page, of, asked):
    page.fill("#chunk-number", asked)
    page.locator("#chunk-number").dispatch_event("change")
    frames(page)
    assert page.locator("#chunk-told").inner_text() == f"There are chunks 0 to {of.collective.num_chunks - 1}."
    assert page.locator("path.tree").count() == 0
    page.fill("#chunk-number", "")
    page.locator("#chunk-number").dispatch_event("change")
    assert page.locator("#chunk-told").inner_text() == ""


@pytest.mark.parametrize("npu", [0, 13, 23])
def test_an_npu_lists_what_it_held_when(page, of, npu):
    page.get_by_label("What was held when by").select_option(str(npu))
    rows = saved_rows(page, "#npu-held")
    assert rows[0] == ["chunk", "when", "from", "what"]
    first = [[str(chunk), "0", "its own", "its contribution"] for chunk in range(of.collective.num_chunks)]
    assert rows[1 : len(first) + 1] == first
    received = np.flatnonzero(of.dst == npu)
    received = received[np.argsort(of.done_ns[received], kind="stable")]
    expected = [
        [str(of.chunk[send]), str(of.done_ns[send]), f"NPU {of.src[send]}", "added to its own" if of.reduces[send] else "copy"]
        for send in received
    ]
    assert rows[len(first) + 1 :] == expected
    assert page.locator("#topology circle[fill='#22384f']").get_attribute("data-device") == str(npu)


def test_links_are_listed_with_their_use(page, of):
    page.locator("#links summary").click()
    rows = saved_rows(page, "#link-table")
    assert len(rows) == of.topology.num_links + 1
    shares = of.link_busy_ns / of.collective_time_ns
    assert np.allclose([float(row[5]) for row in rows[1:]], shares, atol=1e-4)
    bound = set(certify(of)["bound_links"])
    assert {link for link, row in enumerate(rows[1:]) if row[6]} == {
        link for link in range(of.topology.num_links) if of.topology.describe_link(link) in bound
    }
    page.locator("#link-table").get_by_label("Filter by from").fill("switch")
    assert f"of {(of.topology.link_src >= of.topology.num_npus).sum()} " in page.locator("#link-table .count").inner_text()
    page.locator("#link-table tbody tr").first.click()
    assert page.locator("#topology path.chosen").count() == 1


def test_the_curves_end_with_everything(page, of):
    rows = saved_rows(page, "#arrival-curves")[1:]
    for label in {row[0] for row in rows}:
        own = [(int(row[1]), float(row[2])) for row in rows if row[0] == label]
        assert own == sorted(own) and own[-1] == (of.collective_time_ns, 1.0)


def test_the_comparison_has_bars_and_refusals(page, of):
    rows = saved_rows(page, "#comparison")
    assert [row[0] for row in rows[1:]] == [f"{of.synthesizer} (this schedule)", "slow <b>one</b>"]
    own, other = (float(row[1]) for row in rows[1:])
    assert own == pytest.approx(exact_time_ns(of), abs=0.001) and other == 3 * of.collective_time_ns
    assert [float(row[2]) for row in rows[1:]] == pytest.approx([1, other / own])
    assert "slow <b>one</b>" in page.locator("#comparison .ytick").all_text_contents()
    text = page.locator("#algorithms").inner_text()
    assert "is for <others>" in text and "How <it> was made." in text
    assert "all-reduce on n" not in text  # what was asked for is said above


def test_a_phone_has_nothing_to_scroll_sideways(running, path):
    with opened(running, path, PHONE, touch=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        page.locator("#topology circle[data-device='3']").tap()
        assert page.locator("#npu-number").input_value() == "3"


def test_the_same_schedule_gives_the_same_bytes(of, tmp_path):
    pages = [page_of(of, tmp_path / name).read_bytes() for name in ("one.html", "two.html")]
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: schedule(topology(*TORUS), "all-to-all"),
        lambda: schedule(topology(*SWITCH), "reduce-scatter", link_model="pipelined"),
        lambda: schedule(topology(*TORUS), "broadcast", root=5),
        lambda: schedule(graph((0, 1, 50, 500), (1, 2, 25, 500), (2, 0, 50, 500), (1, 0, 50, 500)), "all-gather"),
    ],
    ids=["all-to-all", "reduce-scatter", "broadcast", "graph"],
)
def test_every_kind_of_collective_and_network_is_drawn(running, tmp_path, make):
    of = make()
    of = replace(of, topology=replace_name(of.topology))
    with opened(running, page_of(of, tmp_path / "page.html")) as page:
        assert NASTY in page.locator("h1").inner_text()
        held = page.evaluate(
            f"Array.from({{ length: {of.topology.num_npus} }}, (_, npu) => AT.synthesis.held(AT.data, npu).length)"
        )
        collective = of.collective
        first = np.full(of.topology.num_npus, collective.num_chunks) if collective.reduces else collective.chunks_owned
        assert held == (first + np.bincount(of.dst, minlength=of.topology.num_npus)).tolist()
        use = link_use(of)
        row_of_link = np.argsort(page.evaluate("Array.from(AT.data.rows)"))
        expected = sorted(zip(row_of_link[use.link].tolist(), use.start_ns.tolist(), use.end_ns.tolist(), strict=True))
        bars = page.evaluate("Array.from(AT.data.bars.row, (row, bar) => [row, AT.data.bars.start[bar], AT.data.bars.end[bar]])")
        assert sorted(map(tuple, bars)) == expected
        assert page.locator("#links-over-time svg[tabindex]").count() == 1


def replace_name(network):
    """The network under a name that is markup."""
    fields = ("num_npus", "num_switches", "link_src", "link_dst", "link_bandwidth_gibps", "link_latency_ns", "link_dimension")
    return type(network)(NASTY, *(getattr(network, name) for name in fields), dimensions=network.dimensions)


def test_page_and_figure_draw_the_same_network(running, tmp_path):
    """Places, curves, shapes, colours and the legend, of devices of several kinds."""
    network = build_topology(make_fabric("dgx-a100", nodes=2), may_forward=True)
    of = synthesize(network, make_collective("all-gather", network.num_npus, 1 << 20, 1, None, range(network.num_endpoints)))
    figure = drawn(draw_topology, network, busy=of.link_busy_ns / of.collective_time_ns)
    in_figure = [part for part in figure.axes[0].collections if isinstance(part, PathCollection)]
    (lines,) = (part for part in figure.axes[0].collections if isinstance(part, LineCollection))
    with opened(running, page_of(of, tmp_path / "page.html")) as page:
        marks = page.evaluate("AT.data.picture.marks.map((mark) => [...mark.devices])")
        places = np.array(page.evaluate("AT.data.picture.layout.positions.map((place) => [...place])"))
        assert [len(devices) for devices in marks] == [16, 20, 16]
        for devices, part in zip(marks, in_figure, strict=True):
            assert np.allclose(places[devices], part.get_offsets())
        for devices, tag in zip(marks, ("circle", "path", "path"), strict=True):
            for device in devices:
                assert page.locator(f"#topology {tag}[data-device='{device}']").count() == 1
        corners = "(device) => document.querySelector(`#topology [data-device='${device}']`).getAttribute('d').split(' ')[0]"
        assert page.evaluate(corners, marks[1][0]) != page.evaluate(corners, marks[2][0])
        assert "dots: NPUs; squares: switches; diamonds: NICs" in page.locator("#topology .key").inner_text()
        assert np.allclose(np.sort(page.evaluate("[...AT.data.picture.values]")), lines.get_array())
        ends = [f"rgb({int(c[1:3], 16)},{int(c[3:5], 16)},{int(c[5:], 16)})" for c in map(to_hex, lines.get_cmap()([0.0, 1.0]))]
        assert page.evaluate("[0, 1].map((share) => AT.between(AT.data.picture.shades.colours, share))") == ends


def test_failed_links_are_dashed_on_the_page(running, tmp_path):
    rows = (("Ring", 4, 50.0, 500.0), ("Ring", 3, 50.0, 500.0))
    for failed in ((), ((0, 1), (3, 0))):
        of = schedule(topology(*rows, failed_links=failed), "all-gather", chunks=1)
        with opened(running, page_of(of, tmp_path / "page.html")) as page:
            drawn = page.locator("#topology path.failed")
            assert drawn.count() == bool(failed)
            assert ("failed links" in page.locator("#topology .key").inner_text()) == bool(failed)
            if failed:
                assert drawn.get_attribute("d").count("M") == 2
                assert drawn.get_attribute("stroke-dasharray")


@pytest.mark.parametrize("collective", ["reduce-scatter", "all-gather", "all-reduce"])
def test_timelines_of_page_and_figure_name_the_same_kinds_and_links(running, tmp_path, collective):
    of = schedule(topology(*SWITCH), collective)
    figure = drawn(draw_timeline, of)
    legend = figure.legends[0]
    kinds = [
        (text.get_text(), to_hex(patch.get_facecolor())) for text, patch in zip(legend.texts, legend.get_patches(), strict=True)
    ]
    with opened(running, page_of(of, tmp_path / "page.html")) as page:
        assert page.evaluate("AT.data.kinds.map(({ label, colour }) => [label, colour])") == [list(kind) for kind in kinds]
        assert page.locator("#links-over-time .key").first.inner_text().split() == [label for label, _ in kinds]
        of_bars = page.evaluate("Array.from(AT.data.bars.send, (send) => AT.data.sends.reduces[send])")
        assert {("copy", "reduce")[reduces] for reduces in of_bars} == {label for label, _ in kinds}
        labels = {label.get_text() for label in figure.axes[0].get_yticklabels()}
        assert labels <= {row[0] for row in saved_rows(page, "#links-over-time")[1:]}


def test_too_many_sends_are_aggregated_and_the_page_says_so(running, tmp_path):
    """More than 200,000 sends through switches, each of which holds two links."""
    of = schedule(topology(("Switch", 8, 300.0, 500.0), ("Switch", 16, 50.0, 900.0)), chunks=7, size=1 << 26)
    assert of.num_sends > 200_000
    path = page_of(of, tmp_path / "page.html")
    assert path.stat().st_size < MOST_PAGE_BYTES
    with opened(running, path) as page:
        text = page.locator("#timeline").inner_text()
        assert f"Aggregated: {of.num_sends:,} sends are more than a page holds one by one" in text
        rows = saved_rows(page, "#links-over-time")[1:]
        busy = sum(int(row[1]) * (float(row[3]) - float(row[2])) * float(row[4]) for row in rows)
        assert busy == pytest.approx(float(of.link_busy_ns.sum()), rel=1e-3)
        assert page.locator("#npu-held").count() == 0


def test_large_networks_are_aggregated(running, tmp_path):
    torus = topology(("Ring", 25, 50.0, 500.0), ("Ring", 26, 50.0, 500.0))
    of = schedule(torus, "all-gather", chunks=1)
    with opened(running, page_of(of, tmp_path / "page.html"), PHONE) as page:
        assert "too large to draw device by device" in page.locator("#network").inner_text()
        assert f"{of.num_sends:,} sends are more than a page holds" in page.locator("#timeline").inner_text()
        rows = saved_rows(page, "#matrix")[1:]
        assert sum(int(row[2]) for row in rows) == torus.num_links
        busy = sum(int(row[2]) * float(row[3]) for row in rows)
        assert busy == pytest.approx(float(of.link_busy_ns.sum() / of.collective_time_ns), rel=1e-3)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


def test_messages_of_several_chunks_are_one_bar_each(running, tmp_path):
    of = grouped(schedule(topology(*SWITCH), chunks=2, link_model="pipelined"), Random(3))
    assert of.num_messages < of.num_sends
    use = link_use(of)
    several = int(np.argmax(np.diff(of.message_first)))
    rows = slice(int(of.message_first[several]), int(of.message_first[several + 1]))
    with opened(running, page_of(of, tmp_path / "page.html")) as page:
        assert page.evaluate("AT.data.bars.row.length") == len(use.message)
        sums = page.evaluate("['start', 'end'].map((name) => AT.data.bars[name].reduce((sum, time) => sum + time, 0))")
        assert sums == [int(use.start_ns.sum()), int(use.end_ns.sum())]
        done = page.evaluate("Array.from(AT.data.sends.done)")
        assert done == of.done_ns.tolist()
        for chunk in of.chunk[rows].tolist():
            page.evaluate(f"AT.report.keep({chunk})")
            lit = page.evaluate("AT.report.timeline.shown().highlighted.map((bar) => AT.data.bars.message[bar])")
            with_chunk = np.unique(of.message_of[of.chunk == chunk])
            assert sorted(lit) == sorted(use.message[np.isin(use.message, with_chunk)].tolist())
        assert page.evaluate(f"AT.synthesis.chunksOf(AT.data, {several})").startswith("chunks ")


def test_sums_are_said_where_they_are_made(running, tmp_path):
    of = one_shot(topology(("FullyConnected", 4, 50.0, 500.0)), 1 << 16, reduce_bandwidth_gbps=10.0)
    additions, ends = of.additions, of.addition_end_ns
    with opened(running, page_of(of, tmp_path / "page.html")) as page:
        assert page.evaluate("() => AT.report.timeline.shown().view.t1") == of.collective_time_ns
        for npu in range(4):
            page.evaluate(f"AT.report.showNpu({npu})")
            held = page.evaluate(f"AT.synthesis.held(AT.data, {npu})")
            made = [(row["chunk"], row["time"]) for row in held if row["from"] == npu]
            own = np.flatnonzero(additions.npu == npu)
            assert sorted(made) == sorted(zip(of.sums.chunk[additions.value[own]].tolist(), ends[own].tolist(), strict=True))
            assert {row["what"] for row in held if row["from"] == npu} == {"adds up the whole sum"}
            got = [row["what"] for row in held if row["from"] not in (None, npu)]
            assert sorted(got) == sorted(f"contribution of NPU {src}" for src in of.src[of.dst == npu].tolist())
        assert "receives 12 sends; it adds up 4 sums" in page.locator("#npu").inner_text()
