"""What every building block must hold to, whichever are registered: all that it says agrees with its links."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from helpers.examples import refused
from helpers.networks import sizes_of, topology
from helpers.strange_blocks import STRANGERS

from astra_tacos.network.blocks import ASTRA_SIM_BLOCKS, BUILDING_BLOCKS, building_block
from astra_tacos.network.blocks.building_block import Drawing
from astra_tacos.support.errors import ConfigError

every_block = pytest.mark.parametrize("name", [*BUILDING_BLOCKS, *STRANGERS])
BLOCKS = BUILDING_BLOCKS | STRANGERS
SIZES = [(name, size) for name, block in BLOCKS.items() for size in (2, 3, 4, 5, 8, 9, 16) if block.expected_size(size) is None]
every_size = pytest.mark.parametrize("name, size", SIZES)


@pytest.fixture(autouse=True)
def strangers_are_registered(monkeypatch):
    for name, block in STRANGERS.items():
        monkeypatch.setitem(BUILDING_BLOCKS, name, block)


def links_of(block, size):
    links = block.links(size)
    return list(zip(links.src.tolist(), links.dst.tolist(), strict=True))


def hops_of(name, size):
    """Members and the hops between them; `links` that each crosses. Found from the links alone."""
    graph = networkx.DiGraph(links_of(BLOCKS[name], size))
    hops = networkx.DiGraph()
    for src, dst in itertools.permutations(range(size), 2):
        if graph.has_edge(src, dst):
            hops.add_edge(src, dst, links=1)
        elif any(middle >= size and graph.has_edge(middle, dst) for middle in graph.successors(src)):
            hops.add_edge(src, dst, links=2)
    return hops


def all_pairs(size):
    src, dst = np.indices((size, size)).reshape(2, -1)
    return src, dst


@every_block
def test_names(name):
    assert building_block(name) is BUILDING_BLOCKS[name] and BUILDING_BLOCKS[name].name == name
    assert (name in ASTRA_SIM_BLOCKS) == BUILDING_BLOCKS[name].is_in_astra_sim
    assert sizes_of(name, 50), "every block has small sizes, which tests draw"
    with refused(f"found '{name}s', expected .*{name}"):
        building_block(f"{name}s")


@every_size
def test_links_connect_all_members(name, size):
    block = BUILDING_BLOCKS[name]
    links = links_of(block, size)
    assert len(set(links)) == len(links) == block.num_links(size)
    assert all(src != dst for src, dst in links)
    assert networkx.is_strongly_connected(networkx.DiGraph(links))
    assert {end for pair in links for end in pair} == set(range(size + block.num_switches(size)))
    assert block.links(size).num_switches == block.num_switches(size)
    assert topology((name, size, 1.0, 0.0)).num_channels <= block.estimated_channels(size)
    out = np.bincount([src for src, _ in links if src < size], minlength=size)
    assert out.min() == block.links_per_npu(size)
    for stretches in range(1, size + 1):
        of = [end * stretches // size if end < size else end for end in range(size + block.num_switches(size))]
        between = {(of[src], of[dst]) for src, dst in links if of[src] != of[dst]}
        assert len(between) <= block.most_links_between(size, stretches)


@every_size
def test_routes_are_shortest_and_follow_hops(name, size):
    block, hops = BLOCKS[name], hops_of(name, size)
    shortest = dict(networkx.all_pairs_dijkstra_path_length(hops, weight="links"))
    src, dst = all_pairs(size)
    crossed = block.num_crossed(size, src, dst)
    assert crossed.tolist() == [shortest[a][b] for a, b in zip(src.tolist(), dst.tolist(), strict=True)]
    assert block.fewest_crossed(size) == crossed[src != dst].min()
    following = block.next_member(size, src, dst)
    assert np.array_equal(following[src == dst], dst[src == dst])
    for here, target, after in zip(src.tolist(), dst.tolist(), following.tolist(), strict=True):
        if here != target:
            assert hops[here][after]["links"] + shortest[after][target] == shortest[here][target]
    assert block.hops_through_members or np.array_equal(following, dst)


@every_size
def test_translations_map_links_onto_links_of_their_class(name, size):
    block = BUILDING_BLOCKS[name]
    translations, classes = block.translations(size), block.link_classes(size)
    assert (translations is None) == (classes is None)
    if translations is None or classes is None:
        return
    src, dst = all_pairs(size)
    assert np.array_equal(translations.move(translations.offset(src, dst), src), dst)
    everyone = np.arange(size)
    assert np.array_equal(translations.move(everyone, np.zeros(size, np.int64)), everyone)
    links = dict(zip(links_of(block, size), classes.tolist(), strict=True))
    for number, direction in itertools.product(
        range(classes.max() + 1), (0, 1)
    ):  # every member has one link of a class, on one side at least
        members = [pair[direction] for pair, of in links.items() if of == number and pair[direction] < size]
        assert len(members) in (0, size) and len(set(members)) == len(members)
    for by in range(size):
        image = np.append(translations.move(everyone, np.full(size, by)), np.arange(size, size + block.num_switches(size)))
        assert image[0] == by and sorted(image.tolist()) == list(range(len(image)))
        for (a, b), of in links.items():
            assert links[int(image[a]), int(image[b])] == of


@every_size
def test_spreads_reach_every_member_once_over_hops(name, size):
    block, hops = BLOCKS[name], hops_of(name, size)
    spreads = block.spread(size)
    assert spreads.shape == (2, size, 3, size - 1) and spreads.dtype == np.int32
    for way, owner in itertools.product(range(2), range(size)):
        has = {owner: -1}
        src, dst, step = spreads[way, owner]
        for at in np.argsort(step, kind="stable").tolist():
            assert has[int(src[at])] < step[at] and int(dst[at]) not in has
            assert hops.has_edge(int(src[at]), int(dst[at]))
            has[int(dst[at])] = int(step[at])
        assert len(has) == size


@every_size
def test_tours_go_through_all_members_over_hops(name, size):
    block, hops = BLOCKS[name], hops_of(name, size)
    tour = block.tour(size)
    if tour is None:
        return
    order = tour.order.tolist()
    assert sorted(order) == list(range(size))
    for src, dst in itertools.pairwise([*order, order[0]] if tour.is_closed else order):
        assert hops.has_edge(src, dst)


@every_size
def test_shared_parts_are_blocks(name, size):
    block = BUILDING_BLOCKS[name]
    whole = block.shared_part(size, np.arange(size))
    assert (whole.block, whole.bandwidth, whole.latency) == (name, 1, 1)
    for apart, count in itertools.product(range(1, size), range(2, size + 1)):
        part = block.shared_part(size, np.arange(count) * apart) if (count - 1) * apart < size else None
        if part is not None:
            assert BUILDING_BLOCKS[part.block].expected_size(count) is None
            assert part.bandwidth > 0 and part.latency >= 1


@every_size
def test_stand_ins_are_blocks_of_astra_sim_in_which_neighbours_cost_the_same(name, size):
    block, hops = BLOCKS[name], hops_of(name, size)
    substitute = block.aware_substitute(size)
    if substitute is not None:
        assert substitute in ASTRA_SIM_BLOCKS and set(links_of(BUILDING_BLOCKS[substitute], size)) == set(links_of(block, size))
    stand_in = block.unaware_substitute(size)
    if stand_in is None:
        return
    assert stand_in in ASTRA_SIM_BLOCKS and (stand_in == name) == block.is_in_astra_sim
    for src, dst, links in hops.edges(data="links"):
        assert BUILDING_BLOCKS[stand_in].num_crossed(size, np.array([src]), np.array([dst])).tolist() == [links]


@every_block
def test_a_star_has_one_switch(name):
    block = BUILDING_BLOCKS[name]
    for size in sizes_of(name, 20):
        assert block.num_switches(size) == 1 or block.drawing is not Drawing.STAR


@every_block
def test_sizes_that_a_block_cannot_have_are_refused_in_words(name):
    for size in range(2, 20):
        expected = BUILDING_BLOCKS[name].expected_size(size)
        if expected is None:
            topology((name, size, 1.0, 0.0))
        else:
            with pytest.raises(ConfigError) as refused:
                topology("Ring 2 1 0", (name, size, 1.0, 0.0))
            assert str(refused.value) == f"test.yml: npus_count[1] is {size}, expected {expected} for a {name}"
