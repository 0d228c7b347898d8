"""Networks as figures: a curve for every link in the colour of its value, groups with means where there are too many."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from helpers import networks
from helpers.examples import some_of
from helpers.figures import check_nothing_is_cut, check_same_bytes, drawn
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex

from astra_tacos import LinkSpec, all_reduce, build_topology, synthesize
from astra_tacos.network.fabric.kinds import make_fabric
from astra_tacos.pages.figure.topology_plot import draw_topology
from astra_tacos.pages.style import WIDTHS, save_figure
from astra_tacos.pages.topology_groups import MOST_DEVICES, MOST_LINKS, group
from astra_tacos.pages.topology_layout import layout

B = (50.0, 500.0)
LARGE = {
    "torus": (("Ring", 48, *B), ("Ring", 40, *B)),
    "hierarchy": (("Ring", 8, 200.0, 1.0), ("FullyConnected", 4, 100.0, 1.0), ("Switch", 30, *B)),
    "full": (("FullyConnected", 60, *B),),
    "switch": (("Switch", 700, *B),),
    "switches": (("Switch", 16, 300.0, 1.0), ("Switch", 40, *B)),
    "mesh": (("Mesh", 1000, *B),),
}


def links_of(figure):
    (lines,) = [c for c in figure.axes[0].collections if isinstance(c, LineCollection) and c.get_array() is not None]
    return lines


def failed_of(figure):
    return [c for c in figure.axes[0].collections if isinstance(c, LineCollection) and c.get_array() is None]


def texts_of(figure):
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize("name", networks.ALL)
def test_every_link_and_device_is_drawn(name):
    topology = networks.topology(*networks.ALL[name])
    figure = drawn(draw_topology, topology)
    lines = links_of(figure)
    assert len(lines.get_segments()) == topology.num_links
    assert sorted(lines.get_array().tolist()) == sorted(topology.link_bandwidth_gibps.tolist())
    dots = [len(c.get_offsets()) for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    assert dots == [count for count in (topology.num_npus, topology.num_switches) if count]
    for number, dimension in enumerate(topology.dimensions):
        assert (
            f"{number}: {dimension.block} {dimension.size}, {dimension.bandwidth_gibps:g} GiB/s, {dimension.latency_ns:g} ns"
            in texts_of(figure)
        )


def test_curves_lead_from_device_to_device():
    topology = networks.topology(*networks.MIXED, link_overrides=(LinkSpec(0, 1, 5.0, None),))
    figure = drawn(draw_topology, topology)
    lines, places = links_of(figure), layout(topology)
    order = np.argsort(topology.link_bandwidth_gibps, kind="stable")
    assert order[0] == 0 and lines.get_array()[0] == 5.0
    for segment, link in zip(lines.get_segments(), order, strict=True):
        ends = places.positions[[topology.link_src[link], topology.link_dst[link]]]
        assert np.abs(segment[[0, -1]] - ends).max() < 0.3 * places.spacing


FAILED = ((0, 1), (1, 0), (5, 0), (7, 13))


@pytest.mark.parametrize("blocks", [(("Ring", 6, *B), ("Ring", 5, *B)), (("Mesh", 6, *B), ("Switch", 5, *B))])
def test_failed_links_are_dashed_and_red(blocks):
    whole = networks.topology(*blocks)
    there = set(zip(whole.link_src.tolist(), whole.link_dst.tolist(), strict=True))
    gone = [pair for pair in (*FAILED, (8, whole.num_npus)) if pair in there]
    topology = networks.topology(*blocks, failed_links=tuple(gone))
    figure, places = drawn(draw_topology, topology), layout(whole)
    assert len(links_of(figure).get_segments()) == whole.num_links - len(gone)
    (lines,) = failed_of(figure)
    assert {to_hex(colour) for colour in lines.get_edgecolor()} == {"#cc3311"}
    assert all(dashes for _, dashes in lines.get_linestyle())
    ends = sorted(
        np.abs(places.positions[:, None] - segment[[0, -1]]).sum(axis=2).argmin(axis=0).tolist()
        for segment in lines.get_segments()
    )
    assert ends == sorted(map(list, gone))
    assert f"failed links: {len(gone)} (dashed)" in texts_of(figure)
    assert not failed_of(drawn(draw_topology, whole))


def test_failed_links_of_a_large_network_are_counted():
    topology = networks.topology(("Ring", 48, *B), ("Ring", 40, *B), failed_links=((0, 1), (1, 0)))
    figure = drawn(draw_topology, topology)
    assert not failed_of(figure)
    assert "failed links: 2" in texts_of(figure)


def test_utilisation_is_that_of_the_sends():
    topology = networks.topology(*networks.MIXED)
    schedule = synthesize(topology, all_reduce(topology.num_npus, 1 << 20, 2), synthesizer="tacos", link_model="blocking")
    busy = defaultdict(int)
    for src, dst, start, end in zip(schedule.src, schedule.dst, schedule.start_ns, schedule.end_ns, strict=True):
        channel = int(topology.channel_of(np.array([src]), np.array([dst]))[0])
        for link in (topology.channel_link[channel], topology.channel_down_link[channel]):
            if link >= 0:
                busy[int(link)] += int(end - start)
    expected = np.array([busy[link] for link in range(topology.num_links)]) / schedule.collective_time_ns
    figure = drawn(draw_topology, topology, busy=schedule.link_busy_ns / schedule.collective_time_ns)
    lines = links_of(figure)
    assert np.allclose(lines.get_array(), np.sort(expected))
    shades = lines.get_cmap()(lines.norm(np.sort(expected)))
    assert np.allclose(lines.get_edgecolor(), shades)
    for index, dimension in enumerate(topology.dimensions):
        mean = np.mean([expected[link] for link in range(topology.num_links) if topology.link_dimension[link] == index])
        facts = f"{dimension.block} {dimension.size}, {dimension.bandwidth_gibps:g} GiB/s, {mean:.0%} busy"
        assert f"{index}: {facts}" in texts_of(figure)


def test_every_bandwidth_has_a_colour_of_its_own():
    figure = drawn(draw_topology, networks.topology(*networks.HIERARCHY))
    assert [label.get_text() for label in figure.axes[1].get_xticklabels()] == ["50", "100", "200"]
    assert len({tuple(colour) for colour in links_of(figure).get_edgecolor().tolist()}) == 3
    many = networks.graph(*((a, b, 10.0 + a + 7 * b, 1.0) for a in range(6) for b in range(6) if a != b))
    figure = drawn(draw_topology, many)
    assert len({tuple(colour) for colour in links_of(figure).get_edgecolor().tolist()}) > 8


def coarse(topology, few):
    """Coordinates of the group of every NPU, one by one."""
    places = []
    for npu in range(topology.num_npus):
        place, rest = [], npu
        for dimension, size in zip(topology.dimensions, few, strict=True):
            place.append(rest % dimension.size * size // dimension.size)
            rest //= dimension.size
        places.append(tuple(place))
    return places


@pytest.mark.parametrize("name", LARGE)
def test_large_networks_are_drawn_by_groups_with_the_means_of_their_links(name):
    topology = networks.topology(*LARGE[name])
    grouped = group(topology)
    small = grouped.topology
    assert small.num_devices <= MOST_DEVICES and small.num_links <= MOST_LINKS
    few = [1] * len(topology.dimensions)
    for index, number in enumerate(grouped.dimension.tolist()):
        if number >= 0:
            few[index] = small.dimensions[number].size
    assert small.num_npus == np.prod(few)
    places = coarse(topology, few)
    values = np.random.default_rng(1).uniform(size=topology.num_links)
    switch_dimension = {}
    for link in range(topology.num_links):
        for device in (int(topology.link_src[link]), int(topology.link_dst[link])):
            if device >= topology.num_npus:
                switch_dimension[device] = int(topology.link_dimension[link])
    members = defaultdict(set)
    for src, dst in zip(topology.link_src.tolist(), topology.link_dst.tolist(), strict=True):
        if dst >= topology.num_npus:
            members[dst].add(places[src])

    def named(device):
        return places[device] if device < topology.num_npus else (switch_dimension[device], frozenset(members[device]))

    kept = defaultdict(list)
    inside = 0
    for link in range(topology.num_links):
        ends = named(int(topology.link_src[link])), named(int(topology.link_dst[link]))
        is_inside = ends[0] == ends[1] or few[topology.link_dimension[link]] == 1
        assert is_inside == (grouped.link[link] < 0)
        if is_inside:
            inside += 1
        else:
            kept[int(topology.link_dimension[link]), *ends].append(values[link])
    assert len(kept) == small.num_links
    assert np.allclose(np.sort(grouped.mean(values)), np.sort([np.mean(of) for of in kept.values()]))
    figure = drawn(draw_topology, topology)
    assert len(links_of(figure).get_segments()) == small.num_links
    said = " ".join(texts_of(figure))
    assert f"groups of up to {max(places.count(place) for place in set(places)):,} NPUs" in said
    assert f"{inside:,} of {topology.num_links:,} links inside groups" in said
    assert f"means of up to {max(map(len, kept.values())):,} links" in said


@pytest.mark.parametrize(("name", "width"), some_of([*itertools.product([*networks.ALL, *LARGE], WIDTHS)], 11))
def test_nothing_is_cut_off(name, width):
    topology = networks.topology(*(networks.ALL | LARGE)[name])
    check_nothing_is_cut(drawn(draw_topology, topology, width))
    busy = np.linspace(0, 1, topology.num_links)
    check_nothing_is_cut(drawn(draw_topology, topology, width, busy))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_same_network_gives_the_same_bytes(tmp_path, width):
    topology = networks.dgx1()
    check_same_bytes(tmp_path, draw_topology, topology, width, np.linspace(0, 1, topology.num_links))


def test_dollars_in_a_name_are_no_formula(tmp_path):
    """Between two of them matplotlib would set a formula, or fail."""
    topology = replace(networks.dgx1(), name=r"2$ \frac{x$")
    save_figure(tmp_path / "odd.svg", lambda: draw_topology(topology))
    assert any(r"2$ \frac{x$" in text for text in texts_of(drawn(draw_topology, topology)))


def test_devices_that_forward_have_marks_of_their_kinds():
    topology = build_topology(make_fabric("dgx-a100", nodes=2), may_forward=True)
    figure = drawn(draw_topology, topology)
    kinds = Counter(device.kind for device in topology.forwarding)
    dots = [len(c.get_offsets()) for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    assert dots == [topology.num_endpoints, kinds["switch"], kinds["nic"]]
    texts = " ".join(texts_of(figure))
    assert "16 NPUs, 36 forwarding devices" in texts
    assert "52 NPUs" not in texts
    assert "squares: switches; diamonds: NICs" in " ".join(texts.split())


def test_groups_of_a_large_fabric_keep_kinds_apart():
    topology = build_topology(make_fabric("rails", nodes=48), may_forward=True)
    grouped = group(topology)
    assert grouped.topology.num_devices <= MOST_DEVICES
    assert {device.kind for device in grouped.topology.forwarding} == {"switch"}
    assert 1 < grouped.npus <= topology.num_endpoints // grouped.topology.num_endpoints * 4
    bandwidth = grouped.mean(topology.link_bandwidth_gibps)
    assert set(np.unique(bandwidth).round(6)) <= set(np.unique(topology.link_bandwidth_gibps).round(6))
    assert any(f"groups of up to {grouped.npus}" in text for text in texts_of(drawn(draw_topology, topology)))
