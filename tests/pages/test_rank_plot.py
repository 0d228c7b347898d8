"""Replays as figures: every rank's time is covered by what it does, before and after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.figures import check_nothing_is_cut, check_same_bytes, drawn
from helpers.recordings import random_recording
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb

from astra_tacos.pages.figure import timeline_plot
from astra_tacos.pages.figure.timeline_plot import draw_rank_timeline
from astra_tacos.pages.rank_states import STATES, find_segments
from astra_tacos.pages.style import WIDTHS, time_unit


def recording(ranks=4):
    """Rank r computes for 100 + r, communicates for 400 before and 150 after, both for 50, then computes for another 10."""
    made, rank = random_recording(ranks, 3, both=True), np.arange(ranks)

    def replay(slowness):
        issue = np.stack((0 * rank, 100 + rank, 50 + rank + slowness), axis=1).ravel()
        end = np.stack((100 + rank, 100 + rank + slowness, 110 + rank + slowness), axis=1).ravel()
        return replace(made.after, finish_ns=110 + rank + slowness, compute_ns=160 + 0 * rank, issue_ns=issue, end_ns=end)

    return replace(made, before=replay(400), after=replay(150))


def test_bars_are_what_ranks_do():
    made = recording()
    figure = drawn(draw_rank_timeline, made)
    scale = time_unit(made.before.run_end_ns / 20)[1]
    assert len(figure.axes) == 2
    for axes, slowness in zip(figure.axes, (400, 150), strict=True):
        found = {}
        for bars in axes.collections:
            assert isinstance(bars, PolyCollection)
            for path in bars.get_paths():
                (begin, top), (end, _) = path.vertices.min(axis=0), path.vertices.max(axis=0)
                key = int(top), next(kind.label for kind in STATES if kind.colour == to_hex(bars.get_facecolor()[0]))
                found.setdefault(key, []).append((round(begin * scale), round(end * scale)))
        for rank in range(4):
            ready, over = 100 + rank, 100 + rank + slowness
            assert found[rank, "compute"] == [(0, ready), (over, over + 10)]
            assert found[rank, "exposed communication"] == [(ready, over - 50)]
            assert found[rank, "compute and communication"] == [(over - 50, over)]
        assert len(found) == 12
        assert f"exposed communication {3 + slowness - 50:,} ns" in axes.get_title(loc="left")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [kind.label for kind in STATES[:3]]
    assert figure.axes[0].get_title(loc="left").startswith("before: 513 ns")


def test_many_ranks_become_pixels(monkeypatch):
    monkeypatch.setattr(timeline_plot, "MOST_RANKS", 3)
    made = recording(7)
    figure = drawn(draw_rank_timeline, made)
    after = figure.axes[1]
    assert not after.collections
    image = np.asarray(after.images[0].get_array())
    assert image.shape[0] == 3
    end = made.before.run_end_ns
    edges = np.linspace(0, end, image.shape[1] + 1)
    segments = find_segments(made.nodes, made.after)
    for line, ranks in enumerate(([0, 1, 2], [3, 4], [5, 6])):
        expected = np.ones((image.shape[1], 3))
        for rank, start, stop, state in zip(segments.rank, segments.start_ns, segments.end_ns, segments.state, strict=True):
            if rank in ranks:
                share = np.clip(np.minimum(edges[1:], stop) - np.maximum(edges[:-1], start), 0, None) / np.diff(edges)
                expected -= share[:, None] * (1 - np.array(to_rgb(STATES[state].colour))) / len(ranks)
        assert np.allclose(image[line], expected)
    assert "up to 3 ranks" in figure.legends[0].get_title().get_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off_and_bytes_are_the_same(tmp_path, width):
    made = recording(40)
    check_nothing_is_cut(drawn(draw_rank_timeline, made, width))
    check_same_bytes(tmp_path, draw_rank_timeline, made, width)
