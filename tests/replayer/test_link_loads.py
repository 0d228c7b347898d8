"""Loads of links under a model without links: what the model that has them carries on the same run."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.lint_runs import coll, recv, send
from helpers.runs import BYTE_PER_NS, SEVERAL_DIMENSIONS, ending_runs, load_run, make_run

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.support.errors import AstraTacosError

AWARE, UNAWARE = "congestion-aware", "congestion-unaware"


def check(run):
    aware, unaware = replay_run(run, AWARE), replay_run(run, UNAWARE, route_loads=True)
    assert aware.loads is None
    assert unaware.loads is not None
    assert unaware.loads.src.tolist() == aware.link_src.tolist()
    assert unaware.loads.dst.tolist() == aware.link_dst.tolist()
    assert unaware.loads.size_bytes.tolist() == aware.link_bytes.tolist()
    # A link is held for whole nanoseconds by each message, so that sums of messages lose up to one for each.
    lost = unaware.loads.busy_ns - aware.link_busy_ns
    assert (lost >= -1).all()
    assert (lost <= aware.link_bytes // 64 + 1).all()


@pytest.mark.golden_cases("e2e_*")
def test_recorded_runs(golden, golden_case):
    check(load_run(golden / golden_case))


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halvingDoubling", "doubleBinaryTree"])
def test_native_collectives_on_three_dimensions(tmp_path, algorithm):
    """Messages of Direct cross a ring in several hops, and a switch by an up-link and a down-link."""
    system = {f"{key}-implementation": [algorithm] * 3 for key in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")}
    ranks = [[coll(0, size=1 << 20), coll(1, [0], size=1 << 16), coll(2, [1], size=1 << 20)] for _ in range(32)]
    dimensions = (("Ring", 4, 50.0, 100.0), ("Switch", 4, 25.0, 200.0), ("FullyConnected", 2, 10.0, 500.0))
    check(make_run(tmp_path, ranks, *dimensions, system=system))


def test_random_runs(tmp_path):
    compared = 0
    for run in ending_runs(tmp_path, SEVERAL_DIMENSIONS, UNAWARE, 20):
        try:
            aware = replay_run(run, AWARE)
        except AstraTacosError:
            continue
        unaware = replay_run(run, UNAWARE, route_loads=True)
        assert unaware.loads is not None
        if aware.collective.tolist() == unaware.collective.tolist():  # else a group began with another's collective
            assert unaware.loads.size_bytes.tolist() == aware.link_bytes.tolist()
            compared += 1
    assert compared >= 10


def test_a_message_across_two_dimensions(tmp_path):
    """From 0 to 5 on a ring of 3 by a switch of 2: one hop backwards round the ring, then up and down."""
    ranks = [
        [send(0, 5, size=700)],
        *([recv(0, 0, size=700)] if rank == 5 else [coll(9, size=8, group=1)] for rank in range(1, 6)),
    ]
    dimensions = (("Ring", 3, BYTE_PER_NS, 10.0), ("Switch", 2, BYTE_PER_NS / 2, 10.0))
    run = make_run(tmp_path, ranks, *dimensions, groups="'1': [1, 2, 3, 4]")
    loads = replay_run(run, UNAWARE, route_loads=True).loads
    assert loads is not None
    crossed = np.flatnonzero(loads.size_bytes >= 700)
    hops = [(int(loads.src[link]), int(loads.dst[link]), int(loads.dimension[link])) for link in crossed.tolist()]
    assert sorted(hops) == [(0, 2, 0), (2, 8, 1), (8, 5, 1)]
    assert replay_run(run, UNAWARE).loads is None
