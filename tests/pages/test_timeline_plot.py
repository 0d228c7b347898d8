"""Timelines of schedules: every send has its bar, pixels show the right shares, a chunk's tree is all there."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import networks
from helpers.examples import some_of
from helpers.figures import check_nothing_is_cut, check_same_bytes, drawn
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex, to_rgb

from astra_tacos import ConfigError, all_reduce, synthesize
from astra_tacos.pages import links_over_time
from astra_tacos.pages.figure import timeline_plot
from astra_tacos.pages.figure.timeline_plot import draw_timeline
from astra_tacos.pages.links_over_time import bars_of, link_rows
from astra_tacos.pages.style import COPY, FORMATS, REDUCE, WIDTHS, save_figure, time_unit

BLUE, RED = REDUCE.colour, COPY.colour


def made(dimensions, chunks=2, link_model="blocking"):
    topology = networks.topology(*dimensions)
    what = all_reduce(topology.num_npus, 1 << 20, chunks)
    return synthesize(topology, what, synthesizer="tacos", link_model=link_model)


@functools.cache
def links_of(topology):
    """The ends of all links."""
    return list(zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True))


def naive_link_of_send(schedule, send):
    """Ends of the first link that a send uses, by looking for its NPUs among the links."""
    topology = schedule.topology
    src, dst = int(schedule.src[send]), int(schedule.dst[send])
    links = links_of(topology)
    if (src, dst) in links:
        return src, dst
    switches = range(topology.num_npus, topology.num_devices)
    shared = [device for device in switches if (src, device) in links and (device, dst) in links]
    assert len(shared) == 1
    return src, shared[0]


@pytest.mark.parametrize("name", ["ring8", "mesh", "switch", "mixed"])
@pytest.mark.parametrize("link_model", ["blocking", "pipelined"])
def test_every_send_is_a_bar_on_its_link_while_that_is_held(name, link_model):
    schedule = made(networks.ALL[name], link_model=link_model)
    topology, timing = schedule.topology, schedule.timing
    rows = link_rows(topology, with_down_links=False)
    figure = drawn(draw_timeline, schedule)
    axes = figure.axes[0]
    scale = time_unit(schedule.collective_time_ns / 20)[1]
    found = {}
    for colour in (BLUE, RED):
        (bars,) = [c for c in axes.collections if isinstance(c, PolyCollection) and to_hex(c.get_facecolor()[0]) == colour]
        found[colour] = sorted(
            (round(path.vertices[:, 0].min() * scale), round(path.vertices[:, 0].max() * scale), int(path.vertices[:, 1].min()))
            for path in bars.get_paths()
        )
    expected = {BLUE: [], RED: []}
    for send in range(schedule.num_sends):
        ends = naive_link_of_send(schedule, send)
        link = links_of(topology).index(ends)
        size_class = schedule.collective.chunk_class[schedule.chunk[send]]
        start = int(schedule.start_ns[send])
        end = int(schedule.end_ns[send]) if link_model == "blocking" else start + int(timing.link_hold_ns[link, size_class])
        expected[BLUE if schedule.reduces[send] else RED].append((start, end, int(rows.row[link])))
    assert found == {colour: sorted(bars) for colour, bars in expected.items()}
    assert sum(map(len, found.values())) == schedule.num_sends


def test_links_are_grouped_by_dimension():
    topology = networks.topology(*networks.MIXED)
    rows = link_rows(topology, with_down_links=False)
    assert [(group.name, group.facts) for group in rows.groups] == [
        ("Ring 2", "200 GiB/s"),
        ("FullyConnected 3", "100 GiB/s"),
        ("Switch 4", "50 GiB/s"),
    ]
    assert rows.groups[1].label == "dimension 1: FullyConnected 3"
    assert [group.count for group in rows.groups] == [24, 48, 24]
    for index, group in enumerate(rows.groups):
        own = rows.link[group.first : group.first + group.count]
        assert set(topology.link_dimension[own].tolist()) == {index}
        assert topology.link_src[own].max() < topology.num_npus
        assert np.all(np.diff(topology.link_src[own]) >= 0)
    graph = link_rows(networks.dgx1(), with_down_links=False)
    assert [(group.label, group.count) for group in graph.groups] == [("50 GiB/s", 16), ("25 GiB/s", 16)]


def naive_coverage(line, start, end, shape):
    covered = np.zeros(shape)
    for which in range(len(line)):
        for at in range(shape[1]):
            covered[line[which], at] += max(0.0, min(end[which], at + 1) - max(start[which], at))
    return covered


@pytest.mark.parametrize(("lines", "bins"), [(24, 50), (7, 11), (1, 1)])
def test_shares_of_time_are_those_of_the_bars(lines, bins):
    schedule = made(networks.TORUS)
    rows = link_rows(schedule.topology, with_down_links=False)
    lines = min(lines, rows.num_rows)
    bars = bars_of(schedule, rows)
    scale = bins / schedule.collective_time_ns
    line = bars.row * lines // rows.num_rows
    per_line = np.bincount(np.arange(rows.num_rows) * lines // rows.num_rows)[:, None]
    for kind, found in enumerate(bars.shares(2, rows.num_rows, (lines, bins), schedule.collective_time_ns)):
        own = bars.kind == kind
        expected = naive_coverage(line[own], bars.start_ns[own] * scale, bars.end_ns[own] * scale, (lines, bins))
        assert np.allclose(found, expected / per_line)


def test_many_sends_become_pixels(monkeypatch):
    schedule = made(networks.TORUS)
    monkeypatch.setattr(links_over_time, "MOST_BARS", 10)
    monkeypatch.setattr(timeline_plot, "MOST_ROWS", 16)
    figure = drawn(draw_timeline, schedule)
    axes = figure.axes[0]
    assert not axes.collections
    image = np.asarray(axes.images[0].get_array())
    rows = link_rows(schedule.topology, with_down_links=False)
    shape = (16, image.shape[1])
    reduce, copy = bars_of(schedule, rows).shares(2, rows.num_rows, shape, schedule.collective_time_ns)
    white = 1 - reduce[:, :, None] * (1 - np.array(to_rgb(BLUE))) - copy[:, :, None] * (1 - np.array(to_rgb(RED)))
    assert np.allclose(image, white)
    assert f"{schedule.num_sends:,} sends" in figure.legends[0].get_title().get_text()
    assert "3 links" in figure.legends[0].get_title().get_text()


def test_a_chunk_stands_out_with_its_tree():
    schedule = made(networks.MIXED)
    chunk = 5
    own = sorted(np.flatnonzero(schedule.chunk == chunk).tolist(), key=lambda send: int(schedule.start_ns[send]))
    figure = drawn(draw_timeline, schedule, chunk=chunk)
    axes = figure.axes[0]
    strong = [c for c in axes.collections if isinstance(c, PolyCollection) and to_hex(c.get_facecolor()[0]) in (BLUE, RED)]
    assert sum(len(c.get_paths()) for c in strong) == len(own)
    expected = 0  # a copy is passed on from the last copy that came, a sum from all that was added to it
    for send in own:
        before = [s for s in own if schedule.dst[s] == schedule.src[send] and schedule.done_ns[s] <= schedule.start_ns[send]]
        copies = [s for s in before if not schedule.reduces[s]]
        expected += 1 if copies else len(before)
    (tree,) = [c for c in axes.collections if isinstance(c, LineCollection) and len(c.get_segments()) > 1]
    assert len(tree.get_segments()) == expected > len(own) / 2
    assert f"chunk 5: {len(own)} sends" in figure.get_suptitle()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["reduce", "copy", "other chunks"]


@pytest.mark.parametrize(("name", "width"), some_of([*itertools.product(["ring8", "mixed", "switches"], WIDTHS)], 3))
def test_nothing_is_cut_off(name, width):
    schedule = made(networks.ALL[name])
    for chunk in (None, 1):
        check_nothing_is_cut(drawn(draw_timeline, schedule, width, chunk))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_same_schedule_gives_the_same_bytes(tmp_path, width, monkeypatch):
    schedule = made(networks.MIXED)
    monkeypatch.setattr(links_over_time, "MOST_VECTOR_BARS", 100)  # bars as pixels, the tree as lines
    check_same_bytes(tmp_path, draw_timeline, schedule, width, chunk=2)


def test_what_cannot_be_drawn(tmp_path):
    schedule = made(networks.RING8)
    for chunk in (-1, schedule.collective.num_chunks):
        with pytest.raises(ConfigError, match=f"chunk: found {chunk}, expected 0 to 15"):
            save_figure(tmp_path / "x.svg", lambda chunk=chunk: draw_timeline(schedule, chunk=chunk))
    nothing = np.zeros(0, np.int64)
    columns = {
        name: nothing.astype(getattr(schedule, name).dtype) for name in ("chunk", "channel", "reduces", "start_ns", "end_ns")
    }
    with pytest.raises(ConfigError, match="no sends"):
        save_figure(tmp_path / "x.svg", lambda: draw_timeline(replace(schedule, **columns)))
    with pytest.raises(ConfigError, match=r"x.bmp: expected a name that ends in .svg, .pdf, .png"):
        save_figure(tmp_path / "x.bmp", lambda: draw_timeline(schedule))
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_full_disk_is_one_error_in_every_format(suffix, tmp_path):
    """Whichever error matplotlib makes of it."""
    from matplotlib.figure import Figure

    def draw():
        figure = Figure()
        figure.add_subplot().imshow(np.random.default_rng(1).random((300, 300)), interpolation="none")
        return figure

    full = tmp_path / f"figure{suffix}"
    full.symlink_to("/dev/full")
    with pytest.raises(ConfigError, match=r"cannot be written \(No space left on device\)"):
        save_figure(full, draw)
