"""One rank of each class is replayed: every rank ends when it does rank by rank, or the replay is refused with the reason."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import numpy as np
import pytest
from helpers.compact_runs import random_compact_run, run_of
from helpers.networks import config

from astra_tacos.replayer import run_replay
from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.backend import BACKENDS, CONGESTION_AWARE, CONGESTION_UNAWARE, PACKET
from astra_tacos.run.compact_run import compact, expand, fixed_dimensions
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.outcome import LinkLoads, RunOutcome
from astra_tacos.run.run import NATIVE
from astra_tacos.run.system import SystemConfig
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import ABSENT
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError

MODELS = tuple(BACKENDS.values())
REASONS = (
    "messages come to one link",
    "messages of one size and tag begin or end between two ranks",
    "nodes that take no time end on rank",
    "steps of a native collective let go of others on rank",
    "nodes of a collective become ready on rank",
    "nodes become ready for one slot on rank",
)


NO_CLASSES = "an algorithm such as halvingDoubling gives each rank a part by its number, expected ring or direct"


def assert_equal(some, classes, everyone):
    place = some.lattice.places(np.arange(some.lattice.num_ranks))
    for name in ("finish_ns", "compute_ns", "sent_bytes"):
        assert np.array_equal(getattr(classes, name)[place], getattr(everyone, name))
    trace = some.workload
    rows = np.concatenate([np.arange(trace.rank_first[one], trace.rank_first[one + 1]) for one in place.tolist()])
    assert np.array_equal(classes.node_issue_ns[rows], everyone.node_issue_ns)
    assert np.array_equal(classes.node_finish_ns[rows], everyone.node_finish_ns)
    assert (classes.end_ns, classes.num_messages) == (everyone.end_ns, everyone.num_messages)
    assert everyone.ranks.tolist() == list(range(len(place))) and np.array_equal(place[classes.ranks], np.arange(trace.num_ranks))
    said, all_said = (
        {row.name: row.value for row in outcome.rows() if "link" not in row.name} for outcome in (classes, everyone)
    )
    assert said == all_said
    assert sum(everyone.link_busy_ns.tolist()) == sum(classes.link_busy_ns.tolist()) * (len(place) // trace.num_ranks)


def compared(seed, backend, *options):
    """Replay a random run by classes and rank by rank; why the first alone was refused, None if both agree."""
    whole = expand(random_compact_run(seed, *options))
    try:
        some = compact(whole)
        classes = replay_run(some, backend)
    except AstraTacosError as error:
        try:
            replay_run(whole, backend)
        except AstraTacosError:
            return None
        return str(error)
    assert_equal(some, classes, replay_run(whole, backend))
    return None


def is_explained(reason):
    if NO_CLASSES in reason:
        return True
    return " ns " in reason and any(each in reason for each in REASONS)


@pytest.mark.parametrize("backend", MODELS, ids=str)
@pytest.mark.parametrize("seed", range(60))
def test_classes_end_as_all_ranks_do(seed, backend):
    reason = compared(seed, backend)
    assert reason is None or is_explained(reason)


def test_the_lowest_of_the_nodes_that_become_ready_at_once_may_be_another_on_another_rank():
    """A rank's message ends as one comes to it: where the first is seen first, node 2 is ready with node 3, else after it."""
    rows = [
        (NodeType.COMM_SEND, 0, 4096, 1, 0, ABSENT, 0, NATIVE),
        (NodeType.COMM_RECV, 0, 4096, 7, 0, ABSENT, 0, NATIVE),
        (NodeType.COMP, 2, ABSENT, ABSENT, ABSENT, ABSENT, 0, NATIVE),
        (NodeType.COMP, 2, ABSENT, ABSENT, ABSENT, ABSENT, 0, NATIVE),
    ]
    network = config("Ring 8 50 100")
    run = run_of([rows], np.zeros(1, np.int64), network, SystemConfig("system.json"), {}, [], Random(0))
    columns = replace(run.columns, is_cpu_op=np.zeros(4, np.bool_))
    trace = replace(run.workload, workload=columns, dep_first=np.array([0, 0, 0, 2, 3]), dep=np.array([0, 1, 1]))
    some = replace(run, workload=trace, classes=Lattice((8,), (1,)))
    node_2 = replay_run(expand(some), CONGESTION_AWARE).node_finish_ns.reshape(8, 4)[:, 2]
    assert len(set(node_2.tolist())) == 2
    with pytest.raises(ReplayError, match="ns nodes become ready for one slot on rank 0, in an order that may differ"):
        replay_run(some, CONGESTION_AWARE)


@pytest.mark.parametrize("seed", range(100, 110))
def test_large_runs(seed):
    for backend in BACKENDS.values():
        reason = compared(seed, backend, 1024)
        assert reason is None or is_explained(reason)


def test_few_runs_with_classes_are_refused_on_direct_networks():
    reasons = [compared(seed, backend, 48, ("Ring", "FullyConnected")) for seed in range(60) for backend in BACKENDS.values()]
    with_classes = [reason for reason in reasons if reason is None or NO_CLASSES not in reason]
    assert len(with_classes) >= 0.8 * len(reasons)
    assert sum(reason is not None for reason in with_classes) <= 0.1 * len(with_classes)


def path_times(outcome):
    """Of each node, when it was issued and ended, and when what issued it and what its end came from were."""
    before = [
        np.append(outcome.node_finish_ns, -1)[outcome.node_cause],
        np.append(outcome.node_issue_ns, -1)[outcome.node_origin],
    ]
    columns = (outcome.node_issue_ns, outcome.node_finish_ns, *before)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("backend", MODELS, ids=str)
