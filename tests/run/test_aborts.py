"""What stock ASTRA-sim aborts at: as the real programs did in 212 replays of random runs (12 of them "may abort")."""

from __future__ import annotations

import pytest
from helpers.lint_runs import RunFiles

from astra_tacos.replayer.run_replay import replay_run
from astra_tacos.run.aborts import aborts_of
from astra_tacos.run.backend import CONGESTION_AWARE, CONGESTION_UNAWARE
from astra_tacos.run.run import RunInputs, read_run

COMPUTE, RING = "comp 0", {"topology": ["Ring"]}


def reasons(folder, backend, ranks, **settings):
    run = read_run(RunInputs(**RunFiles(ranks, **settings).write(folder)))
    return aborts_of(run, replay_run(run, backend))


@pytest.mark.parametrize("backend", [CONGESTION_AWARE, CONGESTION_UNAWARE])
@pytest.mark.parametrize(
    ("ranks", "does"),
    [
        ("comp 0 is_cpu_op=True; send 1 1 [0] | recv 0 0", "abort as rank 0 ends"),
        ("send 0 1 | comp 0 is_cpu_op=True; recv 1 0 [0]", "abort as rank 1 ends"),
        ("send 0 1 | recv 1 0; INVALID 2 [1]", "abort as rank 1 ends"),
        ("comp 0 is_cpu_op=True; send 1 1 [0]; comp 2 [1] | recv 0 0", None),
        ("send 0 1; comp 1 [0] is_cpu_op=True | recv 0 0", None),
        ("comp 0 is_cpu_op=True; coll 1 [0] | coll 0", None),
        ("comp 0; send 1 1 [0] | recv 0 0", None),
    ],
)
def test_statistics_abort_where_a_message_is_last(tmp_path, ranks, does, backend):
    found = reasons(tmp_path, backend, ranks)
    assert len(found) == (does is not None) and (does or "") in "".join(found)


def test_a_message_that_ends_with_another_node_may_be_last(tmp_path):
    ranks = "send 0 1 size=26844 | comp 0 is_cpu_op=True us=1; recv 1 0 size=26844"
    (reason,) = reasons(tmp_path, CONGESTION_AWARE, ranks)
    assert "may abort as rank 1 ends" in reason


@pytest.mark.parametrize(
    ("backend", "size", "aborts"), [(CONGESTION_AWARE, 2, True), (CONGESTION_UNAWARE, 2, False), (CONGESTION_AWARE, 3, False)]
)
def test_a_ring_of_two_aborts_with_queues(tmp_path, backend, size, aborts):
    found = reasons(tmp_path, backend, " | ".join([COMPUTE] * size), **RING)
    assert [reason.split()[:5] for reason in found] == [
        ["AstraSim_Analytical_Congestion_Aware", "aborts", "at", "its", "start"]
    ] * aborts
