"""Parameter servers: theory against linear programme, bound and schedules, and stand-in runs."""

from __future__ import annotations

import pytest
from helpers.examples import examples
from helpers.fabrics import racks
from helpers.networks import topology
from helpers.schedules import check, made_by
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.collective import COLLECTIVES, PERSONALISED, make_collective
from astra_tacos.export.stand_in import stand_in_of
from astra_tacos.replayer.trace_replay import replay_trace
from astra_tacos.solver.devices_that_add import BOX, MIXED, NONE, ONLY_SERVERS, server_rows
from astra_tacos.synthesizer import SYNTHESIZERS
from astra_tacos.synthesizer.algorithms.column_generation import best_shares
from astra_tacos.synthesizer.columns.demand import Demands
from astra_tacos.synthesizer.columns.programme import solve
from astra_tacos.synthesizer.parts.server_shares import (
    colocated,
    dedicated,
    fewest_that_win,
    mixed,
    racks_flat,
    racks_summed,
    server_share,
)

MIB = 1 << 20
SHARES = {(4, 0): 1.5, (4, 1): 1.3333, (4, 2): 1.2, (4, 3): 1.0909, (4, 4): 1.0, (8, 2): 1.4737, (8, 4): 1.2727, (8, 8): 1.0}
SHARES |= {(16, 4): 1.5385, (16, 8): 1.3043}
"""The best shares of `workers, servers`, in S / B."""


@pytest.mark.parametrize("counts, units", SHARES.items())
def test_theory(counts, units):
    assert mixed(*counts) == pytest.approx(units, abs=5e-5)


@pytest.mark.parametrize("counts", [(4, 1), (4, 2), (4, 3), (4, 4), (8, 2), (8, 4)])
def test_the_programme_finds_the_best_shares(counts):
    workers, servers = counts
    on = topology(f"Switch {workers + servers} 100")
    what = make_collective("all-reduce", workers + servers, 1 << 30, 1, members=range(workers))
    solution = best_shares(on, what, with_devices=False)
    assert solution.time_ns / 1e7 == pytest.approx(mixed(*counts), rel=2e-3)
    from_servers = sum(
        amount
        for column, amount in zip(solution.columns, solution.bytes.tolist(), strict=True)
        if on.link_src[next(trip for trip in column.trips if not trip.adds).links[0]] >= workers
    )
    assert from_servers / solution.total == pytest.approx(server_share(*counts), abs=0.02)


def test_schedules_take_what_theory_says():
    """Within 3%, of which less than 1% is latency; dedicated servers win from 3 on."""
    rows = list(server_rows(4, (0, 1, 2, 4), 64 * MIB, (100.0, 500.0), 128, 4.0))
    assert [(row.kind, row.servers) for row in rows] == [
        (NONE, 0),
        *((kind, count) for count in (1, 2, 4) for kind in (ONLY_SERVERS, MIXED)),
        (BOX, 1),
    ]
    for row in rows:
        assert row.programme_ns / row.unit_ns == pytest.approx(row.formula, rel=2e-3)
        assert row.formula * 0.999 <= row.time_ns / row.unit_ns <= row.formula * 1.03
        assert row.bound_ns <= row.time_ns + 1
    assert [row.time_ns < rows[0].time_ns for row in rows if row.kind == MIXED] == [True] * 3
    assert fewest_that_win(4) == 3 and dedicated(4, 3) < colocated(4) < dedicated(4, 2)
    assert fewest_that_win(8) == 5 and dedicated(8, 5) < colocated(8) < dedicated(8, 4)


def test_racks_that_sum_up_first_are_what_the_programme_finds():
    """Two racks of two, uplinks of half a port: flat shards would take 4 S / B, sums by rack 2 S / B."""
    assert racks_flat(2, 2, 0.5) == 4.0 and racks_summed(2, 2, 0.5) == 2.0
    assert racks_summed(4, 4, 0.5, dedicated_at_the_top=True) == 2.0 and racks_summed(4, 4, 0.5) == 3.0
    on = racks(2, 2, up_gibps=50.0)
    what = make_collective("all-reduce", on.num_npus, 1 << 30, 1, members=on.endpoints)
    assert solve(Demands(on, what, 0)).time_ns / 1e7 == pytest.approx(2.0, rel=2e-3)


@examples(10)
@given(
    st.integers(2, 5),
    st.integers(1, 3),
    st.sampled_from(sorted(COLLECTIVES.keys() - PERSONALISED)),
    st.integers(1, 6),
    st.sampled_from(("Switch", "FullyConnected")),
    st.sampled_from(("pipelined", "blocking")),
)
def test_any_collective_and_number(workers, servers, name, chunks, block, model):
    on = topology(f"{block} {workers + servers} 100")
    what = make_collective(name, workers + servers, 700_001, chunks, members=range(workers))
    assert SYNTHESIZERS["parameter-server"].why_not(on, what) is None
    of = check(made_by("parameter-server", on, what, model))
    if model == "pipelined":
        stand_in = stand_in_of(of)
        assert stand_in.network.is_exact
        replayed = replay_trace(stand_in.trace(), stand_in.network.to_config(), "congestion-aware")
        assert replayed.collective_time_ns == of.collective_time_ns


def test_refusals():
    refuse = SYNTHESIZERS["parameter-server"].why_not
    ring = topology("Ring 6 100")
    assert "if all NPUs serve, the algorithm is direct" in str(refuse(ring, make_collective("all-reduce", 6, MIB)))
    assert "without passing NPUs" in str(refuse(ring, make_collective("all-reduce", 6, MIB, members=range(4))))
    large = topology("Switch 130 100")
    assert "at most 128 NPUs" in str(refuse(large, make_collective("all-reduce", 130, MIB, members=range(4))))