def test_what_classes_tell_of_a_large_run_is_what_its_ranks_do(backend, monkeypatch):
    by_classes = 0
    for seed in range(100, 130):
        whole = expand(random_compact_run(seed, 1024))
        monkeypatch.setattr(run_replay, "_MANY_RANKS", 1)
        try:
            fast = replay_run(whole, backend, route_loads=True)
        except AstraTacosError:
            continue
        monkeypatch.setattr(run_replay, "_MANY_RANKS", 1 << 60)
        slow = replay_run(whole, backend, route_loads=True)
        for name in (field.name for field in fields(RunOutcome)):
            one, other = getattr(fast, name), getattr(slow, name)
            if name == "loads":
                pairs = [] if one is None else [(getattr(one, each.name), getattr(other, each.name)) for each in fields(one)]
            else:
                pairs = [] if name in ("node_cause", "node_origin") else [(one, other)]
            for left, right in pairs:
                assert np.array_equal(left, right), name
        assert path_times(fast) == path_times(slow)
        by_classes += not np.array_equal(fast.node_origin, slow.node_origin)
    assert by_classes > 0  # what began elsewhere is said to have begun on a representative


def test_links_that_stand_for_others_are_links_of_the_network():
    """Each link of a class has the bytes and the time of the link with these ends in the replay of all ranks."""
    compared_links = 0
    for seed in range(20):
        some = random_compact_run(seed)
        try:
            classes, whole = replay_run(some, CONGESTION_AWARE), replay_run(expand(some), CONGESTION_AWARE)
        except AstraTacosError:
            continue
        ends = zip(whole.link_src.tolist(), whole.link_dst.tolist(), strict=True)
        figures = zip(whole.link_bytes.tolist(), whole.link_busy_ns.tolist(), strict=True)
        of_link: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for end, figure in zip(ends, figures, strict=True):
            of_link.setdefault(end, set()).add(figure)
        columns = (classes.link_src, classes.link_dst, classes.link_bytes, classes.link_busy_ns)
        for src, dst, size, busy in zip(*(column.tolist() for column in columns), strict=True):
            assert (size, busy) in of_link[src, dst]
            compared_links += 1
    assert compared_links > 50


@pytest.mark.parametrize("seed", range(20))
def test_bytes_on_routes_are_those_of_all_ranks(seed):
    """Also on the model without links, of every link of the network."""
    some = random_compact_run(seed)
    try:
        classes, whole = (replay_run(each, CONGESTION_UNAWARE, route_loads=True).loads for each in (some, expand(some)))
    except AstraTacosError:
        return
    assert all(np.array_equal(getattr(classes, each.name), getattr(whole, each.name)) for each in fields(LinkLoads))


def test_collectives_that_treat_ranks_by_their_numbers_are_refused():
    """Such ranks end at several times, of which those of representatives are only some."""
    refused = 0
    for seed in range(40):
        some = random_compact_run(seed)
        if some.prefixes or fixed_dimensions(some):
            continue
        tree = replace(some, system=replace(some.system, native=dict.fromkeys(some.system.native, ("doubleBinaryTree",))))
        if fixed_dimensions(tree):
            with pytest.raises(
                ConfigError,
                match=r"an algorithm such as halvingDoubling gives each rank a part by its number, expected a period of",
            ):
                replay_run(tree)
            refused += 1
    assert refused > 5


def test_transmissions_are_refused():
    with pytest.raises(ConfigError, match=r"transmissions of a run with classes, expected the ordinary run \(`expand`\)"):
        replay_run(random_compact_run(0), CONGESTION_AWARE, record_transmissions=True)


def test_packets_are_refused():
    with pytest.raises(ConfigError, match="a compact run on the packet backend, expected congestion-aware or congestion-unaware"):
        replay_run(random_compact_run(0), PACKET)


@pytest.mark.parametrize("seed", range(20))
def test_slow_ranks_take_as_long_as_with_longer_durations(seed):
    """Doubled times are those of traces with doubled durations, of which ranks that are slow by other factors are no classes."""
    run = expand(random_compact_run(seed))
    run = replace(run, system=replace(run.system, roofline_enabled=False))
    chosen = Random(seed).sample(range(run.workload.num_ranks), min(3, run.workload.num_ranks))
    run = replace(run, workload=replace(run.workload, duration_us=run.workload.duration_us * (run.workload.duration_us != 5)))
    slow = np.isin(run.workload.rank, chosen) & (run.workload.kind == NodeType.COMP) & ~run.columns.is_cpu_op
    longer = replace(run, workload=replace(run.workload, duration_us=np.where(slow, 2, 1) * run.workload.duration_us))
    slowed = run.slowed(dict.fromkeys(chosen, 2.0))
    for backend in BACKENDS.values():
        try:
            outcomes = [replay_run(each, backend) for each in (slowed, longer)]
        except ConfigError as error:
            assert "at time 0" in str(error)
            continue
        for name in ("node_issue_ns", "node_finish_ns", "compute_ns"):
            assert np.array_equal(*(getattr(outcome, name) for outcome in outcomes))
    with pytest.raises(ConfigError, match="slower than others"):
        compact(slowed)
    with pytest.raises(ConfigError, match="found rank -1, expected one below"):
        run.slowed({-1: 2.0})
