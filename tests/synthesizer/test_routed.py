"""Routed: loads of links, groups with relays, and the figures that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples, refused
from helpers.naive_schedule import computes_collective
from helpers.networks import ALL, graph, topologies, topology
from helpers.schedules import changed, check, columns, root_of, schedule
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from astra_tacos.bounds import lower_bound
from astra_tacos.bounds.port import fewest_crossings
from astra_tacos.collective import COLLECTIVES, ROOTED, UNEQUAL, make_collective
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.schedule.joint import join
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.timing import LINK_MODELS, compute_timing
from astra_tacos.support.errors import SynthesisError
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.algorithms.routed import BUSY_SHARE, routed, send_graph_along_route, together
from astra_tacos.synthesizer.parts.dispatch import dispatch
from astra_tacos.synthesizer.parts.mirror import justify
from astra_tacos.synthesizer.routing.paths import find_paths
from astra_tacos.synthesizer.routing.tree_growth import grow_trees
from astra_tacos.verifier.schedule_oracle import verify, verify_together

GIB = 1 << 30


@pytest.mark.parametrize(
    "blocks, optimum_ms, margin",
    [
        ("Ring 8, Ring 8", 20.0, 1.03),
        ("Mesh 8, Mesh 8", 40.0, 1.015),
        ("Ring 4, Ring 4", 10.0, 1.13),
        ("Mesh 4, Mesh 4", 20.0, 1.01),
        ("Switch 16", 18.75, 1.01),
        ("FullyConnected 8", 2.5, 1.01),
        ("Ring 4, Ring 4, Ring 4", 10.0, 1.05),
    ],
)
def test_all_to_all_is_near_its_optimum(blocks, optimum_ms, margin):
    """1 GiB per NPU at one chunk for each pair; the margin is about a chunk on the busiest link."""
    network = topology(blocks)
    what = make_collective("all-to-all", network.num_npus, GIB)
    of = routed(Problem(network, what, compute_timing(network, what, "blocking")), 0)
    assert verify(of) == ()
    assert optimum_ms * 1e6 * 0.999 <= of.collective_time_ns <= optimum_ms * 1e6 * margin


@pytest.mark.parametrize("blocks", ["Ring 6", "Ring 4, Ring 6", "Ring 4, Ring 4, Ring 4"])
def test_tori_are_loaded_evenly_by_shortest_ways(blocks):
    network = topology(blocks)
    what = make_collective("all-to-all", network.num_npus, GIB, 2)
    timing = compute_timing(network, what, "pipelined")
    paths = find_paths(Problem(network, what, timing), 0)
    chunk_ns = timing.link_hold_ns.max()
    for dimension in range(network.link_dimension.max() + 1):
        loads = paths.link_ns[network.link_dimension == dimension]
        assert np.ptp(loads) <= 3 * chunk_ns
    assert paths.link_ns.sum() <= 1.001 * chunk_ns * fewest_crossings(network, what)


def test_the_busiest_link_is_the_best_of_all_paths():
    """Two NPUs with a short and a long way between them: by brute force over how many chunks take which."""
    network = graph("0 1 50 0, 0 2 25 0, 2 1 25 0, 1 0 50 0, 1 2 50 0, 2 0 50 0")
    what = make_collective("scatter", 3, 3 * GIB, 6, 0)
    timing = compute_timing(network, what, "pipelined")
    fast, slow = timing.link_hold_ns.min(), timing.link_hold_ns.max()
    best = min(max((6 - around + second) * fast, (around + 6 - second) * slow) for around in range(7) for second in range(7))
    assert find_paths(Problem(network, what, timing), 0).link_ns.max() <= best


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
@examples(10)
@given(network=topologies(12), data=st.data())
def test_groups_with_relays(collective, network, data):
    if network.num_npus < 3:
        return
    npus = st.integers(0, network.num_npus - 1)
    members = sorted(data.draw(st.sets(npus, min_size=2, max_size=network.num_npus - 1)))
    root = root_of(data, collective, members)
    of = schedule(
        network,
        collective,
        data.draw(st.sampled_from((1 << 20, 100_003))),
        data.draw(st.integers(1, 3)),
        root,
        members,
        link_model=data.draw(st.sampled_from(LINK_MODELS)),
        reduce_bandwidth_gbps=data.draw(st.sampled_from((0.0, 10.0))),
        seed=data.draw(st.integers(0, 100)),
    )
    assert computes_collective(check(of))
    assert of.num_sends >= of.collective.least_sends


@pytest.mark.parametrize("collective", sorted(COLLECTIVES))
def test_members_that_have_no_link_to_one_another_use_relays(collective):
    of = schedule(topology(*ALL["ring8"]), collective, 1 << 20, 2, None, [0, 2, 5])
    assert verify(of) == ()
    assert {1, 3, 4, 6, 7} & {*of.src.tolist(), *of.dst.tolist()}
    for row in range(of.num_sends):
        assert verify(changed(of, **{name: np.delete(column, row) for name, column in columns(of).items()})), row
        mutant = changed(of, reduces=of.reduces ^ (np.arange(of.num_sends) == row))
        # A copy into a relay, which has nothing to add, is as good as a reduction.
        assert verify(mutant) or computes_collective(mutant), row


def test_a_member_fewer_is_missed():
    """What a smaller group needs is not enough for a larger one."""
    of = schedule(topology(*ALL["torus"]), "all-reduce", 1 << 20, 1, None, [0, 5, 7])
    larger = make_collective("all-reduce", 12, 1 << 20, 1, None, [0, 5, 7, 9])
    sizes = replace(larger, chunk_size_bytes=of.collective.chunk_size_bytes, chunk_owner=of.collective.chunk_owner)
    assert "incomplete" in {violation.code for violation in verify(replace(of, collective=sizes))}


def test_others_refuse_groups():
    network = topology(*ALL["ring8"])
    for name, entry in SYNTHESIZERS.items():
        if not entry.does_groups:
            for collective in entry.collectives - UNEQUAL.keys():
                with refused(r"is for all 8 NPUs, not for 3 of them|expected a", SynthesisError):
                    schedule(network, collective, 1 << 20, 1, None, [0, 2, 5], synthesizer=name)


def _best_stars(members, helpers):
    """Least load of a port of one switch, in buffers, over all mixes of stars through members and idle NPUs: by LP."""
    npus = members + helpers
    # What a chunk puts on the up-link of each NPU (row) if it is summed up and spread by each NPU (column); same for down-links.
    load = np.zeros((npus, npus))
    for hub in range(npus):
        load[:members, hub] = 1
        load[hub, hub] = members - (hub < members)
    found = linprog(
        [*[0] * npus, 1], np.hstack((load, -np.ones((npus, 1)))), np.zeros(npus), [[*[1] * npus, 0]], [1], bounds=(0, None)
    )
    return float(found.fun)


@pytest.mark.parametrize("members, helpers", [(4, 0), (4, 1), (4, 2), (4, 4), (3, 5), (8, 4), (16, 4)])
def test_idle_npus_of_a_switch_serve_parameters(members, helpers):
    """They take the share of chunks that a linear programme gives them; its optimum is known in closed form (BytePS)."""
    best = _best_stars(members, helpers)
    closed = 2 * members * (members - 1) / (members**2 + helpers * members - 2 * helpers)
    assert best == pytest.approx(max(closed, 1))
    network = topology(f"Switch {members + helpers} 100")
    what = make_collective("all-reduce", network.num_npus, 64 << 20, 256 // members, members=range(members))
    timing = compute_timing(network, what, "pipelined")
    load = grow_trees(Problem(network, what, timing), 0, free_roots=True).link_ns.max() / (
        what.num_chunks * timing.link_hold_ns.max()
    )
    assert best * 0.99 <= load <= best * 1.02


@examples(20)
@given(network=topologies(16), data=st.data())
def test_idle_roots_are_legal_and_never_cost_time(network, data):
    """Of tori, meshes, switches and products: no branch of a tree is in vain, the oracle passes the sends, and none is slower."""
    if network.num_npus < 3:
        return
    npus = st.integers(0, network.num_npus - 1)
    members = sorted(data.draw(st.sets(npus, min_size=2, max_size=network.num_npus - 1)))
    what = make_collective("all-reduce", network.num_npus, 1 << 20, data.draw(st.integers(1, 4)), members=members)
    timing = compute_timing(network, what, data.draw(st.sampled_from(LINK_MODELS)), data.draw(st.sampled_from((0.0, 10.0))))
    seed = data.draw(st.integers(0, 100))
    without, moved = (grow_trees(Problem(network, what, timing), seed, free_roots=free_roots) for free_roots in (False, True))
    _check_trees(network, members, moved)
    of = routed(Problem(network, what, timing), seed)
    assert verify(of) == ()
    for route in (without, moved):
        sends = send_graph_along_route(Problem(network, what, timing), route)
        for share in (BUSY_SHARE, np.inf) if network.has_switches else (BUSY_SHARE,):
            one = justify(dispatch(Problem(network, what, timing), sends, "routed", seed, share), share)
            assert verify(one) == ()
            assert of.collective_time_ns <= one.collective_time_ns


def _check_trees(network, members, packing):
    """Trees reach all members from their roots; leaves, and roots that get sums from one NPU only, are members."""
    for kind, is_sum in enumerate(packing.inward.tolist()):
        near, far = (network.channel_dst, network.channel_src) if is_sum else (network.channel_src, network.channel_dst)
        for root, row in zip(packing.root.tolist(), packing.channel[kind], strict=True):
            joined = np.flatnonzero(row >= 0)
            assert np.array_equal(far[row[joined]], joined)
            parent = dict(zip(joined.tolist(), near[row[joined]].tolist(), strict=True))
            assert root not in parent
            assert {*members} <= {root, *parent}
            for npu in parent:
                steps = 0
                while npu != root:
                    npu, steps = parent[npu], steps + 1
                    assert steps <= network.num_npus
            children = [list(parent.values()).count(npu) for npu in range(network.num_npus)]
            assert all(children[npu] for npu in parent if npu not in members)
            assert not is_sum or root in members or children[root] >= 2


@pytest.mark.parametrize(
    "blocks",
    [
        "Switch 8 150 300, Switch 4 12.5 1000",
        "Switch 16 150 300, Switch 2 12.5 1000",
        "Ring 2 200 50, FullyConnected 3 100 250, Switch 5",
    ],
)
def test_more_chunks_do_not_make_a_broadcast_on_hierarchies_slower(blocks):
    network = topology(blocks)
    times = []
    for chunks in (1, 8, 64, 256):
        what = make_collective("broadcast", network.num_npus, 64 << 20, chunks, 0)
        timing = compute_timing(network, what, "pipelined")
        times.append(routed(Problem(network, what, timing), 0).collective_time_ns)
    assert times == sorted(times, reverse=True)
    assert times[-1] <= 1.45 * lower_bound(Problem(network, what, timing)).time_ns


TORUS = topology("Ring 4, Ring 4")


@examples(20)
@given(network=topologies(12), data=st.data())
def test_any_groups_at_once(network, data):
    collectives = []
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(COLLECTIVES)))
        members = sorted(data.draw(st.sets(st.integers(0, network.num_npus - 1), min_size=2)))
        root = members[-1] if name in ROOTED else None
        size, chunks = data.draw(st.sampled_from((1 << 20, 100_003))), data.draw(st.integers(1, 2))
        collectives.append(make_collective(name, network.num_npus, size, chunks, root, members))
    schedules = together(network, collectives, data.draw(st.sampled_from(LINK_MODELS)), data.draw(st.sampled_from((0.0, 10.0))))
    assert verify_together(schedules) == ()
    assert [each.collective for each in schedules] == collectives
    joint = join(schedules)
    assert replay_schedule(joint).collective_time_ns == joint.collective_time_ns


def test_what_meets_on_a_link_is_found():
    what = [make_collective("all-gather", 16, 1 << 20, 2, None, group) for group in ([0, 1, 2, 3], [0, 4, 8, 12])]
    first, second = together(TORUS, what, "pipelined")
    assert verify_together((first, second)) == ()
    late = changed(second, start_ns=second.start_ns + 1, end_ns=second.end_ns + 1)
    assert verify(late) == ()
    shared = np.intersect1d(first.channel, second.channel)
    if len(shared):
        assert verify_together((first, late)) != ()


def test_bad_arguments():
    with refused("found collectives on \\[\\] NPUs"):
        together(TORUS, [], "blocking")
    with refused("found collectives on \\[4, 16\\] NPUs"):
        together(TORUS, [make_collective("all-gather", npus, 1 << 20) for npus in (4, 16)], "blocking")
